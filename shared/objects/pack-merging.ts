/**
 * Merges small packs into larger ones, so that a store of many small saves does not have a file for each. Packs
 * of one size level are merged into one of a higher level, so every byte is written O(log n) times for n saves.
 * Nothing is removed but copies that no read uses. The steps are those of a collection, with the same states
 * after a crash.
 */
import type { Clock, Files } from "../ports.js";
import { bytesOf, replacePacks, type PackRewriter } from "./collector.js";
import type { ObjectIndex } from "./object-index.js";
import type { PackFiles } from "./pack-files.js";
import { packHeaderBytes, packTrailerBytes, smallPackBytes, type PackIndex } from "./pack-format.js";
import type { PackTensors } from "./pack-tensors.js";
import type { ReferenceLock } from "./reference-lock.js";

/** Merging starts when a level has this many packs. A level spans sizes up to this many times its smallest. */
export const packsPerMerge = 16;
/** One round merges at most this many packs and bytes. Any `packsPerMerge` small packs fit. */
const maxRoundPacks = 1024;
const maxRoundBytes = packsPerMerge * smallPackBytes;
/** The time that a collection's plan, or a recoding, keeps packs from being merged: a merge makes a plan stale. */
const postponedMs = 10 * 60_000;
const defaultKeepFreeBytes = 64 * 1024 * 1024;

export interface PackMergingParts {
  readonly files: Files;
  readonly clock: Pick<Clock, "monotonic">;
  readonly packFiles: PackFiles;
  readonly index: ObjectIndex;
  readonly tensors: PackTensors;
  readonly lock: ReferenceLock;
  readonly rewriter: PackRewriter;
  /** Runs work when no collection is running. */
  readonly run: <T>(work: () => Promise<T>) => Promise<T>;
  /** @throws STORE_FAILED */
  readonly checkWritable: () => void;
}

export interface MergeOptions {
  /** Packs of one level that start a round. At least, and by default, `packsPerMerge`. */
  readonly minPacks?: number;
  /** Bytes that stay free on the disk while the new pack stands beside the old ones. Default 64 MiB. */
  readonly keepFreeBytes?: number;
}

/** One round: how many packs became one, and their bytes. */
export interface MergedPacks {
  readonly packs: number;
  readonly bytes: number;
}

type SizedPack = Pick<PackIndex, "name" | "bytes">;

/** The logarithm to the base 16 of what a pack holds: 16 packs of a level hold at least what one above does. */
function levelOf({ bytes }: SizedPack): number {
  const content = Math.max(1, bytes - packHeaderBytes - packTrailerBytes);
  return Math.floor((31 - Math.clz32(content)) / 4);
}

/**
 * The packs of the next round: those of the lowest level that has `minPacks` small ones, as many as fit; none
 * where too few fit. Pure.
 */
export function choosePacks<Pack extends SizedPack>(
  packs: Iterable<Pack>,
  { minPacks, maxBytes }: { readonly minPacks: number; readonly maxBytes: number },
): readonly Pack[] {
  const levels: Pack[][] = [];
  for (const pack of packs) if (pack.bytes < smallPackBytes) (levels[levelOf(pack)] ??= []).push(pack);
  const level = levels.find((candidates) => (candidates?.length ?? 0) >= minPacks) ?? [];
  const chosen: Pack[] = [];
  let bytes = 0;
  for (const pack of level.slice(0, maxRoundPacks)) {
    bytes += pack.bytes;
    if (bytes > maxBytes) break;
    chosen.push(pack);
  }
  // Fewer would not reach the next level, and their bytes would be written again and again.
  return chosen.length < packsPerMerge ? [] : chosen;
}

export class PackMerging {
  readonly #parts: PackMergingParts;
  readonly #merged = { rounds: 0, packs: 0, bytes: 0 };
  #postponedUntilMs = Number.NEGATIVE_INFINITY;
  #underWay: Promise<unknown> = Promise.resolve();

  constructor(parts: PackMergingParts) {
    this.#parts = parts;
  }

  /** The merges since the store was opened. */
  get merged(): { readonly rounds: number; readonly packs: number; readonly bytes: number } {
    return { ...this.#merged };
  }

  /** Packs that are small enough to be merged. */
  get smallPacks(): number {
    let count = 0;
    for (const { bytes } of this.#parts.index.packs.values()) if (bytes < smallPackBytes) count++;
    return count;
  }

  /** Merges nothing for ten minutes, or until `resume`. */
  postpone(): void {
    this.#postponedUntilMs = this.#parts.clock.monotonic() + postponedMs;
  }
  /**
   * Postpones merges as `postpone`; resolves when the round under way, if any, has ended. Call before a
   * collection is planned.
   */
  async hold(): Promise<void> {
    this.postpone();
    await this.#underWay.catch(() => undefined);
  }
  resume(): void {
    this.#postponedUntilMs = Number.NEGATIVE_INFINITY;
  }

  /**
   * Merges one group of small packs, each object compared with its id. Returns undefined where nothing is to be
   * merged now: too few packs of a level, too little space on the disk, known damage, or postponed.
   * @throws OBJECT_HASH_MISMATCH, PACK_CORRUPT where damage is found; then the packs stay. DISK_FULL,
   * FILE_FAILED, STORE_FAILED
   */
  merge(options: MergeOptions = {}): Promise<MergedPacks | undefined> {
    const round = this.#parts.run(() => this.#mergeNow(options));
    this.#underWay = round;
    return round;
  }

  async #mergeNow({
    minPacks = packsPerMerge,
    keepFreeBytes = defaultKeepFreeBytes,
  }: MergeOptions): Promise<MergedPacks | undefined> {
    const { clock, files, packFiles, tensors, checkWritable } = this.#parts;
    checkWritable();
    if (clock.monotonic() < this.#postponedUntilMs || tensors.problems().length > 0) return undefined;
    const limits = { minPacks: Math.max(minPacks, packsPerMerge), maxBytes: maxRoundBytes };
    if (this.#choose(limits).length === 0) return undefined;
    const spareBytes = (await files.freeBytes(packFiles.folder)) - keepFreeBytes;
    const chosen = this.#choose({ ...limits, maxBytes: Math.min(maxRoundBytes, spareBytes) });
    if (chosen.length === 0) return undefined;
    await replacePacks(this.#parts, chosen, { dead: new Set() });
    const merged = { packs: chosen.length, bytes: bytesOf(chosen) };
    this.#merged.rounds++;
    this.#merged.packs += merged.packs;
    this.#merged.bytes += merged.bytes;
    return merged;
  }

  /**
   * Packs with a tensor that cannot be decoded, because what it is coded against is missing, are left to the
   * next collection; so are those for which a tier would have to be read.
   */
  #choose(limits: { readonly minPacks: number; readonly maxBytes: number }): readonly PackIndex[] {
    const { index } = this.#parts;
    const isReadable = (pack: PackIndex): boolean =>
      index
        .liveObjects(pack, new Set())
        .every(
          ({ entry }) =>
            index.isUsable(entry.id) && (entry.low !== undefined || !index.needsLowFile(entry.id)),
        );
    const unreadable = new Set<PackIndex>();
    for (;;) {
      const chosen = choosePacks(
        [...index.packs.values()].filter((pack) => !unreadable.has(pack)),
        limits,
      );
      const known = unreadable.size;
      for (const pack of chosen) if (!isReadable(pack)) unreadable.add(pack);
      if (unreadable.size === known) return chosen;
    }
  }
}
