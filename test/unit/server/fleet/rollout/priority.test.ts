/** Of several rollouts of a line, which goes first. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  firstBefore,
  stagedFor,
  type RolloutState,
} from "../../../../../server/storage/repository/state/rollout-state.js";
import { chooseDevices } from "../../../../../server/fleet/rollout/choose-devices.js";
import { policyOf } from "../../../../../server/fleet/rollout/policy.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import { minute, Rollout } from "./rollout-under-test.js";

describe("rollouts of a line with a priority", () => {
  const car = (assigned?: object) =>
    ({
      device: "car",
      state: "enrolled",
      lines: ["a"],
      active: {},
      assigned: { a: assigned },
    }) as unknown as Parameters<typeof chooseDevices>[1][number];
  const other = sha256("other");
  /** The rollout r has the device, and another one of a priority runs. */
  const withOther = (priority: number, own = 0) => {
    const rollout = new Rollout({ waves: ["rest"], priority: own });
    rollout.wave("car");
    const fact = { rollout: "other", critical: true, line: "a", versionId: other, select: "all" };
    rollout.apply({ type: "rollout", ...fact, policy: policyOf({ priority }) });
    rollout.apply({ type: "rollout-phase", rollout: "other", phase: "running", because: "" });
    const state = (): RolloutState => rollout.rollouts.get("other") as RolloutState;
    const choose = (one: RolloutState, device = car()) =>
      chooseDevices(one, [device], [...rollout.rollouts.values()], () => "other");
    return { rollout, state, choose };
  };

  it("the higher one takes a device that the other has, and is asked first", () => {
    const { rollout, state, choose } = withOther(5);
    assert.deepEqual(choose(state()).takes, [{ device: "car", rollout: "r" }]);
    assert.equal(firstBefore(rollout.rollouts.values(), rollout.state, "car"), undefined);
    rollout.apply({ type: "wave", rollout: "other", wave: 1, devices: ["car"] });
    assert.equal(firstBefore(rollout.rollouts.values(), rollout.state, "car")?.name, "other");
    assert.equal(firstBefore(rollout.rollouts.values(), state(), "car"), undefined);
    const staged = () => [...stagedFor(rollout.rollouts, "car")].map((one) => one.rollout);
    assert.deepEqual(staged(), ["other"]);
    // Where the version was worse, the lower one gets its turn.
    rollout.apply({
      type: "judged",
      rollout: "other",
      device: "car",
      verdict: "worse",
      before: null,
      because: "x",
    });
    assert.equal(firstBefore(rollout.rollouts.values(), rollout.state, "car"), undefined);
    assert.deepEqual(staged(), ["r"]);
  });

  it("the lower or an equal one leaves the device alone", () => {
    const because = ({ state, choose }: ReturnType<typeof withOther>) => choose(state()).excluded[0]?.because;
    assert.equal(because(withOther(0)), "is in the rollout r of this line");
    assert.equal(because(withOther(1, 2)), "is in the rollout r of this line, which goes first");
  });

  it("one that ended keeps no device from an equal one that ran beside it, nor is anything taken from it", () => {
    const { rollout, state, choose } = withOther(5, 5);
    const given = car({ versionId: rollout.state.versionId, rollout: "r" });
    assert.equal(choose(state(), given).excluded[0]?.because, "is in the rollout r of this line");
    rollout.judged("passed", "car");
    rollout.minutes = 2;
    rollout.phase("done");
    assert.ok(state().createdAtMs < rollout.state.phaseAtMs);
    const { candidates, excluded, takes } = choose(state(), given);
    assert.deepEqual([candidates, excluded, takes], [["car"], [], []]);
  });

  it("the lower one does not replace what the higher one gave, as long as they ran together", () => {
    const { rollout, state, choose } = withOther(5);
    rollout.apply({ type: "wave", rollout: "other", wave: 1, devices: ["car"] });
    rollout.apply({
      type: "judged",
      rollout: "other",
      device: "car",
      verdict: "passed",
      before: null,
      because: "x",
    });
    const given = car({ versionId: other, rollout: "other" });
    const excluded = () => choose(rollout.state, given).excluded.map(({ because }) => because);
    const first = ["got the version of the rollout other, which went first"];
    assert.deepEqual(excluded(), first);
    // Not where something else was given since: by a person, or another version.
    for (const since of [{ versionId: other }, { versionId: sha256("x"), rollout: "other" }, undefined])
      assert.deepEqual(choose(rollout.state, car(since)).excluded, []);
    rollout.minutes = 2;
    rollout.apply({ type: "rollout-phase", rollout: "other", phase: "done", because: "" });
    assert.deepEqual(excluded(), first);
    // One that is made after its end, or at that very moment, is asked for.
    for (const createdAtMs of [2 * minute, 3 * minute])
      assert.deepEqual(choose({ ...rollout.state, createdAtMs }, given).excluded, []);
    rollout.apply({ type: "rollout-phase", rollout: "other", phase: "undone", because: "" });
    assert.deepEqual(excluded(), []);
    assert.equal(state().phase, "undone");
  });
});
