/**
 * How long a replay will take, by what its record states, and how long it may take. A record can state what it likes:
 * whatever was predicted, a replay ends at the limit.
 */
import { StemmaError } from "../../shared/errors.js";
import type { Clock } from "../../shared/ports.js";
import type { OpenedProvenance } from "../../shared/provenance/openings.js";
import { defaultMaxMinutes, maxMaxMinutes } from "../api/replay-schemas.js";
import { valueOf } from "./story.js";

const minuteMs = 60_000;

type Members = Readonly<Record<string, unknown>>;

/**
 * Milliseconds; undefined where the record does not state its time (it was redacted).
 * @param changed parameters of the new training that differ from the record's
 */
export function predictedMs(opened: OpenedProvenance, changed: Members = {}): number | undefined {
  const workMs = countOf(membersOf(valueOf(opened, "times"))["workMs"]);
  if (workMs === undefined) return undefined;
  const parameters = membersOf(valueOf(opened, "parameters"));
  const before = (name: string): number | undefined => countOf(membersOf(parameters[name])["value"]);
  const after = (name: string): number | undefined => countOf(changed[name]) ?? before(name);
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

/** @throws REPLAY_TOO_LONG */
export function refuseTooLong(
  what: string,
  predicted: number | undefined,
  maxMinutes = defaultMaxMinutes,
): void {
  if (predicted === undefined || predicted <= maxMinutes * minuteMs) return;
  const minutes = Math.ceil(predicted / minuteMs);
  throw new StemmaError(
    "REPLAY_TOO_LONG",
    `By its record, the training of ${what} takes about ${minutes} minutes, and ${maxMinutes} are allowed. ` +
      (minutes > maxMaxMinutes
        ? `At most ${maxMaxMinutes} can be allowed, so it is not replayed.`
        : `Allow more with --max-minutes ${Math.min(minutes * 2, maxMaxMinutes)}.`),
    { predictedMs: predicted, maxMinutes },
  );
}

/** What `withinTime` gives where the work did not end in time. */
export const tooLong = Symbol("too long");

/** Runs work that ends with its signal. @throws what the work throws, but where it was ended by the limit */
export async function withinTime<T>(
  clock: Pick<Clock, "after">,
  { maxMinutes = defaultMaxMinutes, signal }: { readonly maxMinutes?: number; readonly signal?: AbortSignal },
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
