/**
 * Finds what comes of a device in a rollout: has it measure the version beside what it runs, on its own held-out
 * samples, before it runs it. What the device says is its word.
 */
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError } from "../../shared/errors.js";
import type { ComparedLosses, RolloutTrial, RolloutVerdict } from "../../shared/journal/fact.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { CallOutput, ServerOperations } from "../api/server-operations.js";
import type { FleetRepository } from "../repository/fleet-repository.js";
import type { RolloutState } from "../repository/state/rollout-state.js";
import { deviceThreshold, evidenceOnDevice } from "./evidence.js";
import { throughGates, trialOf } from "./gates.js";

export interface Judgement {
  readonly verdict: RolloutVerdict;
  readonly before: Hash | null;
  readonly because: string;
  readonly compared?: ComparedLosses;
  readonly trial?: RolloutTrial;
}

/**
 * What a device measured, or why it cannot be judged; `waits`: it is asked again later, with `otherwise` at most a few
 * times.
 */
export type Measured =
  Judgement | { readonly waits: string; readonly otherwise?: Judgement } | { readonly compared: Compared };

interface Compared {
  readonly before: Hash;
  /** Whether the device trained what it runs. */
  readonly isOwn: boolean;
  readonly losses: ComparedLosses;
  readonly trial: RolloutTrial;
}

/** Errors of the version itself, which another try does not change. */
const lasting = new Set([
  "NOT_A_NUMBER",
  "ARCHITECTURE_MISMATCH",
  "LAYER_NOT_ALLOWED",
  "RECORD_INVALID",
  "ROOT_MISMATCH",
]);

/** Errors after which the same question may be answered later. */
const passing = new Set([
  "MODEL_NOT_FOUND",
  "TRAINING_REFUSED",
  "SERVER_UNREACHABLE",
  "TIMED_OUT",
  "QUOTA_EXCEEDED",
  "INTERRUPTED",
  // The device has not believed the server yet, or cannot write for now: that says nothing of the version.
  "HISTORY_UNPROVEN",
  "DISK_FULL",
]);

export async function measureOnDevice(
  operations: Pick<ServerOperations, "evaluateOnDevice">,
  repository: Pick<FleetRepository, "fleet" | "device" | "get">,
  rollout: RolloutState,
  device: string,
): Promise<Measured> {
  const { line, versionId, policy, members } = rollout;
  const known = repository.device(device);
  const before = known?.active[line]?.versionId ?? null;
  const left = (because: string): Judgement => ({ verdict: "left", before, because });
  if (known?.state !== "enrolled") return left(`is ${known?.state ?? "unknown"}`);
  if (!known.lines.includes(line)) return left(`has no line ${line} any more`);
  const assigned = known.assigned?.[line];
  if (assigned !== undefined && assigned.atMs > (members.get(device)?.joinedAtMs ?? 0))
    return assigned.versionId === versionId
      ? { verdict: "passed", before: null, because: "somebody assigned the version" }
      : left("got another model meanwhile");
  if (before === versionId) return { verdict: "passed", before: null, because: "runs the version already" };
  if (before === null)
    return { verdict: "passed", before, because: "runs nothing that it could be compared with" };
  const runs = repository.get(before);
  if (runs === undefined) return { waits: "what it runs is not stored here yet" };
  const unmeasured = (because: string): Judgement => ({
    verdict: policy.unmeasured === "switch" ? "passed" : "failed",
    before,
    because,
  });
  try {
    const evaluation = await operations.evaluateOnDevice({
      fleet: repository.fleet,
      device,
      line,
      models: [versionId, before],
      ...(policy.samples === undefined ? {} : { limit: policy.samples }),
    });
    const { paired } = evaluation;
    const trial = trialOf(evaluation, versionId, before);
    const gates = throughGates(policy, trial);
    if (gates !== undefined && "failed" in gates)
      return { verdict: "failed", before, because: gates.failed, trial };
    if (gates !== undefined) return { ...unmeasured(gates.unmeasured), trial };
    if (paired !== null && paired.samples > 0)
      return {
        compared: { before, isOwn: runs.record.device === device, losses: lossesOf(paired), trial },
      };
    // Where losses cannot be told by sample, the outputs can still be compared with those of what it runs.
    return policy.maxChange !== undefined && trial.change !== undefined
      ? { verdict: "passed", before, because: `its outputs differ by ${trial.change.toPrecision(3)}`, trial }
      : { ...unmeasured("its samples do not tell sample by sample how wrong a model is"), trial };
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    if (error.code === "MODEL_NOT_FOUND") return { waits: "it fetches the version" };
    if (passing.has(error.code)) return { waits: messageOf(error) };
    if (error.code === "DATASET_EMPTY") return unmeasured("has no held-out samples");
    const failed: Judgement = { verdict: "failed", before, because: messageOf(error) };
    // Such as an engine that was killed, or a file that was replaced meanwhile: that says nothing of the version.
    return lasting.has(error.code) ? failed : { waits: failed.because, otherwise: failed };
  }
}

function lossesOf({
  samples,
  meanDifference,
  standardDeviation,
}: NonNullable<CallOutput<"evaluateOnDevice">["paired"]>): ComparedLosses {
  return { samples, meanDifference, standardError: standardDeviation / Math.sqrt(samples) };
}

/** The verdict on what a device compared, by what those before it spent of the level. */
export function judge(
  { policy, members }: RolloutState,
  { before, isOwn, losses, trial }: Compared,
): Judgement {
  const order = 1 + [...members.values()].filter(({ judged }) => judged?.compared !== undefined).length;
  const by = `on ${losses.samples} samples losses differ by ${losses.meanDifference.toPrecision(3)} ± ${losses.standardError.toPrecision(2)}`;
  if (evidenceOnDevice(losses, policy.margin) >= deviceThreshold(policy.level, order))
    return { verdict: "worse", before, because: by, compared: losses, trial };
  if (policy.own === "keep" && isOwn && losses.meanDifference > 0)
    return { verdict: "kept", before, because: by, compared: losses, trial };
  return { verdict: "passed", before, because: by, compared: losses, trial };
}
