/** Predicts how long transfers of a rollout take, by rates measured earlier, and how far that was off. Pure. */
import type { PlannedTransfer } from "../../../shared/journal/facts/rollout-facts.js";
import type { Delivery } from "../../storage/repository/state/device-state.js";

/** The newest deliveries of a device that its rate follows from. */
const rateDeliveries = 5;

/** Bytes a millisecond, the median of the newest deliveries; undefined where nothing was measured. */
export function rateOf(deliveries: readonly Pick<Delivery, "bytes" | "durationMs">[]): number | undefined {
  return medianOf(
    deliveries
      .filter(({ bytes, durationMs }) => bytes > 0 && durationMs > 0)
      .slice(-rateDeliveries)
      .map(({ bytes, durationMs }) => bytes / durationMs),
  );
}

export interface TransferSubject {
  readonly device: string;
  readonly profile: string;
  readonly bytes: number;
  readonly deliveries: readonly Pick<Delivery, "bytes" | "durationMs">[];
  /** Bytes a second that it is sent at most; null: no limit. */
  readonly maxBytesPerSecond: number | null;
}

/**
 * The time of each transfer by the device's own rate, else by the median of its profile, within its limit.
 * @param fleet all devices of the fleet
 */
export function plannedTransfers(
  subjects: readonly TransferSubject[],
  fleet: readonly Pick<TransferSubject, "profile" | "deliveries">[],
): ReadonlyMap<string, PlannedTransfer> {
  const rates = new Map<string, number[]>();
  for (const { profile, deliveries } of fleet) {
    const rate = rateOf(deliveries);
    if (rate === undefined) continue;
    const known = rates.get(profile);
    if (known === undefined) rates.set(profile, [rate]);
    else known.push(rate);
  }
  const ofProfile = new Map([...rates].map(([profile, all]) => [profile, medianOf(all)]));
  return new Map(
    subjects.map(({ device, profile, bytes, deliveries, maxBytesPerSecond }) => {
      const measured = rateOf(deliveries) ?? ofProfile.get(profile);
      const most = maxBytesPerSecond === null ? undefined : maxBytesPerSecond / 1000;
      // A limit is the best guess where nothing was measured.
      const rate = most === undefined ? measured : Math.min(most, measured ?? most);
      const ms = bytes === 0 ? 0 : rate === undefined ? null : Math.round(bytes / rate);
      return [device, { bytes, ms }];
    }),
  );
}

/**
 * Returns the time until the last of these has ended, when so many run at the same time and the next begins
 * where one ends.
 */
export function spanOf(timesMs: readonly number[], atOnce: number): number {
  const ends = new Array<number>(Math.max(1, Math.min(atOnce, timesMs.length))).fill(0);
  for (const timeMs of timesMs) {
    const first = ends.indexOf(Math.min(...ends));
    ends[first] = (ends[first] as number) + timeMs;
  }
  return Math.max(...ends);
}

/** The median of |planned − actual| / actual; null without a pair. Where both are 0 nothing was off. */
export function medianError(
  pairs: readonly { readonly planned: number; readonly actual: number }[],
): number | null {
  const errors = pairs.map(({ planned, actual }) =>
    planned === actual ? 0 : actual === 0 ? Infinity : Math.abs(planned - actual) / actual,
  );
  const median = medianOf(errors);
  return median === undefined || median === Infinity ? null : median;
}

/** Returns the median; the mean of both values in the middle for an even number of them. */
function medianOf(values: readonly number[]): number | undefined {
  const sorted = [...values].sort((a, b) => a - b);
  const upper = sorted[sorted.length >> 1];
  const lower = sorted[(sorted.length - 1) >> 1];
  return upper === undefined || lower === undefined ? undefined : (upper + lower) / 2;
}
