/**
 * Predicts the time and memory of a training or a replay before its first step, and limits the time. A record can state
 * what it likes: its stated time counts only until a training by the same recipe was measured here, never for less than
 * the fastest machine takes, and whatever was predicted, a training ends at its limit. Pure.
 */
import type { Architecture } from "../../../shared/model/model.js";
import type { Clock } from "../../../shared/ports.js";
import { valueOf, type OpenedProvenance } from "../../../shared/provenance/openings.js";
import { trainingSize, type StatedTraining, type TrainingSize } from "../../../shared/train/training-size.js";
import { predictedTooLarge, predictedTooLong, type TimeLimits, type TooLongCode } from "./training-errors.js";

const minuteMs = 60_000;
const MiB = 1024 ** 2;

type Members = Readonly<Record<string, unknown>>;

/** A training that was measured on this machine. */
export interface MeasuredRun {
  readonly workMs: number;
  readonly size: TrainingSize;
}

export interface CostInputs {
  /**
   * The architecture; absent: it is not known here; then its time is what the record states, and its memory
   * is not known.
   */
  readonly architecture?: Architecture | undefined;
  /** Parameters of the new training that differ from the record's. */
  readonly changed?: Members | undefined;
  /** Trainings by the same recipe on this machine. */
  readonly measured?: readonly MeasuredRun[] | undefined;
}

export interface PredictedCost {
  /** Milliseconds; undefined where nothing tells. */
  readonly ms: number | undefined;
  readonly memoryBytes: number | undefined;
  /** The basis of the prediction, for errors: "by its record", … */
  readonly basis: string;
  /** True if nothing was measured or stated: it is what the fastest machine takes, and here it takes longer. */
  readonly isLeast?: boolean;
}

/**
 * Rates that no known machine exceeds: milliseconds of a step, and multiplications in a millisecond, of all
 * threads together.
 */
const fastest = { stepMs: 0.02, operationsPerMs: 4e7 };
/** The time of a training of any size: loading, and the measures before and after. */
const fixedMs = 500;
/** A shorter run tells of the fixed part alone. */
const telling = 3 * fixedMs;

function fastestMs({ steps, operations }: TrainingSize): number {
  return steps * fastest.stepMs + operations / fastest.operationsPerMs;
}

export function predictCost(opened: OpenedProvenance, inputs: CostInputs = {}): PredictedCost {
  const { architecture, changed = {}, measured = [] } = inputs;
  const stated = statedMs(opened, changed);
  const training = statedTraining(opened, changed);
  if (architecture === undefined || training === undefined)
    return { ms: stated, memoryBytes: undefined, basis: "by its record" };
  return costOfSize(trainingSize(architecture, training), { measured, statedMs: stated });
}

/** The known times of trainings, beside the size. */
export interface KnownCost {
  /** Trainings by its recipe here. */
  readonly measured: readonly MeasuredRun[];
  /** The time that its record states. */
  readonly statedMs?: number | undefined;
}

export function costOfSize(size: TrainingSize, { measured, statedMs: stated }: KnownCost): PredictedCost {
  const { memoryBytes } = size;
  const factors = measured
    .filter(({ workMs }) => workMs >= telling)
    .map((run) => (run.workMs - fixedMs) / fastestMs(run.size))
    .sort((a, b) => a - b);
  const factor = factors[Math.floor(factors.length / 2)];
  if (factor !== undefined)
    return {
      ms: Math.ceil(fixedMs + Math.max(1, factor) * fastestMs(size)),
      memoryBytes,
      basis: `by ${factors.length === 1 ? "an earlier training" : `${factors.length} earlier trainings`} of its recipe here`,
    };
  const least = Math.ceil(fastestMs(size));
  if (stated !== undefined && stated >= least) return { ms: stated, memoryBytes, basis: "by its record" };
  const basis = "by its epochs, its samples and the size of its model";
  return { ms: least, memoryBytes, basis, isLeast: true };
}

/** Returns how large a training is, by its record; undefined where that was redacted or says nothing of it. */
export function statedTraining(opened: OpenedProvenance, changed: Members = {}): StatedTraining | undefined {
  const [data] = listOf(valueOf(opened, "data"));
  const samples = membersOf(membersOf(data)["samples"]);
  const of = parameterOf(opened, changed);
  const course = membersOf(valueOf(opened, "course"));
  const train = countOf(samples["train"]);
  const allowed = of("epochs");
  const taken = countOf(course["epochs"]);
  // A training that may stop early, and no other, trains fewer epochs than it was told.
  const isShorter = course["stoppedEarly"] === true && (of("patience") ?? 1) > 0 && !("epochs" in changed);
  const epochs = allowed === undefined || isShorter ? (taken ?? allowed) : Math.max(allowed, taken ?? 0);
  if (train === undefined || epochs === undefined) return undefined;
  return {
    samples: {
      train,
      validation: countOf(samples["validation"]) ?? 0,
      heldOut: countOf(samples["heldOut"]) ?? 0,
    },
    epochs,
    batchSize: Math.max(1, of("batchSize") ?? 1),
    members: Math.max(1, of("members") ?? 1),
  };
}

function parameterOf(opened: OpenedProvenance, changed: Members): (name: string) => number | undefined {
  const parameters = membersOf(valueOf(opened, "parameters"));
  return (name) => countOf(changed[name]) ?? countOf(membersOf(parameters[name])["value"]);
}

/**
 * Milliseconds of work that the record states; undefined where it does not (it was redacted).
 * @param changed parameters of the new training that differ from the record's
 */
export function statedMs(opened: OpenedProvenance, changed: Members = {}): number | undefined {
  const workMs = countOf(membersOf(valueOf(opened, "times"))["workMs"]);
  if (workMs === undefined) return undefined;
  const before = parameterOf(opened, {});
  const after = parameterOf(opened, changed);
  const epochs = countOf(membersOf(valueOf(opened, "course"))["epochs"]) ?? before("epochs");
  const moreEpochs = "epochs" in changed ? ratio(after("epochs"), epochs) : 1;
  // A step takes less time with fewer samples, but not in proportion.
  const moreSteps = Math.max(1, ratio(before("batchSize"), after("batchSize")));
  return Math.ceil(workMs * moreEpochs * moreSteps);
}

function ratio(a: number | undefined, b: number | undefined): number {
  return a === undefined || b === undefined || b === 0 ? 1 : a / b;
}

function countOf(value: unknown): number | undefined {
  const number = typeof value === "bigint" || typeof value === "number" ? Number(value) : NaN;
  return Number.isFinite(number) && number >= 0 ? number : undefined;
}

function membersOf(value: unknown): Members {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Members) : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export interface CostLimits extends TimeLimits {
  readonly memoryLimitMb: number;
}

/**
 * @param code of the error where it takes too long
 * @throws REPLAY_TOO_LONG or TRAINING_TOO_LONG, MEMORY_EXHAUSTED, each with the prediction, the limit, and what raises
 * it
 */
export function refuseTooCostly(
  what: string,
  cost: PredictedCost,
  limits: CostLimits,
  code: TooLongCode = "REPLAY_TOO_LONG",
): void {
  const { ms, memoryBytes } = cost;
  if (ms !== undefined && ms > limits.maxMinutes * minuteMs)
    throw predictedTooLong(code, what, { ...cost, ms }, limits);
  if (memoryBytes === undefined || memoryBytes <= limits.memoryLimitMb * MiB) return;
  throw predictedTooLarge(what, memoryBytes, limits.memoryLimitMb);
}

/** Describes the predicted cost when a training begins. */
export function costText({ ms, basis, isLeast }: PredictedCost, { maxMinutes }: CostLimits): string {
  const ends = `it is ended after ${minutesText(maxMinutes * minuteMs)}`;
  if (ms === undefined) return `how long it takes is not known; ${ends}`;
  return isLeast === true
    ? `how long it takes is not known, since no training by its recipe that was long enough to tell ran here; ${ends}`
    : `predicted to take about ${minutesText(ms)}, ${basis}; ${ends}`;
}

export function minutesText(ms: number): string {
  if (ms < minuteMs) return `${Math.ceil(ms / 1000)} s`;
  const minutes = Math.ceil(ms / minuteMs);
  return minutes === 1 ? "1 minute" : `${minutes} minutes`;
}

/** The result of `withinTime` where the work did not end in time. */
export const tooLong = Symbol("too long");

/** Runs work that ends with its signal. @throws what the work throws, but where it was ended by the limit */
export async function withinTime<T>(
  clock: Pick<Clock, "after">,
  { maxMinutes, signal }: { readonly maxMinutes: number; readonly signal?: AbortSignal | undefined },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T | typeof tooLong> {
  const limit = new AbortController();
  const cancel = clock.after(maxMinutes * minuteMs, () => {
    limit.abort();
  });
  try {
    return await work(signal === undefined ? limit.signal : AbortSignal.any([limit.signal, signal]));
  } catch (error) {
    if (limit.signal.aborted && signal?.aborted !== true) return tooLong;
    throw error;
  } finally {
    cancel();
  }
}
