/**
 * Bounds how often one device causes something that costs the server. Such are facts (sessions, versions, activations),
 * which make the journal grow, and fetches, for which models are read and coded. Each takes from an allowance of the
 * device, which refills with time. A device over its allowance is asked to wait; what it wants stays with it.
 */
import type { FullPart } from "../../../services/context/room-for-models.js";
import type { Clock } from "../../../../shared/ports.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { RefusalDetails } from "./device-sender.js";

const hourMs = 3_600_000;

interface Allowance {
  /** Below zero after facts that could not be refused any more. */
  actions: number;
  atMs: number;
  isReported: boolean;
}

export interface DeviceQuotaParts {
  /** The allowance that comes back in an hour. */
  readonly perHour: number;
  /** Size of an allowance. */
  readonly atOnce: number;
  readonly clock: Pick<Clock, "monotonic">;
  /** A device used up its allowance; called once until the allowance is full again. */
  onExceeded(device: string, waitMs: number): void;
}

export class DeviceQuota {
  /** The allowances of devices that reported lately. */
  readonly #allowances = new Map<string, Allowance>();
  constructor(private readonly parts: DeviceQuotaParts) {}

  /** Milliseconds until the device may go on; 0: now. */
  waitMs(device: string): number {
    const allowance = this.#refilled(device);
    if (allowance.actions >= 1) return 0;
    const waitMs = Math.ceil(((1 - allowance.actions) * hourMs) / this.parts.perHour);
    if (!allowance.isReported) {
      allowance.isReported = true;
      this.parts.onExceeded(device, waitMs);
    }
    return waitMs;
  }

  /** The device took one. */
  charge(device: string): void {
    this.#refilled(device).actions--;
  }

  #refilled(device: string): Allowance {
    const { perHour, atOnce, clock } = this.parts;
    const nowMs = clock.monotonic();
    let allowance = this.#allowances.get(device);
    if (allowance === undefined) {
      allowance = { actions: atOnce, atMs: nowMs, isReported: false };
      this.#allowances.set(device, allowance);
    }
    const refilled = allowance.actions + ((nowMs - allowance.atMs) * perHour) / hourMs;
    allowance.actions = Math.min(atOnce, refilled);
    allowance.atMs = nowMs;
    if (allowance.actions === atOnce) allowance.isReported = false;
    return allowance;
  }
}

/** The refusal of what a device reports beyond its allowance. */
export function overFactQuota(retryAfterMs: number): RefusalDetails {
  return {
    code: "QUOTA_EXCEEDED",
    message: `The device reports more than the journal takes of one device. Report it again in ${Math.ceil(retryAfterMs / 1000)} s; limits.ingest.factsPerHour of the server's server.json sets the rate.`,
    retryAfterMs,
  };
}

/** The refusal of a fetch beyond the device's allowance. */
export function overFetchQuota(retryAfterMs: number): RefusalDetails {
  return {
    code: "QUOTA_EXCEEDED",
    message: `The device fetches models too often. Fetch again in ${Math.ceil(retryAfterMs / 1000)} s; limits.ingest.fetchesPerHour of the server's server.json sets the rate.`,
    retryAfterMs,
  };
}

/** Milliseconds after which a device announces again what a full server did not receive. */
const serverFullRetryMs = 60_000;

export function serverFull(what: FullPart, versionId: Hash): RefusalDetails {
  const message = `The server's ${what} is full, so it receives no new models now. The device keeps this one and tries again.`;
  const code = what === "disk" ? "DISK_FULL" : "MEMORY_FULL";
  return { code, message, versionId, retryAfterMs: serverFullRetryMs };
}
