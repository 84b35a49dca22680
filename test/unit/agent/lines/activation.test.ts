/** Which version a line switches to automatically, and which activations it reports to the server. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { activationsToReport, nextActivation } from "../../../../agent/lines/activation.js";
import type { AgentFact } from "../../../../agent/outbox/agent-fact.js";
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
    const report = (known?: number, more: readonly AgentFact[] = []): number[] =>
      activationsToReport(
        foldFacts([...facts, ...more]),
        "cam",
        known === undefined ? undefined : id(known),
      ).map(({ atMs }) => atMs);
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
});
