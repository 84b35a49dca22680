/** What a device tells of its live inputs, and what a rollout makes of it. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type {
  RolloutState,
  StagedVersion,
} from "../../../../../server/storage/repository/state/rollout-state.js";
import {
  isTrialOver,
  TrialEnder,
  type TrialEnderParts,
} from "../../../../../server/fleet/rollout/end-trials.js";
import { deviceThreshold, evidenceOnDevice } from "../../../../../server/fleet/rollout/evidence.js";
import {
  askTrial,
  isOnTrial,
  judgeLive,
  progressOf,
} from "../../../../../server/fleet/rollout/live-trial.js";
import { defaultPolicy } from "../../../../../shared/journal/facts/rollout-policy.js";
import { policyOf } from "../../../../../server/fleet/rollout/policy.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import type { RolloutPolicy } from "../../../../../shared/journal/facts/rollout-policy.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import { trialAnswer, type TrialAnswer } from "../../../../../shared/wire/live-trial.js";
import { manualClock } from "../../../../helpers/manual-clock.js";

const [before, next] = [sha256("before"), sha256("next")];
const live = { inputs: 100, minutes: 60, maxFailed: 0.02 };

function answerOf(changes: Partial<TrialAnswer> = {}): TrialAnswer {
  return {
    absent: "",
    isComplete: true,
    isOver: false,
    inputs: 100,
    failed: { version: 0, before: 0 },
    losses: { inputs: 100, meanDifference: 0, standardDeviation: 0.2 },
    change: null,
    slowdown: null,
    ...changes,
  };
}

const toldOf = (changes: Partial<TrialAnswer> = {}, isOwn = false) => ({
  before,
  isOwn,
  answer: answerOf(changes),
});

function verdictOf(
  changes: Partial<TrialAnswer>,
  policy: Partial<RolloutPolicy> = {},
  { comparisons = 1, isOwn = false } = {},
): string {
  const rollout = { policy: policyOf({ live, ...policy }), comparisons };
  const measured = { atMs: 1, before, because: "", trial: { slowdown: 1, moreBytes: 0 } };
  return judgeLive(rollout, measured, toldOf(changes, isOwn)).verdict;
}

describe("the progress of a trial", () => {
  it("is awaited until so many inputs were told of, or its time is over", () => {
    const absent = "its software has not asked for trials on live inputs";
    assert.deepEqual(progressOf(live, toldOf({ isComplete: false, inputs: 7, absent })), {
      waits: `its software compared 7 of 100 live inputs: ${absent}`,
      isOnTrial: true,
    });
    const over = progressOf(live, toldOf({ isComplete: false, inputs: 7, isOver: true }));
    assert.deepEqual("verdict" in over && [over.verdict, over.because], [
      "unknown",
      "its software compared 7 of 100 live inputs in time",
    ]);
    assert.deepEqual(progressOf(live, toldOf()), { told: toldOf() });
  });

  it("is not what a device says that tells of too few", () => {
    assert.ok("waits" in progressOf(live, toldOf({ inputs: 1 })));
  });

  it("ends where the version fails on more inputs than it may", () => {
    const failed = (version: number) =>
      progressOf(live, toldOf({ isComplete: false, inputs: 3, failed: { version, before: 50 } }));
    assert.ok("waits" in failed(2));
    const ended = failed(3);
    assert.deepEqual("verdict" in ended && [ended.verdict, ended.because], [
      "failed",
      "it failed on 3 live inputs",
    ]);
  });
});

describe("the verdict on live inputs", () => {
  it("is worse where the evidence reaches what is left of the level", () => {
    const losses = (meanDifference: number) => ({
      losses: { inputs: 100, meanDifference, standardDeviation: 1 },
    });
    assert.equal(verdictOf(losses(0.1)), "passed");
    assert.equal(verdictOf(losses(-5)), "passed");
    assert.equal(verdictOf(losses(0.6)), "worse");
    // Each comparison before it spends of the level.
    const compared = { samples: 100, meanDifference: 0.45, standardError: 0.1 };
    const evidence = evidenceOnDevice(compared, 0);
    assert.ok(evidence >= deviceThreshold(0.05, 2) && evidence < deviceThreshold(0.05, 30));
    assert.equal(verdictOf(losses(0.45)), "worse");
    assert.equal(verdictOf(losses(0.45), {}, { comparisons: 29 }), "passed");
  });

  it("keeps a device's own model that is better on them, if the rollout says so", () => {
    const losses = (meanDifference: number) => ({
      losses: { inputs: 100, meanDifference, standardDeviation: 1 },
    });
    const keep = { own: "keep" } as const;
    assert.equal(verdictOf(losses(0.1), keep, { isOwn: true }), "kept");
    assert.equal(verdictOf(losses(0.1), keep, { isOwn: false }), "passed", "somebody else trained it");
    assert.equal(verdictOf(losses(0.1), {}, { isOwn: true }), "passed", "the rollout does not say so");
    assert.equal(verdictOf(losses(0), keep, { isOwn: true }), "passed", "it is no better");
    assert.equal(verdictOf(losses(0.6), keep, { isOwn: true }), "worse");
  });

  it("is not passed by outputs without labels, unless the rollout limits their change", () => {
    const unlabelled = { losses: null, change: 0.05 };
    assert.equal(verdictOf(unlabelled), "failed");
    assert.equal(verdictOf(unlabelled, { unmeasured: "switch" }), "passed");
    assert.equal(verdictOf(unlabelled, { maxChange: 0.1 }), "passed");
    assert.equal(verdictOf(unlabelled, { maxChange: 0.01 }), "failed");
    // Nor by a few labelled ones among them.
    const few = { losses: { inputs: 3, meanDifference: -1, standardDeviation: 0 }, change: 0.05 };
    assert.equal(verdictOf(few), "failed");
  });

  it("spends of the level exactly what the comparisons before it left", () => {
    const losses = { inputs: 100, meanDifference: 0.45, standardDeviation: 1 };
    const compared = { samples: 100, meanDifference: 0.45, standardError: 0.1 };
    const last = [...Array(100).keys()]
      .filter((spent) => evidenceOnDevice(compared, 0) >= deviceThreshold(0.05, spent + 1))
      .pop()!;
    assert.equal(verdictOf({ losses }, {}, { comparisons: last }), "worse");
    assert.equal(verdictOf({ losses }, {}, { comparisons: last + 1 }), "passed");
  });

  it("is taken for good neither over a gate nor where a gate has no answer, whatever the losses", () => {
    const unmeasured = { unmeasured: "switch" } as const;
    assert.equal(verdictOf({ slowdown: 3 }, { maxSlowdown: 2, ...unmeasured }), "failed");
    assert.equal(verdictOf({ change: 0.5 }, { maxChange: 0.1, ...unmeasured }), "failed");
    assert.equal(verdictOf({}, { maxChange: 0.1 }), "failed", "its change was not told");
    assert.equal(verdictOf({}, { maxChange: 0.1, ...unmeasured }), "passed");
  });

  it("fails where inputs take too long, as the device's software measured it", () => {
    assert.equal(verdictOf({ slowdown: 3 }, { maxSlowdown: 2 }), "failed");
    assert.equal(verdictOf({ slowdown: 1.5 }, { maxSlowdown: 2 }), "passed");
    assert.equal(verdictOf({}, { maxSlowdown: 2 }), "passed");
  });
});

describe("a device that is asked for its trial", () => {
  const known = { state: "enrolled", lines: ["a"], active: { a: { versionId: before } } };
  const repository = {
    device: () => known,
    get: () => ({ versionId: before, record: { device: "other" } }),
  } as unknown as Parameters<typeof askTrial>[1];
  const rollout = {
    name: "r",
    line: "a",
    versionId: next,
    policy: { ...defaultPolicy, live },
    members: new Map(),
  } as unknown as RolloutState;
  const asked: string[] = [];
  const ask = (code: string, result: unknown, from = repository) =>
    askTrial(
      {
        command: (_, { name }) => {
          asked.push(name);
          return Promise.resolve({ code, result });
        },
      },
      from,
      rollout,
      "car",
    );

  it("is not asked where it left, or runs the version already", async () => {
    const where = (change: object) =>
      ({ ...repository, device: () => ({ ...known, ...change }) }) as unknown as typeof repository;
    const left = await ask("", answerOf(), where({ state: "revoked" }));
    assert.deepEqual("verdict" in left && left.verdict, "left");
    const has = await ask("", answerOf(), where({ active: { a: { versionId: next } } }));
    assert.deepEqual("verdict" in has && [has.verdict, has.before], ["passed", null]);
    assert.deepEqual(asked, []);
    assert.ok("told" in (await ask("", answerOf())));
    assert.deepEqual(asked, ["trial"]);
  });

  it("is on trial once it has measured beside what it runs now, if the rollout has one", () => {
    const isOn = (measured: object | undefined, policy: object = { live }) =>
      isOnTrial(
        repository,
        { policy, line: "a", members: new Map([["car", { measured }]]) } as unknown as RolloutState,
        "car",
      );
    assert.equal(isOn({ before }), true);
    assert.equal(isOn({ before: next }), false, "it runs another one since");
    assert.equal(isOn(undefined), false);
    assert.equal(isOn({ before }, {}), false);
  });

  it("is asked again where it answers with something else, or cannot answer yet", async () => {
    const garbage: readonly unknown[] = [
      null,
      "x",
      {},
      { ...answerOf(), inputs: -1 },
      { ...answerOf(), inputs: 1e9 },
      { ...answerOf(), losses: { inputs: 0, meanDifference: 0, standardDeviation: 0 } },
      { ...answerOf(), losses: { inputs: 100, meanDifference: 1e300, standardDeviation: 1 } },
      { ...answerOf(), losses: { inputs: 100, meanDifference: null, standardDeviation: 1 } },
      { ...answerOf(), slowdown: -1 },
      { ...answerOf(), absent: "x".repeat(501) },
    ];
    for (const result of garbage) {
      assert.ok(!trialAnswer.safeParse(result).success);
      assert.deepEqual(await ask("", result), {
        waits: "its agent tells nothing of use of its trial on live inputs",
      });
    }
    assert.deepEqual(await ask("USAGE", {}), { waits: "its agent knows no trials on live inputs" });
    assert.deepEqual(await ask("MODEL_NOT_FOUND", {}), {
      waits: "it fetches the version",
      isFetching: true,
    });
    assert.deepEqual(await ask("TRIAL_REFUSED", { message: "other" }), { waits: "other" });
    assert.deepEqual(await ask("", answerOf()), { told: toldOf() });
  });

  it("fails where the version cannot be installed there", async () => {
    assert.deepEqual(await ask("ROOT_MISMATCH", { message: "no" }), {
      verdict: "failed",
      before,
      because: "no",
    });
  });
});

describe("a trial that nobody wants any more", () => {
  const rolloutOf = (phase: string, verdict?: string, withLive = true) =>
    ({
      name: "r",
      line: "a",
      versionId: next,
      policy: policyOf(withLive ? { live } : {}),
      phase,
      members: new Map([["car", verdict === undefined ? {} : { judged: { verdict } }]]),
    }) as unknown as RolloutState;
  const staged: StagedVersion = { line: "a", versionId: next, rollout: "other" };

  it("is one of an ended rollout, or of a device on which it did not pass", () => {
    const isOver = (rollout: RolloutState, other: readonly StagedVersion[] = []) =>
      isTrialOver(rollout, "car", other);
    assert.deepEqual(
      ["running", "paused", "done", "aborted", "undone"].map((phase) => isOver(rolloutOf(phase))),
      [false, false, false, true, true],
    );
    for (const verdict of ["worse", "failed", "kept", "left", "unknown"])
      assert.ok(isOver(rolloutOf("running", verdict)), verdict);
    assert.ok(!isOver(rolloutOf("undone", "passed")));
    assert.ok(!isOver(rolloutOf("aborted", undefined, false)));
    assert.ok(!isTrialOver(rolloutOf("aborted"), "van", []));
    // Another rollout has the same version on trial there.
    assert.ok(!isOver(rolloutOf("aborted"), [staged]));
  });

  it("is told to the device until it confirms that", async () => {
    const clock = manualClock();
    const rollout = rolloutOf("aborted");
    const repository = {
      rollouts: () => [rollout],
      rollout: () => rollout,
      stagedFor: () => [],
    } as unknown as Awaited<ReturnType<TrialEnderParts["fleets"]["get"]>>;
    const sent: unknown[] = [];
    const codes = ["SERVER_UNREACHABLE", "HISTORY_UNPROVEN", ""];
    let isOnline = false;
    const ender = new TrialEnder({
      clock,
      log: silentLog(),
      fleets: { get: () => Promise.resolve(repository) },
      fleetOf: () =>
        Promise.resolve({
          isOnline: () => isOnline,
          command: (_: string, { name, body }: { readonly name: string; readonly body: unknown }) => {
            sent.push([name, body]);
            return Promise.resolve({ code: codes.shift() ?? "?", result: {} });
          },
        }),
    });
    const settle = async () => {
      for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    };
    ender.rolloutEnded("f", rollout);
    await settle();
    assert.equal(sent.length, 0);
    isOnline = true;
    ender.connected("f", "car");
    await settle();
    for (const expected of [2, 3, 3]) {
      clock.advance(5_000);
      await settle();
      assert.equal(sent.length, expected);
    }
    ender.connected("f", "car");
    await settle();
    assert.equal(sent.length, 3);
    assert.deepEqual(sent[0], ["trial", { line: "a", rollout: "r", versionId: next, end: true }]);
    ender.close();
  });
});
