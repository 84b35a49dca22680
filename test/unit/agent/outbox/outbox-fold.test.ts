/** A journal that was compacted gives the same state, and the state's size does not grow with the years. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import type { AgentFact } from "../../../../agent/outbox/agent-fact.js";
import { compactedFacts } from "../../../../agent/outbox/compacted-facts.js";
import { lostByRestore, type OutboxState } from "../../../../agent/outbox/outbox-state.js";
import { nextActivation } from "../../../../agent/lines/activation.js";
import { depth } from "../../../helpers/test-depth.js";
import { foldFacts, id, receipt, saved } from "./facts.js";

const activated = (number: number, line = "cam"): AgentFact => ({
  type: "activated",
  atMs: number,
  versionId: id(number),
  line,
  clockErrorMs: null,
  session: 1,
});
const forgotten = (number: number): AgentFact => ({ type: "forgotten", atMs: 0, versionId: id(number) });
const adopted = (number: number, line: string, isStaged = false): AgentFact => ({
  type: "adopted",
  atMs: 0,
  versionId: id(number),
  line,
  name: "base",
  version: number,
  tensorBytes: 10,
  ...(isStaged ? { staged: true } : {}),
});
/** As a journal gives facts back: JSON. */
const reread = (facts: readonly AgentFact[]): readonly AgentFact[] =>
  JSON.parse(JSON.stringify(facts)) as readonly AgentFact[];
const compacted = (state: OutboxState): OutboxState => foldFacts(reread(compactedFacts(state, 0)));

/** What a line does for each model: train, report, activate, forget the one of three models before. */
function* lifeOf(versions: number, backups: boolean): Generator<AgentFact> {
  for (let number = 1; number <= versions; number++) {
    yield {
      type: "training",
      atMs: number,
      line: "cam",
      invocation: number,
      because: "clock",
      samplesEnd: number,
    };
    yield saved(number, [id(number - 1)]);
    yield receipt(number, "recorded", 3 * number, backups ? 3 * (number - 24) : 0);
    yield activated(number);
    yield receipt(number, "released", 3 * number, backups ? 3 * (number - 24) : 0);
    if (number > 3) yield forgotten(number - 3);
  }
}

const fact = fc.oneof(
  fc.integer({ min: 1, max: 6 }).map((number) => saved(number, number > 1 ? [id(number - 1)] : [])),
  fc
    .record({
      number: fc.integer({ min: 1, max: 6 }),
      line: fc.constantFrom("cam", "pack"),
      isStaged: fc.boolean(),
    })
    .map(({ number, line, isStaged }) => adopted(number, line, isStaged)),
  fc
    .record({
      number: fc.integer({ min: 1, max: 6 }),
      kind: fc.constantFrom("recorded", "stored", "released"),
      position: fc.nat(20),
      backup: fc.nat(20),
    })
    .map(({ number, kind, position, backup }) => receipt(number, kind as "recorded", position, backup)),
  fc.nat(20).map((position): AgentFact => ({ type: "restored", atMs: 0, position })),
  fc.integer({ min: 1, max: 6 }).map((number) => activated(number)),
  fc.integer({ min: 1, max: 6 }).map((number) => ({ ...activated(number), chosen: true }) as AgentFact),
  fc.integer({ min: 1, max: 6 }).map((invocation): AgentFact => ({
    type: "training",
    atMs: 0,
    line: "cam",
    invocation,
    because: "clock",
    samplesEnd: 0,
    job: {
      base: id(invocation),
      recipe: "r",
      parameters: {},
      dataset: { reader: "images-generated", parameters: {} },
      seed: "1",
      samples: null,
    },
  })),
  fc.integer({ min: 1, max: 6 }).map((number) => ({ ...saved(number), invocation: number }) as AgentFact),
  fc.integer({ min: 1, max: 6 }).map(forgotten),
);

describe("the compaction of the outbox's journal", () => {
  it("gives the same state, and the same state after further facts", () => {
    fc.assert(
      fc.property(fc.array(fact, { maxLength: 40 }), fc.array(fact, { maxLength: 20 }), (before, after) => {
        const state = foldFacts(before);
        assert.deepEqual(compacted(state), state);
        assert.deepEqual(foldFacts(after, compacted(state)), foldFacts([...before, ...after]));
        assert.deepEqual(
          nextActivation(compacted(state), "cam", "after-receipt"),
          nextActivation(state, "cam", "after-receipt"),
        );
      }),
    );
  });

  it("keeps of thousands of versions what is here, and the receipts that no backup covers", () => {
    const versions = depth(5_000, 20_000);
    const backed = foldFacts(lifeOf(versions, true));
    assert.ok(backed.entries.size <= 4 && backed.receipts.size <= 24, `${backed.receipts.size} receipts`);
    assert.ok(compactedFacts(backed, 0).length < 16);
    const bare = foldFacts(lifeOf(versions, false));
    assert.equal(bare.receipts.size, versions - 3);
    assert.equal(lostByRestore(bare, 3 * (versions - 1_000)).length, 1001 - 3, "every loss can be named");
    assert.ok(compactedFacts(bare, 0).length < 40);
    assert.ok((bare.lines.get("cam")?.activations.length ?? 0) <= 2048);
    assert.deepEqual(compacted(bare), bare);
  });

  it("takes as many steps per version after thousands of versions as after two thousand", (t) => {
    // Every step over a map or list counts, also those of copies.
    let steps = 0;
    const values = Reflect.get(Map.prototype, "values") as (this: unknown) => MapIterator<unknown>;
    t.mock.method(Map.prototype, "values", function (this: Map<unknown, unknown>) {
      steps += this.size;
      return values.call(this);
    });
    const iterate = Reflect.get(Map.prototype, Symbol.iterator) as (this: unknown) => MapIterator<unknown>;
    t.mock.method(Map.prototype, Symbol.iterator, function (this: Map<unknown, unknown>) {
      steps += this.size;
      return iterate.call(this);
    });
    const stepsOf = (versions: number): number => {
      steps = 0;
      foldFacts(lifeOf(versions, true));
      return steps / versions;
    };
    const few = stepsOf(2_000);
    const many = stepsOf(depth(8_000, 20_000));
    assert.ok(many <= few * 1.1, `${many} steps for a version, ${few} at first`);
  });
});
