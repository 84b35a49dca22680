/** Trainings that were cut short: what the journal keeps of them, and when they begin again or are given up. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import type { AgentFact } from "../../../../agent/outbox/agent-fact.js";
import type { BegunJob } from "../../../../agent/outbox/outbox-state.js";
import { keptVersions, pinnedSamples, type BegunTraining } from "../../../../agent/outbox/outbox-state.js";
import { forgettable } from "../../../../agent/resources/disk-budget.js";
import {
  decideAgain,
  maxTries,
  type AgainDecision,
  type AgainInput,
} from "../../../../agent/trainer/begun-training.js";
import { testProfile } from "../../../helpers/agent-fixtures.js";
import { foldFacts, id, receipt, saved } from "../outbox/facts.js";

const job: BegunJob = {
  base: id(1),
  recipe: "r",
  parameters: {},
  dataset: { reader: "samples", parameters: { segments: ["000000000000.samples:80"] } },
  seed: "7",
  samples: { from: 3, to: 9 },
};
const at = { atMs: 0, line: "cam", invocation: 4 } as const;
const began: AgentFact = { type: "training", ...at, because: "clock", samplesEnd: 9, job };
const again: AgentFact = { type: "training-again", ...at };
const paused: AgentFact = { type: "training-paused", ...at };
const failed: AgentFact = { type: "training-failed", ...at, code: "NOT_A_NUMBER", message: "" };
const begunAfter = (...facts: readonly AgentFact[]): BegunTraining | undefined =>
  foldFacts(facts).lines.get("cam")?.begun;

describe("a training that was cut short", () => {
  it("is begun until its own result or failure is in the journal", () => {
    assert.deepEqual(begunAfter(began)?.job, job);
    assert.equal(begunAfter(began, failed), undefined);
    assert.equal(begunAfter(began, { ...saved(2), invocation: 4 } as AgentFact), undefined);
    assert.notEqual(begunAfter(began, saved(2)), undefined, "a model that no training made");
    assert.notEqual(begunAfter(began, { ...failed, invocation: 3 }), undefined);
    const { job: _, ...old } = began;
    assert.equal(begunAfter(old), undefined, "a journal of an earlier release does not say what it was");
  });
  it("counts the tries that ended without a word, not those that were stopped in order", () => {
    assert.deepEqual([begunAfter(began)?.tries, begunAfter(began, again, again)?.tries], [1, 3]);
    const stopped = begunAfter(began, paused, again, paused, again);
    assert.deepEqual([stopped?.tries, stopped?.isPaused], [1, false]);
    assert.equal(begunAfter(began, paused)?.isPaused, true);
  });
  it("counts from the last try after which its saved state went further", () => {
    const from = (iteration: number): AgentFact => ({ ...again, iteration });
    const tries = (...facts: readonly AgentFact[]): number | undefined => begunAfter(began, ...facts)?.tries;
    assert.equal(tries(again, again, from(7)), 1);
    assert.equal(tries(from(7), from(7), from(7)), 3, "it did not get further");
    assert.equal(tries(from(7), again, from(5)), 3, "a state that was lost does not count as progress");
    const inPass = (iteration: number, samples: number): AgentFact => ({
      ...again,
      pass: { iteration, samples },
    });
    assert.equal(tries(again, inPass(0, 64)), 1, "an evaluation that gets further is progress");
    assert.equal(tries(inPass(0, 64), inPass(0, 64), inPass(0, 128), from(3), inPass(9, 64)), 1);
    assert.equal(tries(inPass(9, 128), inPass(9, 64)), 2);
    assert.equal(tries(...Array.from({ length: 50 }, (_, at) => from(at + 1))), 1);
  });
  it("keeps its base and its samples", () => {
    const facts = [saved(1), receipt(1, "released"), saved(2), receipt(2, "released"), began];
    const gone = (state: readonly AgentFact[]): readonly string[] =>
      forgettable(keptVersions(foldFacts(state), "stored"), 1);
    assert.deepEqual(gone(facts), []);
    assert.deepEqual(gone([...facts, failed]), [id(1)]);
    assert.deepEqual(pinnedSamples(foldFacts(facts), "cam"), [job.samples]);
    assert.deepEqual(pinnedSamples(foldFacts([...facts, failed]), "cam"), []);
  });
});

const input: AgainInput = {
  line: "cam",
  begun: { invocation: 4, because: "clock", job, tries: 1, isPaused: false },
  saved: { iteration: 0 },
  recipe: "r",
  training: testProfile({ "training.dutyHours": { from: 22, to: 6 } }).training,
  nowMs: 23 * 3_600_000,
  utcOffsetMinutes: 0,
  disk: { allowed: true, remainingBytes: 1, reason: "" },
  isSwitchedOff: false,
  isRequested: false,
};
const noon = 12 * 3_600_000;
const decided = (change: Partial<AgainInput>, begun: Partial<BegunTraining> = {}): AgainDecision =>
  decideAgain({ ...input, ...change, begun: { ...input.begun, ...begun } });

describe("when it begins again", () => {
  it("begins at once, then after growing pauses", () => {
    const pauses = Array.from({ length: maxTries - 1 }, (_, tries) => {
      const decision = decided({}, { tries: tries + 1 });
      return decision.do === "again" ? decision.afterMs : undefined;
    });
    assert.deepEqual(pauses, [0, 0, 15_000, 30_000, 60_000, 120_000, 240_000]);
    assert.deepEqual(decided({}, { tries: 7, isPaused: true }), { do: "again", afterMs: 0 });
  });
  it("is given up after many tries without a word, or when its line no longer has its recipe", () => {
    const isGivenUp = (decision: AgainDecision, code: "TRAINING_STOPPED" | "TRAINING_REFUSED"): boolean =>
      decision.do === "give-up" && isStemmaError(decision.error, code);
    assert.ok(isGivenUp(decided({}, { tries: maxTries }), "TRAINING_STOPPED"));
    assert.ok(isGivenUp(decided({ recipe: undefined }), "TRAINING_REFUSED"));
    assert.equal(decided({}, { tries: maxTries, isPaused: true }).do, "again");
    assert.equal(decided({ recipe: "other" }, { because: "asked" }).do, "again");
  });
  it("is not given up, and does not pause, while its saved state goes further", () => {
    const many = { tries: maxTries, iteration: 40 };
    assert.deepEqual(decided({ saved: { iteration: 41 } }, many), { do: "again", afterMs: 0 });
    assert.equal(decided({ saved: { iteration: 40 } }, many).do, "give-up");
    assert.deepEqual(decided({ saved: { iteration: 41 } }, { tries: 6 }), { do: "again", afterMs: 0 });
  });
  it("waits for the disk, and for the duty hours if no person asked for it", () => {
    assert.equal(decided({ disk: { allowed: false, remainingBytes: -1, reason: "" } }).do, "wait");
    assert.equal(decided({ nowMs: noon }).do, "wait");
    assert.equal(decided({ nowMs: noon }, { because: "asked" }).do, "again");
    assert.equal(decided({ nowMs: noon, isRequested: true }).do, "again");
  });
});
