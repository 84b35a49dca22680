/**
 * Finds what comes of a device in a rollout. The device measures the version beside what it runs, on its own
 * held-out samples, before it runs it. What the device says is its word.
 */
import { defined } from "../../../shared/defined.js";
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import type {
  ComparedLosses,
  DeviceJudgement,
  RolloutTrial,
} from "../../../shared/journal/facts/rollout-facts.js";
import type { RolloutPolicy } from "../../../shared/journal/facts/rollout-policy.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { CallOutput, ServerOperations } from "../../interface/api/server-operations.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { RolloutState } from "../../storage/repository/state/rollout-state.js";
import { deviceThreshold, evidenceOnDevice } from "./evidence.js";
import { throughGates, trialOf } from "./gates.js";
import { makerOf } from "../../storage/repository/state/version-state.js";

export interface Judgement extends DeviceJudgement {
  /** The device measured, or could not: a trial on its live inputs, where the rollout has one, comes next. */
  readonly isMeasured?: true;
}

/**
 * The reason why a device cannot be judged now: it is asked again later, where there is an `otherwise` at
 * most a few times.
 */
export interface Waits {
  readonly waits: string;
  readonly otherwise?: Judgement;
  /** True if it does not have the version yet. */
  readonly isFetching?: true;
}

/** The measurement of a device, or why it cannot be judged. */
export type Measured = Judgement | Waits | { readonly compared: Compared };

interface Compared {
  readonly before: Hash;
  /** True if the device trained what it runs. */
  readonly isOwn: boolean;
  readonly losses: ComparedLosses;
  readonly trial: RolloutTrial;
  /** Says which other gate of the policy the device could not answer. */
  readonly unanswered?: string;
}

/** Errors of the version itself, which another try does not change. */
const lasting = new Set([
  "NOT_A_NUMBER",
  "ARCHITECTURE_MISMATCH",
  "LAYER_NOT_ALLOWED",
  "RECORD_INVALID",
  "NAMES_INVALID",
  "ROOT_MISMATCH",
]);

/** Errors of a device that cannot run a model without architecture; FILE_MISSING is that of older agents. */
const unmeasurable = new Set(["MODEL_OPAQUE", "FILE_MISSING"]);

/** Errors of a device's measurement program, or of an engine that was killed. */
const notMeasured = new Set([
  "TRAINER_FAILED",
  "TRAINER_TIMED_OUT",
  "TRAINER_OUTPUT_INVALID",
  "TRAINER_OUTPUT_TOO_LARGE",
  "TRAINING_STOPPED",
]);

/** Errors after which the same question may be answered later; so it may after MODEL_NOT_FOUND (`afterError`). */
const passing = new Set([
  "TRAINING_REFUSED",
  "TRIAL_REFUSED",
  "SERVER_UNREACHABLE",
  "TIMED_OUT",
  "QUOTA_EXCEEDED",
  "INTERRUPTED",
  // The device has not believed the server yet, or cannot write for now: that says nothing of the version.
  "HISTORY_UNPROVEN",
  "DISK_FULL",
]);

/**
 * Returns the version that the device runs, with which the new one is compared; else the judgement that
 * follows from it alone.
 */
export function comparedWith(
  repository: Pick<FleetRepository, "device" | "get">,
  { line, versionId, members }: Pick<RolloutState, "line" | "versionId" | "members">,
  device: string,
): Judgement | Waits | { readonly runs: VersionSummary } {
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
  return runs === undefined ? { waits: "what it runs is not stored here yet" } : { runs };
}

export async function measureOnDevice(
  operations: Pick<ServerOperations, "evaluateOnDevice">,
  repository: Pick<FleetRepository, "fleet" | "device" | "get">,
  rollout: RolloutState,
  device: string,
): Promise<Measured> {
  const { line, versionId, policy } = rollout;
  const standing = comparedWith(repository, rollout, device);
  if (!("runs" in standing)) return standing;
  const { runs } = standing;
  const before = runs.versionId;
  const unmeasured = (because: string): Judgement => ({
    verdict: unmeasuredVerdict(policy),
    before,
    because,
    isMeasured: true,
  });
  try {
    const evaluation = await operations.evaluateOnDevice({
      fleet: repository.fleet,
      device,
      line,
      models: [versionId, before],
      ...defined({ limit: policy.samples }),
    });
    const { paired } = evaluation;
    const trial = trialOf(evaluation, versionId, before);
    const gates = throughGates(policy, trial);
    if (gates !== undefined && "failed" in gates)
      return { verdict: "failed", before, because: gates.failed, trial };
    if (paired !== null && paired.samples > 0) {
      const compared = {
        before,
        isOwn: makerOf(runs, runs.record) === device,
        losses: lossesOf(paired),
        trial,
      };
      return { compared: { ...compared, ...defined({ unanswered: gates?.unmeasured }) } };
    }
    if (gates !== undefined) return { ...unmeasured(gates.unmeasured), trial };
    // Where losses cannot be told by sample, the outputs can still be compared with those of what it runs.
    if (policy.maxChange !== undefined && trial.change !== undefined) {
      const because = `its outputs differ by ${trial.change.toPrecision(3)}`;
      return { verdict: "passed", before, because, trial, isMeasured: true };
    }
    return { ...unmeasured("it does not tell sample by sample how wrong a model is"), trial };
  } catch (error) {
    if (isStemmaError(error, "DATASET_EMPTY")) return unmeasured("has no held-out samples");
    const isOpaque = [versionId, before].some((id) => repository.get(id)?.record.kind === "opaque");
    if (isOpaque && isStemmaError(error) && unmeasurable.has(error.code))
      return unmeasured(
        "not measured: a model without architecture, and no program of the device measures it",
      );
    return afterError(error, before);
  }
}

/** A difference that its samples cannot show may show on its live inputs. */
function unmeasuredVerdict({ live, unmeasured }: RolloutPolicy): "passed" | "failed" {
  return live !== undefined || unmeasured === "switch" ? "passed" : "failed";
}

/** Judges the version by an error of a device. @throws any other than a StemmaError */
export function afterError(error: unknown, before: Hash): Judgement | Waits {
  if (!isStemmaError(error)) throw error;
  if (error.code === "MODEL_NOT_FOUND") return { waits: "it fetches the version", isFetching: true };
  if (passing.has(error.code)) return { waits: messageOf(error) };
  const because = notMeasured.has(error.code) ? `not measured: ${messageOf(error)}` : messageOf(error);
  const failed: Judgement = { verdict: "failed", before, because };
  // A failure such as an engine that was killed, or a file that was replaced meanwhile: that says nothing of
  // the version.
  return lasting.has(error.code) ? failed : { waits: failed.because, otherwise: failed };
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
  { policy, comparisons }: Pick<RolloutState, "policy" | "comparisons">,
  { before, isOwn, losses, trial, unanswered }: Compared,
): Judgement {
  const by = differenceText("samples", losses);
  const compared = { before, because: by, compared: losses, trial };
  if (evidenceOnDevice(losses, policy.margin) >= deviceThreshold(policy.level, comparisons + 1))
    return { verdict: "worse", ...compared };
  if (policy.own === "keep" && isOwn && losses.meanDifference > 0) return { verdict: "kept", ...compared };
  if (unanswered !== undefined)
    return {
      verdict: unmeasuredVerdict(policy),
      ...compared,
      because: `${unanswered}; ${by}`,
      isMeasured: true,
    };
  return { verdict: "passed", ...compared, isMeasured: true };
}

export function differenceText(
  of: string,
  { samples, meanDifference, standardError }: ComparedLosses,
): string {
  return `on ${samples} ${of} losses differ by ${meanDifference.toPrecision(3)} ± ${standardError.toPrecision(2)}`;
}
