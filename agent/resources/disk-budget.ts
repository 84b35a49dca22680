/**
 * Decides what a device's finite disk may still be used for. Pure; sizes come in as data. Training stops
 * before reporting does, and reporting before receipts do, so that existing models can always be announced
 * and nothing unreleased is ever dropped to free space.
 */
import { StemmaError, type StemmaErrorDetails } from "../../shared/errors.js";
import type { Profile } from "../settings/profile.js";

export interface DiskUse {
  /** Bytes in the agent's home, by what they are for. */
  readonly packs: number;
  readonly versions: number;
  readonly samples: number;
  readonly transfers: number;
  readonly trials: number;
  /** States of trainings that the server may ask for. */
  readonly states: number;
  readonly journal: number;
  /** Bytes free on the file system. */
  readonly free: number;
}

export interface DiskVerdict {
  readonly allowed: boolean;
  /** Bytes that would be left for this purpose after the need is met; negative when short. */
  readonly remainingBytes: number;
  readonly reason: string;
}

/**
 * @param what begins the text: "The model M cannot be installed"
 * @param outcome says what happens instead
 */
export const noDiskFor = (
  what: string,
  { reason }: DiskVerdict,
  outcome: string,
  details: StemmaErrorDetails,
): StemmaError =>
  new StemmaError(
    "DISK_BUDGET_EXHAUSTED",
    `${what}: ${reason}. ${outcome} There is space again when the server has released models, or with a larger disk budget in the profile.`,
    details,
  );

export type DiskPurpose = "train" | "install" | "report";

/** Bytes used in all. */
export function usedBytes(use: DiskUse): number {
  return use.packs + use.versions + use.samples + use.transfers + use.trials + use.states + use.journal;
}

/** Reserves that a purpose must leave alone: those of everything that matters more. */
function reservedAgainst(purpose: DiskPurpose, reserve: Profile["disk"]["reserveBytes"]): number {
  switch (purpose) {
    case "train":
      return reserve.slots + reserve.outbox + reserve.head;
    case "install":
      return reserve.outbox + reserve.head;
    case "report":
      return reserve.head;
  }
}

/**
 * Decides whether `needBytes` more may be written for a purpose, by the profile's budget and by what the file
 * system has left, whichever is tighter.
 */
export function judgeDisk(
  disk: Profile["disk"],
  use: DiskUse,
  purpose: DiskPurpose,
  needBytes: number,
): DiskVerdict {
  const reserved = reservedAgainst(purpose, disk.reserveBytes);
  const byBudget = disk.budgetBytes - usedBytes(use) - reserved - needBytes;
  const byDisk = use.free - reserved - needBytes;
  const left = Math.min(byBudget, byDisk);
  if (left >= 0) return { allowed: true, remainingBytes: left, reason: "enough space" };
  const limit =
    byBudget <= byDisk
      ? `the profile's budget of ${disk.budgetBytes} bytes, of which ${usedBytes(use)} are used`
      : `the disk, which has ${use.free} bytes free`;
  return {
    allowed: false,
    remainingBytes: left,
    reason: `${needBytes} bytes are needed and ${-left} are missing within ${limit} (${reserved} are reserved)`,
  };
}

export interface KeptVersion {
  readonly versionId: string;
  readonly line: string;
  readonly sequence: number;
  readonly released: boolean;
  readonly active: boolean;
  /**
   * An unreleased version here, or its base, has this one as its base: its transfer may be coded against it. Or a
   * training starts from it, or it is staged.
   */
  readonly needed: boolean;
}

/**
 * Returns the versions that may be forgotten: released, not active, not needed, and beyond the last N released of their
 * line. A version that several lines have may be forgotten only if this holds in all of them.
 */
export function forgettable(versions: readonly KeptVersion[], keepLast: number): readonly string[] {
  const out = new Set<KeptVersion>();
  for (const line of new Set(versions.map((version) => version.line))) {
    const released = versions
      .filter((version) => version.line === line && version.released)
      .sort((a, b) => b.sequence - a.sequence);
    for (const version of released.slice(keepLast)) if (!version.active && !version.needed) out.add(version);
  }
  const stays = new Set(versions.filter((version) => !out.has(version)).map(({ versionId }) => versionId));
  return [...new Set([...out].map(({ versionId }) => versionId))].filter(
    (versionId) => !stays.has(versionId),
  );
}
