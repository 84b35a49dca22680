/**
 * The state that an agent's journal gives: standings only rise, restorations revert them, lines keep
 * counting.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import type { AgentFact } from "../../../../agent/outbox/agent-fact.js";
import { emptyOutbox } from "../../../../agent/outbox/outbox-fold.js";
import {
  awaitingReceipts,
  keptVersions,
  lostByRestore,
  pinnedSamples,
  toAnnounce,
  unreleased,
  type OutboxState,
} from "../../../../agent/outbox/outbox-state.js";
import { forgettable } from "../../../../agent/resources/disk-budget.js";
import { foldFacts, id, receipt, saved } from "./facts.js";

const standing = (state: OutboxState, number: number): string | undefined =>
  state.entries.get(id(number))?.standing;

describe("the outbox's state", () => {
  it("announces pending versions, oldest first, and keeps asking about versions that are not released", () => {
    const state = foldFacts([
      saved(1),
      saved(2, [id(1)]),
      saved(3, [id(2)]),
      receipt(1, "released"),
      receipt(2, "recorded"),
    ]);
    assert.deepEqual(
      toAnnounce(state).map(({ sequence }) => sequence),
      [3],
    );
    assert.deepEqual(
      awaitingReceipts(state).map(({ sequence }) => sequence),
      [2],
    );
    assert.equal(unreleased(state).length, 2);
    assert.deepEqual(pinnedSamples(state, "cam"), [
      { from: 2, to: 3 },
      { from: 3, to: 4 },
    ]);
  });
  it("does not lower a standing on a late receipt", () => {
    const state = foldFacts([saved(1), receipt(1, "released"), receipt(1, "recorded"), receipt(1, "stored")]);
    assert.equal(standing(state, 1), "released");
  });
  it("keeps the server's number of a version", () => {
    const entry = foldFacts([saved(1), receipt(1, "recorded", 7)]).entries.get(id(1));
    assert.deepEqual([entry?.name, entry?.version, entry?.position], ["m", 1, 7]);
  });
  it("reverts the standing of what a restored server lost, and names versions that the device no longer has", () => {
    const before = foldFacts([
      saved(1),
      saved(2),
      saved(3),
      receipt(1, "released", 4),
      receipt(2, "released", 9),
      receipt(3, "recorded", 12),
      { type: "forgotten", atMs: 0, versionId: id(2) },
    ]);
    assert.deepEqual(
      lostByRestore(before, 9).map(({ sequence }) => sequence),
      [2],
    );
    const after = foldFacts([{ type: "restored", atMs: 0, position: 9 }], before);
    assert.deepEqual([standing(after, 1), standing(after, 3)], ["released", "pending"]);
    assert.deepEqual(
      toAnnounce(after).map(({ sequence }) => sequence),
      [3],
    );
    assert.equal(after.seen, undefined);
  });
  it("waits for a backup if the profile requires one, and learns of it from a later receipt of another version", () => {
    const facts = [
      saved(1),
      saved(2),
      saved(3),
      receipt(1, "released", 5),
      receipt(2, "released", 6),
      receipt(3, "released", 7),
    ];
    const gone = (state: OutboxState, when: "stored" | "backed-up"): readonly string[] =>
      forgettable(keptVersions(state, when), 1);
    assert.equal(gone(foldFacts(facts), "stored").length, 2);
    assert.equal(gone(foldFacts(facts), "backed-up").length, 0);
    assert.deepEqual(gone(foldFacts([...facts, receipt(3, "released", 7, 7)]), "backed-up"), [id(1)]);
  });
  it("keeps a base while a child of it is not released", () => {
    const state = foldFacts([
      saved(1),
      receipt(1, "released"),
      saved(2),
      receipt(2, "released"),
      saved(3, [id(1)]),
    ]);
    assert.deepEqual(forgettable(keptVersions(state, "stored"), 1), []);
  });
  it("keeps the newest staged version, whatever came after it", () => {
    const staged = (number: number): AgentFact => ({
      type: "adopted",
      atMs: 0,
      versionId: id(number),
      line: "cam",
      name: "base",
      version: number,
      tensorBytes: 10,
      staged: true,
    });
    const trained = [11, 12, 13].flatMap((number) => [saved(number), receipt(number, "released")]);
    const state = foldFacts([staged(1), staged(2), ...trained]);
    assert.deepEqual(
      new Set(forgettable(keptVersions(state, "stored"), 1)),
      new Set([id(1), id(11), id(12)]),
    );
    const run = foldFacts(
      [{ type: "activated", atMs: 1, versionId: id(2), line: "cam", clockErrorMs: null, session: 1 }],
      state,
    );
    assert.deepEqual(run.lines.get("cam")?.staged, [id(1)]);
  });

  it("keeps a base's base too, which the child's transfer may be coded against", () => {
    const facts = [
      saved(1),
      receipt(1, "released"),
      saved(2, [id(1)]),
      receipt(2, "released"),
      saved(3, [id(2)]),
    ];
    assert.deepEqual(forgettable(keptVersions(foldFacts(facts), "stored"), 1), []);
    assert.deepEqual(forgettable(keptVersions(foldFacts([...facts, receipt(3, "released")]), "stored"), 2), [
      id(1),
    ]);
  });

  const fact = fc.oneof(
    fc.integer({ min: 1, max: 6 }).map((number) => saved(number, number > 1 ? [id(number - 1)] : [])),
    fc
      .record({
        number: fc.integer({ min: 1, max: 6 }),
        kind: fc.constantFrom("recorded", "stored", "released"),
        position: fc.nat(20),
      })
      .map(({ number, kind, position }) => receipt(number, kind as "recorded", position)),
    fc.nat(20).map((position): AgentFact => ({ type: "restored", atMs: 0, position })),
    fc.integer({ min: 1, max: 6 }).map((number): AgentFact => ({
      type: "activated",
      atMs: 0,
      versionId: id(number),
      line: "cam",
      clockErrorMs: null,
      session: 1,
    })),
  );
  it("never lists an unreleased version among what may be forgotten, whatever the order of facts", () => {
    fc.assert(
      fc.property(fc.array(fact, { maxLength: 40 }), fc.integer({ min: 1, max: 3 }), (facts, keepLast) => {
        const state = foldFacts(facts);
        const gone = new Set(forgettable(keptVersions(state, "stored"), keepLast));
        for (const entry of unreleased(state)) assert.ok(!gone.has(entry.versionId));
        assert.equal(
          foldFacts(facts.slice(5), foldFacts(facts.slice(0, 5), emptyOutbox)).entries.size,
          state.entries.size,
        );
      }),
    );
  });
});
