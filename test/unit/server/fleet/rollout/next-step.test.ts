/** What a rollout does next; folded from facts as in a journal. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  applyRollout,
  checkRollout,
  lateMembers,
  pauseRestored,
  stagedFor,
  versionsOfRollouts,
  type RolloutMember,
  type RolloutState,
} from "../../../../../server/storage/repository/state/rollout-state.js";
import { policyOf } from "../../../../../server/fleet/rollout/policy.js";
import { minute, Rollout, versionId } from "./rollout-under-test.js";

describe("the approval of a rollout", () => {
  const ann = { who: "ann", through: "http" } as const;
  const created = (by?: unknown): Map<string, RolloutState> => {
    const rollouts = new Map<string, RolloutState>();
    const policy = policyOf({ approval: true });
    const fact = {
      type: "rollout",
      atMs: 1,
      rollout: "r",
      critical: true,
      line: "a",
      versionId,
      select: "all",
    };
    applyRollout(rollouts, { ...fact, policy, ...(by === undefined ? {} : { by }) } as never);
    return rollouts;
  };
  const approve = (rollouts: Map<string, RolloutState>, by?: unknown): void => {
    const fact = { type: "rollout-approved", atMs: 2, rollout: "r", because: "", by } as never;
    checkRollout(rollouts, fact);
    applyRollout(rollouts, fact);
  };
  const start = { type: "rollout-phase", atMs: 3, rollout: "r", phase: "running", because: "" } as const;

  it("is of another person than its creator, whatever name a client claims, and comes before the start", () => {
    const rollouts = created(ann);
    assert.throws(
      () => {
        checkRollout(rollouts, start);
      },
      { code: "NOT_ALLOWED" },
    );
    for (const by of [ann, { ...ann, through: "socket" }, { ...ann, claims: "bo" }, undefined])
      assert.throws(
        () => {
          approve(rollouts, by);
        },
        { code: "NOT_ALLOWED" },
      );
    approve(rollouts, { who: "bo", through: "http" });
    checkRollout(rollouts, start);
    applyRollout(rollouts, start);
    assert.throws(
      () => {
        approve(rollouts, { who: "cy", through: "http" });
      },
      { code: "NOT_ALLOWED" },
    );
  });

  it("is refused where it is not known who created it", () => {
    assert.throws(
      () => {
        approve(created(), ann);
      },
      { code: "NOT_ALLOWED" },
    );
  });
});

describe("a rollout's next step", () => {
  it("is the end at its deadline, which counts from its first start", () => {
    const rollout = new Rollout({ deadlineMinutes: 60 });
    rollout.wave("a");
    rollout.minutes = 30;
    rollout.phase("paused");
    rollout.phase("running");
    rollout.minutes = 60;
    assert.equal(rollout.next().do, "judge");
    rollout.minutes = 61;
    assert.equal(rollout.next().do, "expire");
  });

  it("is a wave, then what its devices measure, then the next wave, then the end", () => {
    const rollout = new Rollout({ waves: ["1", "rest"] });
    assert.deepEqual(rollout.next(), { do: "choose" });
    rollout.wave("a");
    assert.deepEqual(rollout.next(), { do: "judge", devices: ["a"] });
    rollout.judged("passed", "a");
    rollout.switching.add("a");
    assert.equal(rollout.next().do, "wait");
    rollout.switching.clear();
    assert.deepEqual(rollout.next(), { do: "choose" });
    rollout.wave("b", "c");
    rollout.judged("passed", "b");
    rollout.judged("kept", "c");
    assert.deepEqual(rollout.next(), { do: "end" });
  });

  it("is to wait after a wave as long as the policy says", () => {
    const rollout = new Rollout({ soakMinutes: 10 });
    rollout.wave("a");
    rollout.minutes = 5;
    rollout.judged("passed", "a");
    assert.deepEqual(rollout.next(), { do: "wait", untilMs: 15 * minute });
    rollout.minutes = 15;
    assert.deepEqual(rollout.next(), { do: "choose" });
  });

  it("is not to fail for what a person accepted at the very moment of that", () => {
    const rollout = new Rollout({ waves: ["2", "rest"] });
    rollout.wave("a", "b");
    rollout.judged("worse", "a");
    assert.equal(rollout.next().do, "fail");
    rollout.phase("paused");
    rollout.phase("running");
    assert.deepEqual(rollout.next(), { do: "judge", devices: ["b"] });
  });

  it("is not to fail for samples that a person accepted at the very moment of that", () => {
    const rollout = new Rollout({ waves: ["rest"] });
    const devices = Array.from({ length: 12 }, (_, i) => `d${i}`);
    rollout.wave(...devices, "late");
    const compared = { samples: 100, meanDifference: 0.03, standardError: 0.02 };
    for (const device of devices)
      rollout.apply({ type: "judged", device, verdict: "passed", before: null, because: "x", compared });
    const step = rollout.next();
    assert.ok(step.do === "fail" && /by the samples of 12 devices together/u.test(step.because));
    rollout.phase("paused");
    rollout.phase("running");
    assert.deepEqual(rollout.next(), { do: "judge", devices: ["late"] });
  });

  it("is to go on without enough answers only where a person said so once all was told, or after the time", () => {
    const unknown = (resumedAt: number, isTold: boolean) => {
      const rollout = new Rollout({ waves: ["2", "rest"], timeoutMinutes: 10 });
      rollout.wave("a", "b");
      rollout.judged("unknown", ...(isTold ? ["a", "b"] : ["a"]));
      rollout.minutes = resumedAt;
      rollout.phase("paused");
      rollout.phase("running");
      rollout.minutes = 20;
      return rollout.next().do;
    };
    assert.equal(unknown(2, true), "choose", "nobody is left to answer");
    assert.equal(unknown(2, false), "fail", "one was, and did not");
    assert.equal(unknown(11, false), "choose", "its time was over");
    // Not where it was resumed before the wave began.
    assert.equal(unknown(1, true), "fail");
  });

  it("is its first wave at once, however long it waits after one", () => {
    assert.deepEqual(new Rollout({ soakMinutes: 10, timeoutMinutes: 10 }).next(), { do: "choose" });
  });

  it("is not to wait after its last wave", () => {
    const rollout = new Rollout({ waves: ["rest"], soakMinutes: 10 });
    rollout.wave("a");
    rollout.judged("passed", "a");
    assert.deepEqual(rollout.next(), { do: "end" });
  });

  it("is to judge one silent device, also of an earlier wave", () => {
    const rollout = new Rollout({ waves: ["2", "1", "rest"], timeoutMinutes: 10, minAnswered: 0.5 });
    rollout.wave("a", "b");
    rollout.judged("passed", "a");
    assert.deepEqual(rollout.next(), { do: "judge", devices: ["b"] });
    rollout.minutes = 11;
    assert.deepEqual(rollout.next(), { do: "choose" });
    rollout.wave("c");
    assert.deepEqual(rollout.next(), { do: "judge", devices: ["b", "c"] });
  });

  it("is to fail where more devices failed than may, at once; what a person accepted does not count", () => {
    const rollout = new Rollout({ waves: ["4", "rest"], maxFailed: 0.25 });
    rollout.wave("a", "b", "c", "d");
    rollout.judged("worse", "a");
    assert.equal(rollout.next().do, "judge");
    rollout.judged("failed", "b");
    const step = rollout.next();
    assert.ok(
      step.do === "fail" &&
        /2 of the 4 in wave 1 of r failed \(a worse: x; b failed: x\)/u.test(step.because),
    );
    rollout.phase("paused");
    assert.throws(
      () => {
        rollout.judged("passed", "c");
      },
      { code: "NOT_ALLOWED" },
    );
    rollout.minutes = 2;
    rollout.phase("running");
    assert.deepEqual(rollout.next(), { do: "judge", devices: ["c", "d"] });
  });

  it("is to fail where too few devices answered in time, and to go on without the silent ones otherwise", () => {
    const rollout = new Rollout({ waves: ["2", "rest"], timeoutMinutes: 10, minAnswered: 0.5 });
    rollout.wave("a", "b");
    rollout.minutes = 11;
    assert.equal(rollout.next().do, "fail");
    rollout.judged("passed", "a");
    assert.equal(rollout.next().do, "choose");
    const silent = new Rollout({ timeoutMinutes: 10 });
    silent.wave("a");
    silent.minutes = 20;
    silent.phase("paused");
    silent.phase("running");
    assert.equal(silent.next().do, "choose");
  });

  it("is nothing after a restore, until a person resumes it", () => {
    const rollout = new Rollout();
    pauseRestored(rollout.rollouts, 7);
    assert.equal(rollout.state.phase, "paused");
    rollout.phase("running");
    assert.equal(rollout.next().do, "choose");
  });

  it("is to fail where all devices together tell that it is worse, though none does alone", () => {
    const rollout = new Rollout({ waves: ["rest"] });
    const devices = Array.from({ length: 12 }, (_, i) => `d${i}`);
    rollout.wave(...devices);
    const compared = { samples: 100, meanDifference: 0.03, standardError: 0.02 };
    let step = rollout.next();
    for (const device of devices) {
      if (step.do === "fail") break;
      rollout.apply({ type: "judged", device, verdict: "passed", before: null, because: "x", compared });
      step = rollout.next();
    }
    assert.ok(step.do === "fail" && /by the samples of \d+ devices together/u.test(step.because));
  });
});

describe("a rollout with a trial on live inputs", () => {
  const live = { inputs: 10, minutes: 60, maxFailed: 0 };
  const worse = { samples: 100, meanDifference: 0.03, standardError: 0.02 };
  const measured = (device: string, compared = worse) => ({
    type: "measured",
    device,
    before: versionId,
    because: "x",
    compared,
  });

  it("goes on with a device that has measured, and keeps that beside what its live inputs tell", () => {
    const rollout = new Rollout({ waves: ["rest"], live });
    rollout.wave("a");
    rollout.apply(measured("a"));
    assert.deepEqual(rollout.next(), { do: "judge", devices: ["a"] });
    assert.equal(rollout.state.comparisons, 1);
    const told = { inputs: 10, failed: 0, compared: { samples: 10, meanDifference: 0, standardError: 1 } };
    rollout.apply({
      type: "judged",
      device: "a",
      verdict: "passed",
      before: versionId,
      because: "x",
      live: told,
    });
    const { judged } = rollout.state.members.get("a") as RolloutMember;
    assert.deepEqual([judged?.compared, judged?.live], [worse, told]);
    assert.equal(rollout.state.comparisons, 2);
    assert.throws(() => {
      rollout.apply(measured("a"));
    });
  });

  it("looks at what devices have measured before their live inputs have told anything", () => {
    const rollout = new Rollout({ waves: ["rest"], live });
    const devices = Array.from({ length: 12 }, (_, i) => `d${i}`);
    rollout.wave(...devices);
    for (const device of devices) rollout.apply(measured(device));
    assert.equal(rollout.next().do, "fail");
  });

  it("counts a device that is unknown neither as failed nor as one that answered", () => {
    const rollout = new Rollout({ waves: ["rest"], live });
    rollout.wave("a", "b", "c");
    rollout.judged("passed", "a");
    rollout.judged("unknown", "b", "c");
    const step = rollout.next();
    assert.ok(step.do === "fail" && /only 1 of the 3 devices/u.test(step.because));
    const most = new Rollout({ waves: ["rest"], live });
    most.wave("a", "b", "c");
    most.judged("passed", "a", "b");
    most.judged("unknown", "c");
    assert.equal(most.next().do, "end");
  });
});

it("waits for silent devices after its end, until a later rollout of the line takes them", () => {
  const rollout = new Rollout({ waves: ["rest"] });
  rollout.wave("a", "b", "c", "d");
  rollout.judged("passed", "a");
  assert.deepEqual(lateMembers(rollout.rollouts.values(), rollout.state), [], "it still runs");
  rollout.phase("done");
  assert.deepEqual(lateMembers(rollout.rollouts.values(), rollout.state), ["b", "c", "d"]);
  assert.deepEqual([...stagedFor(rollout.rollouts, "b")], [{ line: "a", versionId, rollout: "r" }]);
  rollout.judged("worse", "b");
  assert.deepEqual(lateMembers(rollout.rollouts.values(), rollout.state), ["c", "d"]);

  const next = { rollout: "next", critical: true, line: "a", versionId, select: "all", policy: policyOf({}) };
  rollout.apply({ type: "rollout", ...next });
  rollout.apply({ type: "rollout-phase", rollout: "next", phase: "running", because: "" });
  rollout.apply({ type: "wave", rollout: "next", wave: 1, devices: ["c"] });
  assert.deepEqual(lateMembers(rollout.rollouts.values(), rollout.state), ["d"]);
  assert.equal([...stagedFor(rollout.rollouts, "c")].length, 1);
  const inUse = [...versionsOfRollouts(rollout.rollouts, new Map())].map(([, why]) => why);
  assert.ok(inUse.includes("given to devices by the rollout r"));

  pauseRestored(rollout.rollouts, 1);
  assert.equal(rollout.state.phase, "paused", "after a restore a person decides");
  rollout.phase("aborted");
  assert.deepEqual(lateMembers(rollout.rollouts.values(), rollout.state), []);
});

it("can be aborted after its end, so that it waits for nobody any more", () => {
  const rollout = new Rollout({ waves: ["rest"] });
  rollout.wave("a");
  rollout.phase("done");
  rollout.phase("aborted");
  assert.deepEqual([...stagedFor(rollout.rollouts, "a")], []);
});
