/** The plan of a rollout as text: what it cannot know is in it, with and without measured transfers. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { describePlan } from "../../../../../../server/cli/commands/rollout/plan-text.js";
import type { RolloutPlanAnswer } from "../../../../../../server/interface/api/rollouts/rollout-definitions.js";
import { wholePolicy } from "../../../../../../shared/journal/facts/rollout-policy.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";

const plan: RolloutPlanAnswer = {
  name: "summer",
  model: "soh:3",
  versionId: "ab".repeat(32) as Hash,
  line: "soh",
  policy: wholePolicy.parse({
    waves: ["rest"],
    soakMinutes: 1,
    timeoutMinutes: 1,
    level: 0.05,
    margin: 0,
    maxFailed: 0.1,
    minAnswered: 0.5,
    own: "replace",
    unmeasured: "switch",
    onFailure: "pause",
    atOnce: 1,
    samples: 1,
  }),
  waves: [["van-1", "van-2"]],
  notReached: 0,
  excluded: [],
  goingBack: 0,
  gates: [],
  deferring: [],
  takes: [],
  noModel: 0,
  offline: 1,
  refusing: [],
  bytes: 1000,
  storageBytes: 1000,
};
const gates = [
  { device: "van-1", measuredBy: "engine", losses: "", outputs: "", live: "" },
  { device: "van-2", measuredBy: "program", losses: "", outputs: "only with predictions", live: "" },
  { device: "van-3", measuredBy: "nothing", losses: "no program", outputs: "no program", live: "" },
  { device: "van-4", losses: "", outputs: "", live: "" },
] as const;
const transfer = { device: "van-1", wave: 1, bytes: 10, isEstimated: false, metered: false, ms: 5 };

describe("the plan of a rollout as text", () => {
  for (const [what, each] of [
    ["by a running server", { ...plan, transfers: [transfer], expectedMs: 5000 }],
    ["before a transfer was measured", { ...plan, transfers: [{ ...transfer, ms: null }], expectedMs: null }],
    ["without a server", plan],
  ] as const)
    it(`says that it knows neither absence nor processors: ${what}`, () => {
      const lines = describePlan(each).split("\n");
      assert.ok(lines.some((line) => /^not known: .*away.*processors/u.test(line) && line.length <= 80));
    });

  it("says how long it runs at most: each wave its time-out, and the soak times between", () => {
    const longest = (policy: Partial<RolloutPlanAnswer["policy"]>): string | undefined =>
      describePlan({
        ...plan,
        waves: [["van-1"], [], ["van-2"]],
        policy: { ...plan.policy, timeoutMinutes: 1440, soakMinutes: 120, ...policy },
      })
        .split("\n")
        .find((line) => line.startsWith("at most") && line.includes(" by --"));
    assert.equal(longest({}), "at most 2 d 2 h unless paused, by --wave-timeout and --soak");
    assert.equal(longest({ deadlineMinutes: 90 }), "at most 1 h 30 min unless paused, by --deadline");
    assert.equal(longest({ wait: true }), undefined, "later devices are waited for without end");
    assert.equal(longest({ wait: true, deadlineMinutes: 90 }), longest({ deadlineMinutes: 90 }));
  });

  it("says what measures the devices, and what becomes of those that nothing measures", () => {
    const measuring = (policy: Partial<RolloutPlanAnswer["policy"]>): readonly string[] => {
      const lines = describePlan({ ...plan, gates, policy: { ...plan.policy, ...policy } }).split("\n");
      const from = lines.indexOf("can tell losses by labels: 3 of 4 connected");
      return lines.slice(
        from + 1,
        lines.findIndex((line) => line.startsWith("can tell change")),
      );
    };
    const known = ["  not van-3: no program", "  by a program of the device, not the engine: van-2"];
    assert.deepEqual(measuring({ unmeasured: "fail" }), [
      ...known,
      "  would fail (--unmeasured fail): van-3",
    ]);
    assert.deepEqual(measuring({ unmeasured: "switch" }), [
      ...known,
      "  would switch unmeasured (--unmeasured switch): van-3",
    ]);
    assert.deepEqual(measuring({ live: { inputs: 1, minutes: 1, maxFailed: 0 } }), known);
  });
});
