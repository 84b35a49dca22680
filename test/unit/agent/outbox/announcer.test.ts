/**
 * What is announced when: order, window, retries. Nothing is forgotten, and nothing is repeated too early.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import {
  afterAnnouncing,
  afterAnswer,
  announceWindow,
  decideAnnouncements,
  retryDelayMs,
  type Attempts,
} from "../../../../agent/outbox/announcer.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { foldFacts, id, receipt, saved } from "./facts.js";

const none: Attempts = new Map();
const numbers = (ids: readonly Hash[], most = 20): number[] =>
  ids.map(
    (versionId) =>
      Array.from({ length: most }, (_, at) => at).find((number) => id(number) === versionId) ?? -1,
  );

describe("the announcer", () => {
  it("announces siblings up to the window, and a child when its base is recorded", () => {
    const siblings = foldFacts([1, 2, 3, 4, 5, 6].map((number) => saved(number)));
    assert.deepEqual(numbers(decideAnnouncements(siblings, none, 0).now), [1, 2, 3, 4]);
    const chain = [saved(1), saved(2, [id(1)]), saved(3, [id(2)])];
    assert.deepEqual(numbers(decideAnnouncements(foldFacts(chain), none, 0).now), [1]);
    assert.deepEqual(
      numbers(decideAnnouncements(foldFacts([...chain, receipt(1, "released")]), none, 0).now),
      [2],
    );
  });
  it("announces again with growing delays, and returns when the next one is due", () => {
    const state = foldFacts([saved(1)]);
    const once = afterAnnouncing(none, id(1), 1000);
    assert.deepEqual(decideAnnouncements(state, once, 1001), { now: [], wakeAtMs: 1000 + retryDelayMs(1) });
    assert.deepEqual(numbers(decideAnnouncements(state, once, 1000 + retryDelayMs(1)).now), [1]);
    assert.ok(retryDelayMs(2) > retryDelayMs(1) && retryDelayMs(50) === retryDelayMs(60));
  });
  it("does not announce a refused version again in this session, nor its children", () => {
    const state = foldFacts([saved(1), saved(2, [id(1)]), saved(3)]);
    const refused = afterAnswer(none, id(1), { phase: "refused" }, 0);
    assert.deepEqual(numbers(decideAnnouncements(state, refused, 1e9).now), [3]);
  });
  it("does not repeat a version in transfer, and does not count parked ones in the window", () => {
    const state = foldFacts([1, 2, 3, 4, 5].map((number) => saved(number)));
    let attempts = none;
    for (const number of [1, 2, 3, 4])
      attempts = afterAnswer(
        afterAnnouncing(attempts, id(number), 0),
        id(number),
        { phase: "moving", retryInMs: 60_000 },
        0,
      );
    assert.deepEqual(decideAnnouncements(state, attempts, 59_999).now, []);
    attempts = afterAnswer(attempts, id(2), { phase: "parked", retryInMs: 600_000 }, 0);
    assert.deepEqual(numbers(decideAnnouncements(state, attempts, 1).now), [5]);
  });
  it("asks for the receipts that follow `recorded`", () => {
    const state = foldFacts([saved(1), receipt(1, "recorded")]);
    assert.deepEqual(numbers(decideAnnouncements(state, none, 0).now), [1]);
    assert.deepEqual(decideAnnouncements(foldFacts([saved(1), receipt(1, "released")]), none, 0), {
      now: [],
      wakeAtMs: undefined,
    });
  });
  it("announces every version of a line in its order, whichever is recorded first", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 12 }),
        fc.array(fc.boolean(), { maxLength: 12 }),
        (count, chained) => {
          const facts = Array.from({ length: count }, (_, at) =>
            saved(at + 1, at > 0 && chained[at] === true ? [id(at)] : []),
          );
          const order: number[] = [];
          let attempts = none;
          for (let step = 0; order.length < count && step < 100; step++) {
            const state = foldFacts([...facts, ...order.map((number) => receipt(number, "released"))]);
            const { now } = decideAnnouncements(state, attempts, step);
            assert.ok(now.length <= announceWindow);
            for (const versionId of now) attempts = afterAnnouncing(attempts, versionId, step);
            order.push(...numbers(now));
          }
          assert.deepEqual(
            order,
            Array.from({ length: count }, (_, at) => at + 1),
          );
        },
      ),
    );
  });
});
