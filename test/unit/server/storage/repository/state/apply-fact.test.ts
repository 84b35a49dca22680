/** Folding facts into a fleet's state keeps its invariants for any order and repetition of facts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../../../helpers/property-seed.js";
import { plainState } from "../../../../../helpers/plain-state.js";
import { lineKey } from "../../../../../../server/storage/repository/state/device-state.js";
import { applyFact } from "../../../../../../server/storage/repository/state/apply-fact.js";
import { backedUpTo } from "../../../../../../server/storage/repository/state/restore-state.js";
import { emptyState, type FleetState } from "../../../../../../server/storage/repository/state/state.js";
import { nextVersionNumber } from "../../../../../../server/storage/repository/state/apply-version.js";
import { versionsInUse } from "../../../../../../server/storage/repository/state/versions-in-use.js";
import type { Fact } from "../../../../../../shared/journal/fact.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";

const id = (n: number): Hash => n.toString(16).padStart(64, "0") as Hash;
const recorded = (n: number, name: string, version: number): Fact => ({
  type: "recorded",
  atMs: n,
  versionId: id(n),
  name,
  version,
  tensorBytes: 10,
  ownBytes: 4,
});
const enrolled = (device: string, publicKey = "k"): Fact => ({
  type: "enrolled",
  atMs: 1,
  device,
  publicKey,
  tokenHash: "t",
  profile: "generic",
  lines: ["a"],
});

function stateOf(...facts: readonly Fact[]): FleetState {
  const state = emptyState();
  facts.forEach((fact, position) => {
    applyFact(state, position, fact);
  });
  return state;
}

test("versions count per name in journal order; the same record again changes nothing", () => {
  const state = stateOf(
    recorded(1, "soh", 1),
    recorded(2, "cam", 1),
    recorded(3, "soh", 2),
    recorded(1, "soh", 3),
  );
  assert.equal(state.versions.get(id(3))?.version, 2);
  assert.equal(nextVersionNumber(state, "soh"), 3);
  assert.equal(nextVersionNumber(state, "new"), 1);
  assert.equal(state.ignoredFacts, 1);
  assert.equal(state.length, 4);
});

test("a tag points to one version at a time and can be taken away", () => {
  const tag = (versionId: Hash | null): Fact => ({
    type: "tagged",
    atMs: 1,
    name: "soh",
    tag: "best",
    versionId,
  });
  const state = stateOf(recorded(1, "soh", 1), recorded(2, "soh", 2), tag(id(1)), tag(id(2)));
  assert.deepEqual(
    [[...state.versions.get(id(1))!.tags], [...state.versions.get(id(2))!.tags]],
    [[], ["best"]],
  );
  applyFact(state, 4, tag(null));
  assert.deepEqual([[...state.versions.get(id(2))!.tags], state.tags.get("soh")!.size], [[], 0]);
});

test("stored, released and retired keep their first moment; a hold can be lifted", () => {
  const because = "x";
  const state = stateOf(
    recorded(1, "soh", 1),
    { type: "stored", atMs: 2, versionId: id(1) },
    { type: "stored", atMs: 9, versionId: id(1) },
    { type: "held", atMs: 3, versionId: id(1), because },
    { type: "unheld", atMs: 4, versionId: id(1), because },
    { type: "retired", atMs: 5, versionId: id(1), because },
    { type: "retired", atMs: 6, versionId: id(1), because },
  );
  const version = state.versions.get(id(1))!;
  assert.deepEqual([version.storedAtMs, version.hold, version.retired], [2, undefined, { atMs: 5, because }]);
});

test("facts about unknown versions and devices are counted and change nothing; newer facts are tolerated", () => {
  const state = stateOf(
    { type: "stored", atMs: 1, versionId: id(9) },
    { type: "revoked", atMs: 1, device: "ghost", because: "" },
    { type: "newer-kind", atMs: 1 } as unknown as Fact,
  );
  assert.deepEqual([state.ignoredFacts, state.unknownFacts, state.length, state.versions.size], [2, 1, 3, 0]);
});

test("versions that a device runs or was assigned are in use until it is revoked; enrolling again keeps its history", () => {
  const state = stateOf(
    recorded(1, "a", 1),
    recorded(2, "a", 2),
    enrolled("car"),
    { type: "assigned", atMs: 1, device: "car", line: "a", versionId: id(1) },
    {
      type: "activated",
      atMs: 5,
      versionId: id(2),
      device: "car",
      line: "a",
      deviceAtMs: 4,
      deviceClockErrorMs: 1,
      session: 1,
    },
  );
  assert.deepEqual([...versionsInUse(state).keys()], [id(1), id(2)]);
  applyFact(state, 5, { type: "revoked", atMs: 6, device: "car", because: "sold" });
  assert.equal(versionsInUse(state).size, 0);
  applyFact(state, 6, enrolled("car", "k2"));
  const device = state.devices.get("car")!;
  assert.deepEqual(
    [device.status, device.publicKey, [...state.activations.of(lineKey("car", "a"))].length],
    ["enrolled", "k2", 1],
  );
});

test("an assignment is answered when its version is activated, and one of an enrolment needs no answer", () => {
  const assigned = (atMs: number, line: string, version: number): Fact => ({
    type: "assigned",
    atMs,
    device: "car",
    line,
    versionId: id(version),
  });
  const activated = (line: string, version: number): Fact => ({
    type: "activated",
    atMs: 5,
    versionId: id(version),
    device: "car",
    line,
    deviceAtMs: 4,
    deviceClockErrorMs: 1,
    session: 1,
  });
  const enrolment = enrolled("car");
  const state = stateOf(enrolment, assigned(enrolment.atMs, "a", 1));
  const unanswered = (): readonly string[] => [...state.devices.get("car")!.unanswered];
  assert.deepEqual(unanswered(), []);
  const append = (fact: Fact): void => {
    applyFact(state, state.length, fact);
  };
  append(activated("a", 1));
  append(activated("a", 2));
  append(assigned(enrolment.atMs + 1, "a", 1));
  assert.deepEqual(unanswered(), ["a"], "back to an earlier version");
  append(activated("a", 3));
  assert.deepEqual(unanswered(), ["a"], "another version does not answer it");
  append(activated("a", 1));
  assert.deepEqual(unanswered(), []);
  append(assigned(enrolment.atMs + 2, "a", 1));
  assert.deepEqual(unanswered(), [], "it runs already");
  append(activated("a", 4));
  assert.deepEqual(unanswered(), [], "trained since");
});

test("an assignment that crosses the report of a switch is open again", () => {
  const state = stateOf(enrolled("car"), recorded(1, "m", 1), recorded(2, "m", 2), recorded(3, "m", 3));
  const fact = (type: "assigned" | "activated", version: number): void => {
    applyFact(
      state,
      state.length,
      type === "assigned"
        ? { type, atMs: 9, device: "car", line: "a", versionId: id(version) }
        : {
            type,
            atMs: 9,
            versionId: id(version),
            device: "car",
            line: "a",
            deviceAtMs: state.length,
            deviceClockErrorMs: 1,
            session: 1,
          },
    );
  };
  const isOpen = (): boolean => state.devices.get("car")!.unanswered.has("a");
  fact("activated", 1);
  fact("assigned", 1);
  assert.equal(isOpen(), false, "it runs what it is assigned");
  fact("activated", 2);
  assert.equal(isOpen(), true, "it had switched before");
  fact("activated", 1);
  assert.equal(isOpen(), false);
  fact("activated", 3);
  assert.equal(isOpen(), false, "it switched by itself, after it had followed");
  fact("activated", 1);
  fact("assigned", 1);
  applyFact(state, state.length, recorded(4, "m", 4));
  fact("activated", 4);
  assert.equal(isOpen(), false, "it trained since");
});

test("the positions of backups and restores are kept", () => {
  const state = stateOf(
    { type: "backup", atMs: 1, position: 7, location: "/b" },
    { type: "backup", atMs: 2, position: 5, location: "/c" },
  );
  assert.equal(backedUpTo(state), 7);
  applyFact(state, 2, { type: "restored", atMs: 3, position: 9, lostFrom: null });
  assert.equal(backedUpTo(state), 9);
});

test("the latest retention rule of each scope applies until it is removed; versions ever assigned to a device are remembered", () => {
  const rule = (text: string | null, line: string | null = null, name: string | null = null): Fact => ({
    type: "retention",
    atMs: 1,
    line,
    name,
    rule: text,
  });
  const state = stateOf(
    rule("1 day"),
    rule("2 days", "fleet"),
    rule("3 days", null, "fleet"),
    rule("4 days"),
    rule(null, "fleet"),
    recorded(1, "a", 1),
    recorded(2, "a", 2),
    enrolled("car"),
    { type: "assigned", atMs: 1, device: "car", line: "a", versionId: id(1) },
    { type: "assigned", atMs: 2, device: "car", line: "a", versionId: id(2) },
  );
  assert.deepEqual(
    [...state.retention.values()],
    [
      { line: null, name: null, rule: "4 days", atMs: 1 },
      { line: null, name: "fleet", rule: "3 days", atMs: 1 },
    ],
  );
  assert.deepEqual([...state.distributed], [id(1), id(2)]);
});

test("any sequence of facts keeps the invariants", () => {
  const names = fc.constantFrom("a", "b");
  const fact = fc.oneof(
    fc.record({
      type: fc.constant("recorded" as const),
      atMs: fc.nat(100),
      versionId: fc.nat(9).map(id),
      name: names,
      version: fc.integer({ min: 1, max: 6 }),
      pack: fc.constant(null),
    }),
    fc.record({
      type: fc.constantFrom("stored" as const, "retired" as const, "held" as const, "released" as const),
      atMs: fc.nat(100),
      versionId: fc.nat(9).map(id),
      because: fc.constant("x"),
    }),
    fc.record({
      type: fc.constant("tagged" as const),
      atMs: fc.nat(100),
      name: names,
      tag: fc.constantFrom("t", "u"),
      versionId: fc.option(fc.nat(9).map(id)),
    }),
  );
  fc.assert(
    fc.property(fc.array(fact, { maxLength: 60 }), (facts) => {
      const state = stateOf(...(facts as Fact[]));
      assert.equal(state.length, facts.length);
      const newest = new Map<string, number>();
      for (const { name, version } of state.versions.values()) {
        assert.ok(version > (newest.get(name) ?? 0));
        newest.set(name, version);
      }
      for (const [name, version] of newest) assert.equal(state.names.last(name)?.order, version);
      for (const tags of state.tags.values())
        for (const [tag, versionId] of tags) assert.ok(state.versions.get(versionId)!.tags.has(tag));
      assert.deepEqual(
        plainState(stateOf(...(facts as Fact[]))),
        plainState(state),
        "the same facts give the same state",
      );
    }),
    { numRuns: 300 },
  );
});
