/**
 * Decides which drops pay: those that free at least as much as has to be kept for their replays. What several dropped
 * versions share counts in equal parts, and what stays for anything else counts nowhere. Pure.
 */
import type { Hash } from "../../../../shared/tensor/tensor.js";

export interface SizedObject {
  readonly id: Hash;
  /** The size as it is stored. */
  readonly bytes: number;
}

/** The objects that go with a version's tensors, and those that only a replay needs; none that stays anyway. */
export interface DropWeight {
  readonly versionId: Hash;
  readonly frees: readonly SizedObject[];
  readonly keeps: readonly SizedObject[];
}

export interface DropGain {
  /** Bytes that the next collection frees, and that stay for the replay; shared ones in equal parts, rounded. */
  readonly freedBytes: number;
  readonly keptBytes: number;
}

/** Journal bytes of the facts that prove and drop one version, about. */
export const proofBytes = 1024;

/** The gain of each version if all of these are dropped. */
export function gainsOf(weights: readonly DropWeight[]): ReadonlyMap<Hash, DropGain> {
  const sharers = new Map<Hash, number>();
  for (const { frees, keeps } of weights)
    for (const { id } of [...frees, ...keeps]) sharers.set(id, (sharers.get(id) ?? 0) + 1);
  const share = (objects: readonly SizedObject[]): number =>
    objects.reduce((sum, { id, bytes }) => sum + bytes / (sharers.get(id) ?? 1), 0);
  return new Map(
    weights.map(({ versionId, frees, keeps }) => [
      versionId,
      { freedBytes: Math.round(share(frees)), keptBytes: Math.round(share(keeps)) + proofBytes },
    ]),
  );
}

export function pays({ freedBytes, keptBytes }: DropGain): boolean {
  return freedBytes >= keptBytes;
}
