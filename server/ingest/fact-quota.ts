/**
 * Bounds how fast one device makes the journal grow. Everything that a device reports and that becomes a fact
 * (sessions, versions, activations) takes from one allowance of the device, which refills with
 * time. A device over its allowance is asked to wait; what it has to report stays with it.
 */
import type { Clock } from "../../shared/ports.js";
import type { RefusalDetails } from "./device-sender.js";
import type { IngestLimits } from "./limits.js";

const hourMs = 3_600_000;

interface Allowance {
  /** Facts left; below zero after facts that could not be refused any more. */
  left: number;
  atMs: number;
  isReported: boolean;
}

export interface FactQuotaParts {
  readonly limits: Pick<IngestLimits, "factsPerHour" | "factsAtOnce">;
  readonly clock: Pick<Clock, "monotonic">;
  /** A device used up its allowance; called once until the allowance is full again. */
  onExceeded(device: string, waitMs: number): void;
}

export class FactQuota {
  /** Of devices that reported lately. */
  readonly #allowances = new Map<string, Allowance>();
  constructor(private readonly parts: FactQuotaParts) {}

  /** Milliseconds until the device may cause another fact; 0: now. */
  waitMs(device: string): number {
    const allowance = this.#refilled(device);
    if (allowance.left >= 1) return 0;
    const waitMs = Math.ceil(((1 - allowance.left) * hourMs) / this.parts.limits.factsPerHour);
    if (!allowance.isReported) {
      allowance.isReported = true;
      this.parts.onExceeded(device, waitMs);
    }
    return waitMs;
  }

  /** The device caused a fact. */
  charge(device: string): void {
    this.#refilled(device).left--;
  }

  #refilled(device: string): Allowance {
    const { limits, clock } = this.parts;
    const nowMs = clock.monotonic();
    let allowance = this.#allowances.get(device);
    if (allowance === undefined) {
      allowance = { left: limits.factsAtOnce, atMs: nowMs, isReported: false };
      this.#allowances.set(device, allowance);
    }
    const refilled = allowance.left + ((nowMs - allowance.atMs) * limits.factsPerHour) / hourMs;
    allowance.left = Math.min(limits.factsAtOnce, refilled);
    allowance.atMs = nowMs;
    if (allowance.left === limits.factsAtOnce) allowance.isReported = false;
    return allowance;
  }
}

/** The refusal of what a device reports beyond its allowance. */
export function overQuota(retryAfterMs: number): RefusalDetails {
  return {
    code: "QUOTA_EXCEEDED",
    message: `The device reports more than the journal takes of one device. Report it again in ${Math.ceil(retryAfterMs / 1000)} s; limits.ingest.factsPerHour of the server's server.json sets the rate.`,
    retryAfterMs,
  };
}
