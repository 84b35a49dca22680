/**
 * Batches of devices that enrol with one invitation: how many did, and whether one more may. The journal decides, in
 * the order of its facts, so that requests that arrive at once cannot pass the bounds together. Pure.
 */
import { StemmaError } from "../../../../shared/errors.js";
import type { Caller } from "../../../../shared/journal/caller.js";
import type { FactOf } from "../../../../shared/journal/fact.js";
import { matchesPattern } from "../../selection/match-device.js";
import type { Ended } from "../answers/version-answers.js";
import type { DeviceState } from "./device-state.js";

export interface BatchState extends Omit<FactOf<"batch-created">, "type" | "by" | "request"> {
  /** The caller who created it; the enrolments name the same. */
  readonly by?: Caller | string;
  /** The number of devices that enrolled. */
  readonly used: number;
  readonly revoked?: Ended;
}

export function batchOf({ type: _, request: __, ...members }: FactOf<"batch-created">): BatchState {
  return { ...members, used: 0 };
}

/** The device has what its batch gives, and waits where the batch says so. */
export function applyBatchUse(
  batches: Map<string, BatchState>,
  device: DeviceState,
  { batch: name, atMs }: FactOf<"enrolled">,
): void {
  const batch = name === undefined ? undefined : batches.get(name);
  if (name === undefined || batch === undefined) return;
  batches.set(name, { ...batch, used: batch.used + 1 });
  if (batch.labels !== undefined) device.labels = { ...device.labels, ...batch.labels };
  if (!batch.hold) return;
  device.status = "quarantined";
  device.waits = true;
  device.quarantined = { atMs, because: `it waits until a person accepts it (batch ${name})` };
}

/** The device that wants to enrol, and when. */
export interface BatchApplicant {
  readonly device: string;
  readonly atMs: number;
  /** The device of this name, where there is one that was not removed. */
  readonly known: Pick<DeviceState, "status"> | undefined;
}

/** Returns why no such device may enrol; undefined if it may. */
export function whyNotInBatch(
  batch: BatchState | undefined,
  { device, atMs, known }: BatchApplicant,
): string | undefined {
  if (batch === undefined) return "this server does not know its batch";
  if (batch.revoked !== undefined) return `its batch was revoked (${batch.revoked.because})`;
  if (batch.expiresAtMs <= atMs) return `its batch ended at ${new Date(batch.expiresAtMs).toISOString()}`;
  if (batch.used >= batch.count) return `all ${batch.count} devices of its batch have enrolled`;
  const { namePattern, names } = batch;
  if (names?.includes(device) === false) return "its name is not one of its batch's";
  if (namePattern !== undefined && !matchesPattern(device, namePattern))
    return `its name is not one of its batch's, which are ${namePattern}`;
  // Who was revoked or quarantined comes back by a person's decision alone.
  if (known !== undefined && !(batch.mayReplace && known.status === "enrolled"))
    return `there is a device of this name, which is ${known.status}. Choose another name, or invite this one by itself`;
  return undefined;
}

export function batchRefused(device: string, why: string): StemmaError {
  return new StemmaError("CERTIFICATE_REFUSED", `${device} gets no certificate: ${why}.`, { device });
}
