/**
 * Plans which versions' stored data may go, and which bytes that frees. A chunk stays while any version,
 * registered name or replay of a dropped version still needs it. Pure.
 */
import type { Hash } from "../../../../shared/tensor/tensor.js";

export interface StoredChunk {
  readonly id: Hash;
  /** The chunk's size as it is stored. */
  readonly bytes: number;
}

export interface VersionWithData {
  readonly versionId: Hash;
  /** The chunks of its training's stored data, each once. */
  readonly chunks: readonly StoredChunk[];
  /** The reason why they stay; undefined: they may go. */
  readonly stays?: string | undefined;
}

export interface DataDropPlan<Version> {
  /** `freedBytes`: of `dataBytes` those that nothing else needs, counted at the first version of a plan. */
  readonly drop: readonly {
    readonly version: Version;
    readonly dataBytes: number;
    readonly freedBytes: number;
  }[];
  readonly keep: readonly { readonly version: Version; readonly because: string }[];
}

/**
 * @param versions all that need their data
 * @param isAsked which of them are to do without
 * @param needed chunks that something else needs
 */
export function planDataDrops<Version extends VersionWithData>(
  versions: readonly Version[],
  isAsked: (version: Version) => boolean,
  needed: Iterable<Hash>,
): DataDropPlan<Version> {
  const going = versions.filter((version) => isAsked(version) && version.stays === undefined);
  const isGoing = new Set<Version>(going);
  const counted = new Set<Hash>(needed);
  for (const version of versions)
    if (!isGoing.has(version)) for (const { id } of version.chunks) counted.add(id);
  const drop = going.map((version) => {
    let [dataBytes, freedBytes] = [0, 0];
    for (const { id, bytes } of version.chunks) {
      dataBytes += bytes;
      if (!counted.has(id)) freedBytes += bytes;
      counted.add(id);
    }
    return { version, dataBytes, freedBytes };
  });
  const keep = versions.flatMap((version) =>
    isAsked(version) && version.stays !== undefined ? { version, because: version.stays } : [],
  );
  return { drop, keep };
}
