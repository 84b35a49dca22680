/**
 * Shares out the space for unfinished uploads among devices. The last quarter of it only goes to devices that
 * have no more there than they leave to others. So devices with large uploads, also several together, do not
 * stop the transfers of the others. Pure.
 */
import type { IngestLimits } from "../limits.js";

/** Share of the space that only devices with little in it get. */
const reserve = 1 / 4;

export interface SpoolUse {
  /** Bytes of all spools that are in use. */
  readonly total: number;
  /** The bytes of the device itself. */
  readonly own: number;
}

/** True if a device may have so many bytes more, where all spools that nobody uses give way. */
export function maySpool(
  byteLength: number,
  { total, own }: SpoolUse,
  { spoolBytes, spoolBytesPerDevice }: Pick<IngestLimits, "spoolBytes" | "spoolBytesPerDevice">,
): boolean {
  const ownAfter = own + byteLength;
  const left = spoolBytes - total - byteLength;
  if (ownAfter > spoolBytesPerDevice || left < 0) return false;
  return left >= spoolBytes * reserve || ownAfter <= left;
}

/** A spool that nobody uses now. */
export interface UnusedSpool {
  readonly versionId: string;
  /** The device; undefined where this process does not know it: from before a restart. */
  readonly device: string | undefined;
  readonly byteLength: number;
  readonly usedMs: number;
}

/**
 * The spools to remove until `bytes` are free: each time the oldest one, by its last progress, of the device that has
 * most bytes in such spools then. So a device that leaves many behind loses its own. O(n log n).
 */
export function spoolsToEvict(unused: readonly UnusedSpool[], bytes: number): readonly string[] {
  const leftOf = new Map<string, number>();
  const newestFirst = [...unused].sort((a, b) => b.usedMs - a.usedMs);
  const candidates = newestFirst.map((spool) => {
    // The owner of a spool without a device is the spool itself: only its own size is known.
    const owner = spool.device ?? `\0${spool.versionId}`;
    /** The space that the owner has when this one is its oldest: it decides when this one goes. */
    const left = (leftOf.get(owner) ?? 0) + spool.byteLength;
    leftOf.set(owner, left);
    return { ...spool, left };
  });
  candidates.sort((a, b) => b.left - a.left || a.usedMs - b.usedMs);
  const evicted: string[] = [];
  let missing = bytes;
  for (const { versionId, byteLength } of candidates) {
    if (missing <= 0) break;
    missing -= byteLength;
    evicted.push(versionId);
  }
  return evicted;
}
