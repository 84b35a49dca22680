/**
 * Trials on live inputs: the software of a device runs the version beside what the line runs, and the device tells how
 * they compare. The number of inputs is fixed before the first of them, so their losses are one comparison more in the
 * evidence (evidence.ts). What the device says is its word.
 */
import { defined } from "../../../shared/defined.js";
import { isErrorCode, StemmaError } from "../../../shared/errors.js";
import type { LiveTrialResult } from "../../../shared/journal/facts/rollout-facts.js";
import type { LiveTrialPolicy } from "../../../shared/journal/facts/rollout-policy.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { trialAnswer, type TrialAnswer, type TrialRequest } from "../../../shared/wire/live-trial.js";
import type { LiveFleet } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { RolloutMember, RolloutState } from "../../storage/repository/state/rollout-state.js";
import { deviceThreshold, evidenceOnDevice } from "./evidence.js";
import { throughGates } from "./gates.js";
import { afterError, comparedWith, differenceText, type Judgement, type Waits } from "./judge-device.js";
import { makerOf } from "../../storage/repository/state/version-state.js";

/** A device may have to install the version first. */
const answerMs = 300_000;

/** All inputs that were asked for, as the device told of them. */
export interface LiveTold {
  readonly before: Hash;
  /** True if the device trained what it runs. */
  readonly isOwn: boolean;
  readonly answer: TrialAnswer;
}

export type LiveAnswer = Judgement | (Waits & { readonly isOnTrial?: true }) | { readonly told: LiveTold };

/** True if a device has measured by its samples, and its live inputs come next. */
export function isOnTrial(
  repository: Pick<FleetRepository, "device">,
  { policy, line, members }: Pick<RolloutState, "policy" | "line" | "members">,
  device: string,
): boolean {
  const measured = members.get(device)?.measured;
  // The version that it runs may have changed since, so that it has to measure again.
  const runs = repository.device(device)?.active[line]?.versionId;
  return policy.live !== undefined && measured !== undefined && measured.before === runs;
}

/** Tells the device to begin its trial, or asks how far it is. */
export async function askTrial(
  live: Pick<LiveFleet, "command">,
  repository: Pick<FleetRepository, "device" | "get">,
  rollout: RolloutState,
  device: string,
): Promise<LiveAnswer> {
  const { name, line, versionId, policy } = rollout;
  const standing = comparedWith(repository, rollout, device);
  if (!("runs" in standing)) return standing;
  const before = standing.runs.versionId;
  const { inputs, minutes } = policy.live as LiveTrialPolicy;
  const request: TrialRequest = { line, rollout: name, versionId, before, inputs, minutes };
  try {
    const { code, result } = await live.command(device, { name: "trial", body: request }, answerMs);
    if (code === "USAGE") return { waits: "its agent knows no trials on live inputs" };
    if (code !== "") throw errorOf(code, result);
    const answer = trialAnswer.safeParse(result);
    if (!answer.success) return { waits: "its agent tells nothing of use of its trial on live inputs" };
    return progressOf(policy.live as LiveTrialPolicy, {
      before,
      isOwn: makerOf(standing.runs, standing.runs.record) === device,
      answer: answer.data,
    });
  } catch (error) {
    return afterError(error, before);
  }
}

/** Returns the progress of a trial: all that was told, what it waits for, or that it ended early. Pure. */
export function progressOf({ inputs, maxFailed }: LiveTrialPolicy, told: LiveTold): LiveAnswer {
  const { before, answer } = told;
  const { failed, absent } = answer;
  const live = resultOf(answer, inputs);
  if (failed.version > maxFailed * inputs)
    return { verdict: "failed", before, because: `it failed on ${failed.version} live inputs`, live };
  // A device that calls it complete has to have told as much.
  if (answer.isComplete && answer.inputs >= inputs) return { told };
  const soFar = `its software compared ${answer.inputs} of ${inputs} live inputs`;
  if (answer.isOver)
    return {
      verdict: "unknown",
      before,
      because: absent === "" ? `${soFar} in time` : `${soFar} in time: ${absent}`,
      live,
    };
  return { waits: absent === "" ? soFar : `${soFar}: ${absent}`, isOnTrial: true };
}

/** The verdict on what a device told of its live inputs, by what the comparisons before spent of the level. Pure. */
export function judgeLive(
  { policy, comparisons }: Pick<RolloutState, "policy" | "comparisons">,
  measured: NonNullable<RolloutMember["measured"]> | undefined,
  { before, isOwn, answer }: LiveTold,
): Judgement {
  const live = resultOf(answer, policy.live?.inputs ?? 1);
  const of = (verdict: Judgement["verdict"], because: string): Judgement => ({
    verdict,
    before,
    because,
    live,
  });
  const unmeasured = (because: string): Judgement =>
    of(policy.unmeasured === "switch" ? "passed" : "failed", because);
  const { slowdown, change, compared } = live;
  const gates = throughGates(policy, {
    ...measured?.trial,
    ...defined({ slowdown, change }),
  });
  if (gates !== undefined && "failed" in gates) return of("failed", `on live inputs ${gates.failed}`);
  if (gates !== undefined) return unmeasured(gates.unmeasured);
  if (compared !== undefined) {
    const by = differenceText("live inputs", compared);
    if (evidenceOnDevice(compared, policy.margin) >= deviceThreshold(policy.level, comparisons + 1))
      return of("worse", by);
    return of(policy.own === "keep" && isOwn && compared.meanDifference > 0 ? "kept" : "passed", by);
  }
  return policy.maxChange !== undefined && change !== undefined
    ? of("passed", `on ${live.inputs} live inputs its outputs differ by ${change.toPrecision(3)}`)
    : unmeasured(`its software told of ${live.inputs} live inputs, and of none how wrong the models are`);
}

/** @param wanted so many losses are compared; fewer could be those that somebody chose to tell of */
function resultOf(
  { inputs, failed, losses, slowdown, change }: TrialAnswer,
  wanted: number,
): LiveTrialResult {
  return {
    inputs,
    failed: failed.version,
    ...(losses === null || losses.inputs < wanted
      ? {}
      : {
          compared: {
            samples: losses.inputs,
            meanDifference: losses.meanDifference,
            standardError: losses.standardDeviation / Math.sqrt(losses.inputs),
          },
        }),
    ...(slowdown === null ? {} : { slowdown }),
    ...(change === null ? {} : { change }),
  };
}

function errorOf(code: string, result: unknown): StemmaError {
  const told = (result as { readonly message?: unknown } | null)?.message;
  const message = typeof told === "string" ? told.slice(0, 500) : "The device gave no reason. See its log.";
  return new StemmaError(isErrorCode(code) ? code : "INTERNAL", message);
}
