/** Rollouts and signed releases. */
import type { RolloutAnswer } from "../../../../../../server/interface/api/rollouts/rollout-definitions.js";
import { changeText } from "../../../../../../shared/trust/releases/change-file.js";
import { ownersFirstChange } from "../../../../../helpers/release-owner.js";
import { testFleet as fleet } from "../../../../../helpers/test-server.js";
import type { Step } from "./step.js";

const rollout = { name: "r", model: "tiny:2", line: "line", select: "all" };

function withoutTimes<Answer extends RolloutAnswer>(answer: Answer): Answer {
  return { ...answer, createdAtMs: 0, phaseAtMs: 0 };
}

export const rolloutSteps: readonly Step[] = [
  {
    name: "planRollout",
    ask: async (at) => {
      const policy = { waves: ["1", "10%"], own: "keep" } as const;
      // Only a running server predicts transfers.
      const {
        transfers: _,
        expectedMs: __,
        ...plan
      } = await at.planRollout({
        fleet,
        ...rollout,
        policy: { ...policy, waves: [...policy.waves] },
      });
      return plan;
    },
  },
  { name: "createRollout", ask: async (at) => withoutTimes(await at.createRollout({ fleet, ...rollout })) },
  {
    name: "approveRollout",
    shows: "that nobody approves their own",
    ask: (at) => at.approveRollout({ fleet, rollout: rollout.name }),
    fails: "NOT_ALLOWED",
  },
  { name: "rolloutReport", ask: (at) => at.rolloutReport({ fleet, rollout: rollout.name }) },
  {
    name: "createRollout",
    shows: "a name that is taken",
    ask: (at) => at.createRollout({ fleet, ...rollout }),
    fails: "NOT_ALLOWED",
  },
  {
    name: "createRollout",
    shows: "waves that are none",
    ask: (at) => at.createRollout({ fleet, ...rollout, name: "b", policy: { waves: ["rest", "1"] } }),
    fails: "ROLLOUT_INVALID",
  },
  {
    name: "setRollout",
    shows: "one that was not started",
    ask: (at) => at.setRollout({ fleet, rollout: "r", phase: "paused" }),
    fails: "NOT_ALLOWED",
  },
  {
    name: "setRollout",
    ask: async (at) => withoutTimes(await at.setRollout({ fleet, rollout: "r", phase: "aborted" })),
  },
  { name: "rollouts", ask: async (at) => (await at.rollouts({ fleet })).map(withoutTimes) },
  { name: "rollout", ask: async (at) => withoutTimes(await at.rollout({ fleet, rollout: "r" })) },
  {
    name: "rollout",
    shows: "one that is not there",
    ask: (at) => at.rollout({ fleet, rollout: "x" }),
    fails: "ROLLOUT_UNKNOWN",
  },
  { name: "undoRollout", ask: (at) => at.undoRollout({ fleet, rollout: "r", dryRun: true }) },
  { name: "releases", shows: "none yet", ask: (at) => at.releases({ fleet }) },
  {
    name: "publishOwnerTime",
    shows: "what is not its file",
    ask: (at) => at.publishOwnerTime({ fleet, file: "{}" }),
    fails: "RELEASE_METADATA_INVALID",
  },
  {
    name: "publishReleases",
    ask: (at) => at.publishReleases({ fleet, change: changeText(ownersFirstChange(fleet)) }),
  },
  {
    name: "publishReleases",
    shows: "a change of another fleet",
    ask: (at) => at.publishReleases({ fleet, change: changeText(ownersFirstChange("other")) }),
    fails: "RELEASE_METADATA_INVALID",
  },
  { name: "releases", ask: (at) => at.releases({ fleet }) },
  {
    name: "releaseManifest",
    ask: (at) => at.releaseManifest({ fleet, model: "no-such-model" }),
    fails: "MODEL_NOT_FOUND",
  },
];
