/**
 * Asks a device the next question of a rollout and judges the answer. It measures first by its held-out
 * samples, then, where the rollout has a trial, by its live inputs.
 */
import { defined } from "../../../shared/defined.js";
import type { Fact } from "../../../shared/journal/fact.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import type { LiveFleet } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { RolloutState } from "../../storage/repository/state/rollout-state.js";
import { judge, measureOnDevice, type Judgement, type Measured } from "./judge-device.js";
import { askTrial, isOnTrial, judgeLive, type LiveAnswer } from "./live-trial.js";

type Answer = Measured | LiveAnswer;

export function nextAnswer(
  {
    operations,
    live,
  }: {
    readonly operations: Pick<ServerOperations, "evaluateOnDevice">;
    readonly live: Pick<LiveFleet, "command">;
  },
  repository: Pick<FleetRepository, "fleet" | "device" | "get">,
  rollout: RolloutState,
  device: string,
): Promise<Answer> {
  return isOnTrial(repository, rollout, device)
    ? askTrial(live, repository, rollout, device)
    : measureOnDevice(operations, repository, rollout, device);
}

/** Pure. By what the comparisons before spent of the level. */
export function judgementOf(
  rollout: RolloutState,
  device: string,
  answer: Exclude<Answer, { readonly waits: string }>,
): Judgement {
  if ("verdict" in answer) return answer;
  if ("compared" in answer) return judge(rollout, answer.compared);
  return judgeLive(rollout, rollout.members.get(device)?.measured, answer.told);
}

/**
 * Returns the facts that a judgement adds to the journal: the verdict, and the assignment where the device
 * switches; before a trial on live inputs only what it measured. Pure.
 * @param now.assigned what is assigned to the device's line
 */
export function factsOf(
  { name, line, versionId, policy }: Pick<RolloutState, "name" | "line" | "versionId" | "policy">,
  device: string,
  { isMeasured, ...judgement }: Judgement,
  { atMs, assigned }: { readonly atMs: number; readonly assigned: Hash | undefined },
): readonly [Fact, ...Fact[]] {
  const { verdict, before, because, compared, trial } = judgement;
  const of = { atMs, rollout: name, device };
  if (isMeasured === true && policy.live !== undefined && before !== null)
    return [
      {
        type: "measured",
        ...of,
        before,
        because,
        ...defined({ compared, trial }),
      },
    ];
  const isToSwitch = verdict === "passed" && assigned !== versionId;
  return [
    { type: "judged", ...of, ...judgement },
    ...(isToSwitch ? [{ type: "assigned" as const, atMs, device, line, versionId, rollout: name }] : []),
  ];
}
