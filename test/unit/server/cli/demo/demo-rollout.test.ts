/** What the demo tells of its rollouts. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { RolloutDetailAnswer } from "../../../../../server/interface/api/rollouts/rollout-definitions.js";
import { describeRollout } from "../../../../../server/cli/demo/demo-rollout.js";

type Member = RolloutDetailAnswer["members"][number];

const member = (changes: Partial<Member>): Member => ({
  device: "vehicle-1",
  wave: 1,
  joinedAtMs: 1,
  online: true,
  verdict: "passed",
  because: "",
  switched: true,
  before: "own:3",
  compared: { samples: 33, meanDifference: -0.00156, standardError: 0.0006 },
  ...changes,
});

it("names who switched and who kept its model, by how much, and whether the rollout stopped", () => {
  const worse = member({
    device: "vehicle-2",
    verdict: "worse",
    switched: false,
    compared: { samples: 33, meanDifference: 0.1, standardError: 0.001 },
  });
  assert.deepEqual(
    describeRollout({ model: "update:1", phase: "paused", members: [member({}), worse] }).split("\n"),
    [
      "  update:1:",
      "    vehicle-1 switched (mean loss −0.0016)",
      "    worse on vehicle-2 (mean loss +0.10), which kept its own",
      "    the rollout stopped",
    ],
  );
  const { compared: _, ...silent } = member({ verdict: null, switched: false });
  assert.deepEqual(
    describeRollout({ model: "update:2", phase: "done", members: [silent as Member] }).split("\n"),
    ["  update:2:", "    unmeasured on vehicle-1, which kept its own"],
  );
});
