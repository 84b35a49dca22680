/** Which version a line switches to automatically, and which activations it reports to the server. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { activationsToReport, knownUpTo, nextActivation } from "../../../../agent/lines/activation.js";
import type { AgentFact } from "../../../../agent/outbox/agent-fact.js";
import { compactedFacts } from "../../../../agent/outbox/compacted-facts.js";
import { foldFacts, id, receipt, saved } from "../outbox/facts.js";

const adopted = (number: number): AgentFact => ({
  type: "adopted",
  atMs: 0,
  versionId: id(number),
  line: "cam",
  name: "base",
  version: 1,
  tensorBytes: 10,
});
const staged = (number: number): AgentFact => ({ ...adopted(number), staged: true }) as AgentFact;
const activated = (number: number): AgentFact => ({
  type: "activated",
  atMs: number,
  versionId: id(number),
  line: "cam",
  clockErrorMs: null,
  session: 1,
});
const chosen = (number: number): AgentFact => ({ ...activated(number), chosen: true }) as AgentFact;
const training = (invocation: number, base: number): AgentFact => ({
  type: "training",
  atMs: invocation,
  line: "cam",
  invocation,
  because: "clock",
  samplesEnd: 0,
  job: {
    base: id(base),
    recipe: "r",
    parameters: {},
    dataset: { reader: "images-generated", parameters: {} },
    seed: "1",
    samples: null,
  },
});
const trained = (number: number, base: number): AgentFact =>
  ({ ...saved(number, [id(base)]), invocation: number }) as AgentFact;
const next = (
  facts: readonly AgentFact[],
  when: "after-receipt" | "after-outbox" = "after-receipt",
): unknown => nextActivation(foldFacts(facts), "cam", when)?.versionId;

describe("activation", () => {
  it("waits for the receipt if the profile requires it", () => {
    const facts = [adopted(0), activated(0), saved(1, [id(0)])];
    assert.equal(next(facts), undefined);
    assert.equal(next(facts, "after-outbox"), id(1));
    assert.equal(next([...facts, receipt(1, "recorded")]), id(1));
  });
  it("activates the newest version that may run, and never an older one automatically", () => {
    const facts = [adopted(0), activated(0), saved(1, [id(0)]), saved(2, [id(0)])];
    assert.equal(next([...facts, receipt(1, "recorded")]), id(1));
    assert.equal(next([...facts, receipt(1, "recorded"), receipt(2, "recorded")]), id(2));
    assert.equal(
      next([...facts, receipt(2, "recorded"), activated(2), receipt(1, "recorded")]),
      undefined,
      "a late receipt of an older one",
    );
    assert.equal(
      next([...facts, receipt(2, "recorded"), activated(2), activated(0)]),
      undefined,
      "a person went back on purpose",
    );
  });
  it("never activates a staged version automatically, also where another one is staged after it", () => {
    const facts = [adopted(0), activated(0), staged(1)];
    assert.equal(next(facts), undefined);
    assert.equal(next([...facts, staged(2)]), undefined);
    assert.equal(next([...facts, saved(3, [id(0)]), receipt(3, "recorded")]), id(3));
    assert.equal(next([...facts, activated(1), saved(3, [id(1)]), receipt(3, "recorded")]), id(3));
  });
  it("runs what was chosen, not what was trained from the version before", () => {
    const facts = [adopted(0), activated(0), training(1, 0)];
    const isRecorded = [receipt(1, "recorded")];
    assert.equal(next([...facts, trained(1, 0), ...isRecorded]), id(1), "nothing was chosen");
    const during = [...facts, adopted(9), chosen(9), trained(1, 0), ...isRecorded];
    assert.equal(next(during), undefined, "chosen while it trained");
    assert.equal(next([...during, training(2, 9), trained(2, 9), receipt(2, "recorded")]), id(2));
    const waiting = [...facts, trained(1, 0), adopted(9), chosen(9), ...isRecorded];
    assert.equal(next(waiting), undefined, "chosen while the server had not answered");
    const back = [adopted(0), adopted(9), chosen(9), training(1, 9), chosen(0), trained(1, 9), ...isRecorded];
    assert.equal(next(back), undefined, "the training began from what a rollout had given");
    const between = [adopted(0), chosen(0), adopted(9), chosen(9), training(1, 0), trained(1, 0)];
    assert.equal(next([...between, ...isRecorded]), undefined, "chosen between its base and its begin");
    assert.equal(next([...during, chosen(1)]), undefined);
  });
  it("reports activations that the server does not know, oldest first, and none before the receipt", () => {
    const facts = [
      adopted(0),
      activated(0),
      saved(1, [id(0)]),
      activated(1),
      saved(2, [id(1)]),
      activated(2),
    ];
    const report = (known?: number, more: readonly AgentFact[] = []): number[] => {
      const state = foldFacts([...facts, ...more]);
      const after = knownUpTo(state, "cam", known === undefined ? undefined : { activeVersionId: id(known) });
      return activationsToReport(state, "cam", after).map(({ atMs }) => atMs);
    };
    assert.deepEqual(report(), [0]);
    assert.deepEqual(report(0), []);
    assert.deepEqual(report(0, [receipt(1, "recorded")]), [1]);
    assert.deepEqual(report(0, [receipt(1, "recorded"), receipt(2, "recorded")]), [1, 2]);
    assert.deepEqual(report(2, [receipt(1, "recorded"), receipt(2, "recorded")]), []);
    // A restored server has neither version; version 1 is gone here too, version 2 is announced again.
    const lost = [
      receipt(1, "released"),
      { type: "forgotten", atMs: 0, versionId: id(1) },
      receipt(2, "released"),
      { type: "restored", atMs: 0, position: 0 },
    ] as const;
    assert.deepEqual(report(0, lost), [1]);
    assert.deepEqual(report(0, [...lost, receipt(2, "recorded")]), [1, 2]);
  });
  it("finds the server's place in a history by number, so that a return is reported", () => {
    const there = [adopted(0), activated(0), adopted(1), activated(1)];
    const back = foldFacts([...there, activated(0)]);
    const due = (after: number): readonly number[] =>
      activationsToReport(back, "cam", after).map(({ number }) => number);
    const known = (number: number, versionId = id(0)): number =>
      knownUpTo(back, "cam", { activeVersionId: versionId, activeNumber: number });
    assert.deepEqual(due(known(1)), [2, 3]);
    assert.deepEqual(due(known(3)), []);
    assert.deepEqual(due(known(2)), [1, 2, 3], "number 2 is another version here: the home was put back");
    assert.deepEqual(due(known(4)), [1, 2, 3], "more than this home has: it was put back");
    assert.deepEqual(due(knownUpTo(back, "cam", undefined)), [1, 2, 3]);
  });
  it("keeps numbers over compactions and where old activations are dropped", () => {
    const facts = [adopted(0), adopted(1), ...Array.from({ length: 2100 }, (_, at) => activated(at % 2))];
    const state = foldFacts(facts);
    const again = foldFacts(compactedFacts(state, 0));
    for (const each of [state, again]) {
      const numbers = each.lines.get("cam")?.activations.map(({ number }) => number) ?? [];
      assert.equal(numbers.at(-1), 2100);
      assert.ok(numbers.length < 2100);
      assert.deepEqual(
        numbers,
        numbers.map((_, at) => (numbers[0] ?? 0) + at),
      );
      const dropped = knownUpTo(each, "cam", { activeVersionId: id(0), activeNumber: 1 });
      assert.equal(activationsToReport(each, "cam", dropped).length, numbers.length);
    }
    assert.equal(
      foldFacts([...compactedFacts(state, 0), activated(1)])
        .lines.get("cam")
        ?.activations.at(-1)?.number,
      2101,
    );
  });
});
