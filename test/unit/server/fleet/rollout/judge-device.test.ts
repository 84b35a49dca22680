/** What an answer of a device that could not measure means for the version. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { RolloutState } from "../../../../../server/storage/repository/state/rollout-state.js";
import { deviceThreshold, evidenceOnDevice } from "../../../../../server/fleet/rollout/evidence.js";
import {
  afterError,
  comparedWith,
  judge,
  measureOnDevice,
} from "../../../../../server/fleet/rollout/judge-device.js";
import { defaultPolicy } from "../../../../../shared/journal/facts/rollout-policy.js";
import type { RolloutPolicy } from "../../../../../shared/journal/facts/rollout-policy.js";
import { StemmaError, type ErrorCode } from "../../../../../shared/errors.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";

const before = sha256("before");
const device = { state: "enrolled", lines: ["a"], active: { a: { versionId: before } } };

async function measuredWhere(code: ErrorCode, policy: RolloutPolicy = defaultPolicy, kind = "tfjs") {
  return measureOnDevice(
    { evaluateOnDevice: () => Promise.reject(new StemmaError(code, code)) },
    {
      fleet: "f",
      device: () => device,
      get: (versionId: string) => ({ versionId, record: { kind } }),
    } as unknown as Parameters<typeof measureOnDevice>[1],
    {
      line: "a",
      versionId: sha256("next"),
      policy,
      members: new Map(),
    } as unknown as RolloutState,
    "car",
  );
}

it("a device is asked again, unless the version itself is the reason", async () => {
  assert.deepEqual(await measuredWhere("TRAINING_REFUSED"), { waits: "TRAINING_REFUSED" });
  const failed = { verdict: "failed", before };
  assert.deepEqual(await measuredWhere("NOT_A_NUMBER"), { ...failed, because: "NOT_A_NUMBER" });
  // It failed only where it still cannot after a few tries.
  assert.deepEqual(await measuredWhere("TRAINING_STOPPED"), {
    waits: "not measured: TRAINING_STOPPED",
    otherwise: { ...failed, because: "not measured: TRAINING_STOPPED" },
  });
});

it("a program that cannot measure never lets a version pass", async () => {
  const policy = { ...defaultPolicy, unmeasured: "switch" } as const;
  for (const code of [
    "TRAINER_FAILED",
    "TRAINER_TIMED_OUT",
    "TRAINER_OUTPUT_INVALID",
    "TRAINER_OUTPUT_TOO_LARGE",
    "TRAINING_STOPPED",
  ] as const) {
    const because = `not measured: ${code}`;
    const otherwise = { verdict: "failed", before, because };
    assert.deepEqual(await measuredWhere(code, policy, "opaque"), { waits: because, otherwise });
  }
});

it("what nothing on the device can measure is left to the policy, also where the agent is older", async () => {
  for (const code of ["MODEL_OPAQUE", "FILE_MISSING"] as const)
    for (const [unmeasured, verdict] of [
      ["switch", "passed"],
      ["fail", "failed"],
    ] as const) {
      const found = await measuredWhere(code, { ...defaultPolicy, unmeasured }, "opaque");
      assert.ok("verdict" in found && /no program of the device/u.test(found.because));
      assert.equal(found.verdict, verdict);
    }
  const missing = await measuredWhere("FILE_MISSING", { ...defaultPolicy, unmeasured: "switch" });
  assert.ok("waits" in missing && missing.otherwise?.verdict === "failed");
});

it("what a device cannot tell by its samples it may tell by its live inputs, if the rollout asks for them", async () => {
  const live = { ...defaultPolicy, live: { inputs: 10, minutes: 60, maxFailed: 0 } };
  const verdictOf = async (...asked: Parameters<typeof measuredWhere>) => {
    const measured = await measuredWhere(...asked);
    assert.ok("verdict" in measured);
    return [measured.verdict, measured.isMeasured];
  };
  assert.deepEqual(await verdictOf("DATASET_EMPTY"), ["failed", true]);
  assert.deepEqual(await verdictOf("DATASET_EMPTY", live), ["passed", true]);
  assert.deepEqual(await verdictOf("MODEL_OPAQUE", live, "opaque"), ["passed", true]);
  assert.deepEqual(await verdictOf("NOT_A_NUMBER", live), ["failed", undefined]);
});

describe("what an error of a device says of the version", () => {
  it("is nothing where the same question may be answered later, however often", () => {
    for (const code of [
      "TRAINING_REFUSED",
      "TRIAL_REFUSED",
      "SERVER_UNREACHABLE",
      "TIMED_OUT",
      "QUOTA_EXCEEDED",
      "INTERRUPTED",
      "HISTORY_UNPROVEN",
      "DISK_FULL",
    ] as const)
      assert.deepEqual(afterError(new StemmaError(code, "no"), before), { waits: "no" }, code);
    const fetching = afterError(new StemmaError("MODEL_NOT_FOUND", "no"), before);
    assert.ok("waits" in fetching && fetching.isFetching === true && fetching.otherwise === undefined);
  });

  it("is that it failed where the version itself is the reason", () => {
    for (const code of [
      "NOT_A_NUMBER",
      "ARCHITECTURE_MISMATCH",
      "LAYER_NOT_ALLOWED",
      "RECORD_INVALID",
      "ROOT_MISMATCH",
    ] as const)
      assert.deepEqual(
        afterError(new StemmaError(code, "no"), before),
        { verdict: "failed", before, because: "no" },
        code,
      );
  });

  it("is not asked of a fault of this program", () => {
    assert.throws(() => afterError(new TypeError("no"), before), TypeError);
  });
});

describe("what a device runs", () => {
  const next = sha256("next");
  const standing = (
    change: object,
    {
      joinedAtMs = 5,
      isStored = true,
      isMember = true,
    }: { readonly joinedAtMs?: number; readonly isStored?: boolean; readonly isMember?: boolean } = {},
  ) =>
    comparedWith(
      {
        device: () => ({ ...device, ...change }),
        get: (versionId: string) => (isStored ? { versionId } : undefined),
      } as unknown as Parameters<typeof comparedWith>[0],
      {
        line: "a",
        versionId: next,
        members: new Map(isMember ? [["car", { joinedAtMs }]] : []),
      } as unknown as RolloutState,
      "car",
    );
  const verdict = (found: ReturnType<typeof comparedWith>) =>
    "verdict" in found ? [found.verdict, found.before] : Object.keys(found);
  const assigned = (versionId: string, atMs: number) => ({ assigned: { a: { versionId, atMs } } });

  it("is compared with the version, if the server has it", () => {
    assert.deepEqual(standing({}), { runs: { versionId: before } });
    assert.deepEqual(verdict(standing({}, { isStored: false })), ["waits"]);
  });

  it("decides alone where the device left", () => {
    assert.deepEqual(verdict(standing({ state: "revoked" })), ["left", before]);
    assert.deepEqual(verdict(standing({ state: "quarantined" })), ["left", before]);
    assert.deepEqual(verdict(standing({ lines: ["b"] })), ["left", before]);
    assert.deepEqual(verdict(standing({ state: undefined })), ["left", before]);
  });

  it("decides alone where it runs the version already, or nothing", () => {
    assert.deepEqual(verdict(standing({ active: { a: { versionId: next } } })), ["passed", null]);
    assert.deepEqual(verdict(standing({ active: {} })), ["passed", null]);
    assert.deepEqual(verdict(standing({ active: { b: { versionId: next } } })), ["passed", null]);
  });

  it("counts what was assigned since the device joined, and nothing before", () => {
    assert.deepEqual(verdict(standing(assigned(next, 6))), ["passed", null]);
    assert.deepEqual(verdict(standing(assigned(before, 6))), ["left", before]);
    assert.deepEqual(verdict(standing(assigned(sha256("x"), 5))), ["runs"]);
    // Whoever never joined was given it by somebody else.
    assert.deepEqual(verdict(standing(assigned(next, 1), { isMember: false })), ["passed", null]);
  });
});

describe("the verdict on the samples of a device", () => {
  const losses = (meanDifference: number) => ({ samples: 100, meanDifference, standardError: 0.1 });
  const judged = (
    meanDifference: number,
    policy: Partial<RolloutPolicy> = {},
    { comparisons = 0, isOwn = false } = {},
  ) => {
    const compared = { before, isOwn, losses: losses(meanDifference), trial: {} };
    return judge({ policy: { ...defaultPolicy, ...policy }, comparisons }, compared);
  };

  it("is worse where the evidence reaches what the comparisons before it left of the level", () => {
    const worse = judged(0.6);
    assert.deepEqual(
      [worse.verdict, worse.before, worse.isMeasured, worse.compared],
      ["worse", before, undefined, losses(0.6)],
    );
    const evidence = evidenceOnDevice(losses(0.45), 0);
    const last = [...Array(100).keys()]
      .filter((spent) => evidence >= deviceThreshold(0.05, spent + 1))
      .pop()!;
    assert.ok(last > 0 && last < 99);
    assert.equal(judged(0.45, {}, { comparisons: last }).verdict, "worse");
    assert.equal(judged(0.45, {}, { comparisons: last + 1 }).verdict, "passed");
    assert.equal(judged(0.6, { margin: 0.5 }).verdict, "passed");
  });

  it("is passed where it does not, and a trial on live inputs may follow", () => {
    for (const meanDifference of [-0.6, 0, 0.1]) {
      const passed = judged(meanDifference);
      assert.deepEqual([passed.verdict, passed.isMeasured], ["passed", true]);
    }
  });

  it("keeps a device's own model that is better on its samples, if the rollout says so", () => {
    const own = { own: "keep" } as const;
    assert.equal(judged(0.1, own, { isOwn: true }).verdict, "kept");
    assert.equal(judged(0.1, own, { isOwn: false }).verdict, "passed");
    assert.equal(judged(0.1, {}, { isOwn: true }).verdict, "passed");
    assert.equal(judged(0, own, { isOwn: true }).verdict, "passed");
    assert.equal(judged(0.6, own, { isOwn: true }).verdict, "worse");
  });
});

describe("what a device measured", () => {
  const next = sha256("next");
  const paired = { samples: 100, meanDifference: 0.1, standardDeviation: 2 };
  const cost = (versionId: string, milliseconds: number) => ({
    versionId,
    inference: { milliseconds, peakBytes: 1 },
  });
  const measured = async (
    evaluation: object,
    policy: Partial<RolloutPolicy> = {},
    trainedBy = "server",
    known: object | null = device,
  ) => {
    const asked: { readonly limit?: number }[] = [];
    const answer = { paired, versions: [cost(next, 3), cost(before, 2)], change: null, ...evaluation };
    const found = await measureOnDevice(
      {
        evaluateOnDevice: (question: { readonly limit?: number }) => {
          asked.push(question);
          return Promise.resolve(answer);
        },
      } as unknown as Parameters<typeof measureOnDevice>[0],
      {
        fleet: "f",
        device: () => known ?? undefined,
        get: (versionId: string) => ({ versionId, record: { kind: "tfjs", device: trainedBy } }),
      } as unknown as Parameters<typeof measureOnDevice>[1],
      {
        line: "a",
        versionId: next,
        policy: { ...defaultPolicy, ...policy },
        members: new Map(),
      } as unknown as RolloutState,
      "car",
    );
    return { found, asked };
  };
  const verdict = ({ found }: Awaited<ReturnType<typeof measured>>) =>
    "verdict" in found ? [found.verdict, found.isMeasured] : Object.keys(found);

  it("is not asked for where the device left", async () => {
    const { found, asked } = await measured({}, {}, "server", { ...device, state: "revoked" });
    assert.deepEqual("verdict" in found && [found.verdict, found.because], ["left", "is revoked"]);
    assert.deepEqual(asked, []);
    const gone = await measured({}, {}, "server", null);
    assert.deepEqual("verdict" in gone.found && gone.found.because, "is unknown");
  });

  it("is compared sample by sample; what it trained itself is its own", async () => {
    const { found, asked } = await measured({}, { samples: 7 });
    assert.deepEqual(found, {
      compared: {
        before,
        isOwn: false,
        losses: { samples: 100, meanDifference: 0.1, standardError: 0.2 },
        trial: { slowdown: 1.5, moreBytes: 0 },
      },
    });
    assert.equal(asked[0]?.limit, 7);
    const own = await measured({}, {}, "car");
    assert.ok(!("verdict" in own.found) && "compared" in own.found && own.found.compared.isOwn);
    assert.ok(!("limit" in own.asked[0]!));
  });

  it("fails at a gate, and is not taken for good where a gate could not be answered", async () => {
    assert.deepEqual(verdict(await measured({}, { maxSlowdown: 1.4 })), ["failed", undefined]);
    assert.deepEqual(verdict(await measured({}, { maxSlowdown: 1.5 })), ["compared"]);
    const none = { paired: null };
    assert.deepEqual(verdict(await measured(none, { maxChange: 0.5 })), ["failed", true]);
    assert.deepEqual(verdict(await measured(none, { maxChange: 0.5, unmeasured: "switch" })), [
      "passed",
      true,
    ]);
    // The losses decide first: what is worse does not switch because another gate was not answered.
    for (const [meanDifference, unmeasured, wanted] of [
      [0.1, "switch", "passed"],
      [0.1, "fail", "failed"],
      [2, "switch", "worse"],
      [2, "fail", "worse"],
    ] as const) {
      const policy = { ...defaultPolicy, maxChange: 0.5, unmeasured };
      const { found } = await measured({ paired: { ...paired, meanDifference } }, policy);
      assert.ok("compared" in found && !("verdict" in found));
      const judged = judge({ policy, comparisons: 0 }, found.compared);
      assert.equal(judged.verdict, wanted);
      assert.equal(/did not measure: change/u.test(judged.because), wanted !== "worse");
    }
  });

  it("needs samples; where there are none, a limited change of the outputs", async () => {
    for (const none of [null, { ...paired, samples: 0 }]) {
      assert.deepEqual(verdict(await measured({ paired: none })), ["failed", true]);
      assert.deepEqual(verdict(await measured({ paired: none, change: 0.1 })), ["failed", true]);
      assert.deepEqual(verdict(await measured({ paired: none, change: 0.1 }, { maxChange: 0.2 })), [
        "passed",
        true,
      ]);
    }
    assert.deepEqual(verdict(await measured({ paired: { ...paired, samples: 1 } })), ["compared"]);
  });
});
