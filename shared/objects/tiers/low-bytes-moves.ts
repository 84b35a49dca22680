/**
 * Moves the low-order bytes of tensors from packs to a tier, and back. A move writes low files to the tier, reads
 * them back, and then replaces the packs with ones that name the low files; the steps after that are those of a
 * collection. So a crash at any point leaves the bytes in a pack, in the tier, or in both; low files that no pack
 * names are removed by `removeUnused`.
 */
import type { DeltaCodec } from "../../delta/codec.js";
import { planeBytes } from "../../delta/numbers.js";
import { isStemmaError, StemmaError } from "../../errors.js";
import type { Files, Random } from "../../ports.js";
import type { Hash } from "../../tensor/tensor.js";
import { replacePacks } from "../collector.js";
import { tensorDecoder } from "../decoding/tensor-decoder.js";
import { isInPlanes } from "../high-planes.js";
import { isSameCopy, type CompactPack, type Located } from "../compact-pack.js";
import type { ObjectIndex } from "../object-index.js";
import type { PackEntry } from "../pack-entry.js";
import type { PackIndex } from "../pack-format.js";
import type { FilePackRewriter } from "../pack-rewriter.js";
import type { PackTensors } from "../pack-tensors.js";
import { stepBytes } from "../plan-collection.js";
import type { ReferenceLock } from "../reference-lock.js";
import {
  compactTier,
  forecastRemoval,
  type CompactionParts,
  type LowFileRemoval,
} from "./low-file-compaction.js";
import { isLowFileIntact } from "./low-file.js";
import { ChangedEntries, LowFileWriter, writeVerified } from "./low-file-writer.js";
import type { LowFiles } from "./low-files.js";
import type { LowPart } from "./low-part.js";
import type { Tier, TierFiles } from "./tier-files.js";

/** Fewer low-order bytes than this are not moved: they would save less than reading them again costs. */
export const minLowBytes = 1024;
const keepFreeBytes = 64 * 1024 * 1024;

export interface LowBytesMovesParts {
  readonly files: Pick<Files, "freeBytes">;
  readonly folder: string;
  readonly random: Random;
  readonly index: ObjectIndex;
  readonly tensors: Pick<PackTensors, "problems">;
  readonly lowFiles: LowFiles;
  readonly lock: ReferenceLock;
  readonly rewriter: FilePackRewriter;
  /** A coded tensor's stored bytes, verified by decoding them. */
  readonly verifiedStored: (id: Hash) => Promise<Uint8Array>;
  /** The stored bytes of a tensor with a low part that are in its pack, compared with their plane check. */
  readonly verifiedInPack: (located: Located) => Promise<Uint8Array>;
  /** Runs work when no collection is running. */
  readonly run: <T>(work: () => Promise<T>) => Promise<T>;
  /** @throws STORE_FAILED */
  readonly checkWritable: () => void;
}

export interface MoveOptions {
  /** Ends the move between two steps. */
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((moved: MovedLowBytes) => void) | undefined;
  /** Runs each step, so that nothing that must not run beside it does. */
  readonly exclusively?: (<T>(work: () => Promise<T>) => Promise<T>) | undefined;
}

const directly = <T>(work: () => Promise<T>): Promise<T> => work();

export interface MovedLowBytes {
  readonly tensors: number;
  readonly bytes: number;
}

/** Low-order bytes that are not in packs. */
export interface LowBytesTotals extends MovedLowBytes {
  readonly files: number;
}

/** The low files that a collection removes, or would remove, in all and place by place. */
export interface RemovedLowFiles extends LowFileRemoval {
  /** Tier by tier; `null` is the store's own folder, where a restore puts low files. Those with files only. */
  readonly places: readonly (LowFileRemoval & { readonly tier: string | null })[];
  /** Tiers that could not be looked at, with the reason. */
  readonly unreachable: readonly { readonly tier: string; readonly message: string }[];
}

/** Returns how many byte planes of a number stay in the pack: the higher half. */
export function planesKept(width: number): number {
  return Math.ceil(width / 2);
}

/** True if a tensor's low-order bytes could be moved as it is stored now. */
export function canSplit({ header, encodingCode, planeChecks, low }: PackEntry): boolean {
  return (
    low === undefined &&
    header !== undefined &&
    isInPlanes(encodingCode) &&
    planeBytes(header.dtype) >= 2 &&
    planeChecks !== undefined
  );
}

export class LowBytesMoves {
  readonly #parts: LowBytesMovesParts;

  constructor(parts: LowBytesMovesParts) {
    this.#parts = parts;
  }

  /** The parts and bytes that were read from tiers since the store was opened. */
  get readFromTiers(): { readonly parts: number; readonly bytes: number } {
    return this.#parts.lowFiles.readFromTiers;
  }

  /** True if there is a tier, or a low file next to the packs. */
  get hasPlaces(): boolean {
    const { nearNames, tiers } = this.#parts.lowFiles.places;
    return nearNames.size > 0 || tiers().length > 0;
  }

  /** Names of the low files that packs need. */
  files(): ReadonlySet<string> {
    return this.#parts.index.lowFiles();
  }

  /** A complete low file. @throws TIER_UNREACHABLE; PACK_CORRUPT where it is damaged or lost */
  readFile(name: string): Promise<Uint8Array> {
    return this.#parts.lowFiles.readFile(name);
  }

  /**
   * Compares what a pack has of a tensor whose low-order bytes are elsewhere. @throws the damage found
   */
  async verifyInPack(id: Hash): Promise<void> {
    const located = this.#parts.index.locate(id);
    if (located?.entry.low !== undefined) await this.#parts.verifiedInPack(located);
  }

  /** The low-order bytes that are in no pack, of copies that reads use. Reads no tier. */
  totals(): LowBytesTotals {
    const files = new Set<string>();
    const sum = { tensors: 0, bytes: 0 };
    for (const { low } of this.#located()) {
      files.add(low.file);
      sum.tensors++;
      sum.bytes += low.bytes;
    }
    return { ...sum, files: files.size };
  }

  *#located(): Iterable<{ readonly entry: PackEntry; readonly low: LowPart }> {
    const { index } = this.#parts;
    if (!index.hasLowParts) return;
    for (const pack of index.packs.values())
      for (const { entry } of index.liveObjects(pack, new Set()))
        if (entry.low !== undefined) yield { entry, low: entry.low };
  }

  lowPartOf(id: Hash): LowPart | undefined {
    return this.#parts.index.locate(id)?.entry.low;
  }

  /** True if reading this tensor needs low-order bytes that are not in a pack, its own or of its chain. */
  needsLowFile(id: Hash): boolean {
    return this.#parts.index.needsLowFile(id);
  }

  /**
   * Moves the low-order bytes of the chosen tensors that are stored in planes, and all low files of the store's own
   * folder, to a tier. @throws TIER_UNREACHABLE, DISK_FULL (of the tier or of the store), FILE_FAILED where the tier
   * returns other bytes than were written; what was moved before stays moved
   */
  async move(
    chosen: ReadonlySet<Hash>,
    to: Tier,
    { signal, onProgress, exclusively = directly }: MoveOptions = {},
  ): Promise<MovedLowBytes> {
    const { index } = this.#parts;
    const run = <T>(work: () => Promise<T>): Promise<T> => exclusively(() => this.#parts.run(work));
    const delta = (await tensorDecoder()).delta;
    const moved = { tensors: 0, bytes: 0 };
    const add = ({ tensors, bytes }: MovedLowBytes): void => {
      moved.tensors += tensors;
      moved.bytes += bytes;
      onProgress?.({ ...moved });
    };
    await run(async () => {
      add(await this.#moveNearFiles(to));
    });
    const isChosen = ({ entry }: Located): boolean => chosen.has(entry.id) && canSplit(entry);
    const packs = [...index.packs.values()].filter((pack) =>
      index.liveObjects(pack, new Set()).some(isChosen),
    );
    for (const step of inSteps(packs, ({ bytes }) => bytes)) {
      if (signal?.aborted === true) break;
      await run(async () => {
        this.#parts.checkWritable();
        const current = step.filter(({ name }) => index.packs.has(name));
        const split = current.flatMap((pack) => index.liveObjects(pack, new Set())).filter(isChosen);
        add(await this.#split(current, split, { to: to.files, delta }));
      });
    }
    return moved;
  }

  async #split(
    packs: readonly PackIndex[],
    chosen: readonly Located[],
    { to, delta }: { readonly to: TierFiles; readonly delta: DeltaCodec },
  ): Promise<MovedLowBytes> {
    const lows = new ChangedEntries();
    const writer = new LowFileWriter(to, this.#parts.random, lows);
    for (const copy of chosen) {
      const { entry } = copy;
      const stored = await this.#parts.verifiedStored(entry.id);
      // Superseded meanwhile: these bytes are of another copy.
      if (!isSameCopy(copy, this.#parts.index.locate(entry.id))) continue;
      const low = stored.subarray(prefixBytes(delta, entry, stored));
      if (low.length >= minLowBytes) await writer.add(entry, low);
    }
    await writer.flush();
    if (lows.size === 0) return { tensors: 0, bytes: 0 };
    await this.#replace(packs, (entry) => lows.of(entry));
    return { tensors: lows.size, bytes: lows.lowBytes };
  }

  async #replace(packs: readonly PackIndex[], change: (entry: PackEntry) => PackEntry): Promise<void> {
    const { index, lock, rewriter } = this.#parts;
    await replacePacks(
      {
        index,
        lock,
        rewriter: {
          rewrite: (kept) => rewriter.rewrite(kept, change),
          remove: (removed) => rewriter.remove(removed),
        },
      },
      packs,
      { dead: new Set() },
    );
    this.#parts.lowFiles.forget();
  }

  /** Low files that a restore put into the store's own folder. Damaged ones stay. */
  async #moveNearFiles(to: Tier): Promise<MovedLowBytes> {
    const { near, nearNames } = this.#parts.lowFiles.places;
    if (nearNames.size === 0) return { tensors: 0, bytes: 0 };
    const used = this.#parts.index.lowFiles();
    let bytes = 0;
    for (const { name, bytes: size } of await near.list()) {
      if (!used.has(name)) continue;
      const content = await near.read(name, 0, size);
      if (!isLowFileIntact(name, content)) continue;
      await writeVerified(to.files, { name, bytes: content });
      nearNames.delete(name);
      await near.remove(name);
      bytes += size;
    }
    const tensors =
      bytes === 0 ? 0 : [...this.#located()].filter(({ low }) => !nearNames.has(low.file)).length;
    return { tensors, bytes };
  }

  /** Bytes that moving everything back from a tier needs on the store's disk. @throws TIER_UNREACHABLE */
  async bytesToBringBack(from: Tier): Promise<number> {
    const { entries } = await this.#inTier(from);
    return entries.reduce((sum, { low }) => sum + (low?.bytes ?? 0), 0);
  }

  /**
   * Writes the low-order bytes that are in a tier back into packs, and removes this store's files from the tier.
   * @throws TIER_UNREACHABLE, DISK_FULL where the disk has no space for all of them; OBJECT_HASH_MISMATCH,
   * PACK_CORRUPT where some are damaged. Then the tier keeps its files, and what was brought back stays
   */
  async bringBack(
    from: Tier,
    { signal, onProgress, exclusively = directly }: MoveOptions = {},
  ): Promise<MovedLowBytes> {
    const { index, files, folder } = this.#parts;
    const run = <T>(work: () => Promise<T>): Promise<T> => exclusively(() => this.#parts.run(work));
    const needed = await this.bytesToBringBack(from);
    const free = await files.freeBytes(folder);
    if (needed > 0 && free < needed + keepFreeBytes)
      throw new StemmaError(
        "DISK_FULL",
        `Bringing back ${needed} bytes from the tier ${from.name} needs ${needed + keepFreeBytes} free bytes in ${folder}, and ${free} are free. Free ${needed + keepFreeBytes - free} bytes more, then try again; nothing was moved.`,
        { tier: from.name, needed: needed + keepFreeBytes, free },
      );
    const moved = { tensors: 0, bytes: 0 };
    const { packs, names } = await this.#inTier(from);
    for (const step of inSteps(packs, (pack) => pack.bytes + lowBytesOf(pack, names))) {
      if (signal?.aborted === true) return moved;
      await run(async () => {
        this.#parts.checkWritable();
        const current = step.filter(({ name }) => index.packs.has(name));
        await this.#replace(current, (entry) => {
          if (entry.low === undefined || !names.has(entry.low.file)) return entry;
          moved.tensors++;
          moved.bytes += entry.low.bytes;
          const { low: _low, ...whole } = entry;
          return whole;
        });
      });
      onProgress?.({ ...moved });
    }
    await run(async () => {
      await removeUnusedIn(from.files, index.lowFiles());
    });
    return moved;
  }

  /** The packs with a part in this tier's files, and their entries that reads use. */
  async #inTier({ files }: Tier): Promise<{
    readonly names: ReadonlySet<string>;
    readonly packs: readonly CompactPack[];
    readonly entries: readonly PackEntry[];
  }> {
    const { index, lowFiles } = this.#parts;
    const names = new Set((await files.list()).map(({ name }) => name));
    for (const name of lowFiles.places.nearNames) names.delete(name);
    const isIn = ({ low }: PackEntry): boolean => low !== undefined && names.has(low.file);
    const packs = [...index.packs.values()].filter((pack) => pack.lowEntries().some(isIn));
    const entries = packs
      .flatMap((pack) => index.liveObjects(pack, new Set()).map(({ entry }) => entry))
      .filter(isIn);
    return { names, packs, entries };
  }

  /**
   * Removes the low files that no pack names, and what interrupted writes left. Files of which little is needed are
   * rewritten first (low-file-compaction.ts). Does nothing while packs are damaged: one of them may name a file.
   */
  async removeUnused(): Promise<RemovedLowFiles> {
    const { index, lowFiles, random, run } = this.#parts;
    const replace: CompactionParts["replace"] = (packs, change) => this.#replace(packs, change);
    const compaction = { index, lowFiles, random, replace };
    return await run(async () => {
      const removed = await this.#eachPlace(async (files, tier) => {
        const rewrittenBytes = tier === undefined ? 0 : await compactTier(compaction, tier);
        return { ...(await removeUnusedIn(files, index.lowFiles())), rewrittenBytes };
      });
      const used = index.lowFiles();
      const { nearNames } = lowFiles.places;
      for (const name of nearNames) if (!used.has(name)) nearNames.delete(name);
      return removed;
    });
  }

  /**
   * Returns what `removeUnused` would remove once the `dead` objects are collected. Where a tier's disk is full then,
   * or a needed part is damaged, it removes less.
   */
  async forecastUnused(dead: ReadonlySet<Hash>): Promise<RemovedLowFiles> {
    return await this.#eachPlace(async (files, tier) =>
      forecastRemoval(this.#parts.index, await files.list(), { dead, isCompacted: tier !== undefined }),
    );
  }

  /** Adds up places, and notes tiers that cannot be reached. */
  async #eachPlace(
    work: (files: TierFiles, tier?: Tier) => Promise<LowFileRemoval>,
  ): Promise<RemovedLowFiles> {
    const places: RemovedLowFiles["places"][number][] = [];
    const unreachable: { tier: string; message: string }[] = [];
    const { near, tiers } = this.#parts.lowFiles.places;
    if (this.#parts.tensors.problems().length === 0) {
      places.push({ tier: null, ...(await work(near)) });
      for (const tier of tiers())
        try {
          places.push({ tier: tier.name, ...(await work(tier.files, tier)) });
        } catch (error) {
          if (!isStemmaError(error, "TIER_UNREACHABLE")) throw error;
          unreachable.push({ tier: tier.name, message: error.message });
        }
    }
    const sum = (member: keyof LowFileRemoval): number =>
      places.reduce((total, place) => total + place[member], 0);
    return {
      files: sum("files"),
      bytes: sum("bytes"),
      rewrittenBytes: sum("rewrittenBytes"),
      places: places.filter(({ files }) => files > 0),
      unreachable,
    };
  }
}

/** Returns how many of a copy's stored bytes hold the planes that stay in the pack. */
function prefixBytes(delta: DeltaCodec, { header, encodingCode }: PackEntry, stored: Uint8Array): number {
  if (header === undefined || !isInPlanes(encodingCode)) return stored.length;
  return delta.planesPrefixBytes(header, stored, planesKept(planeBytes(header.dtype)), encodingCode);
}

function lowBytesOf(pack: CompactPack, files: ReadonlySet<string>): number {
  return pack
    .lowEntries()
    .reduce((sum, { low }) => sum + (low !== undefined && files.has(low.file) ? low.bytes : 0), 0);
}

async function removeUnusedIn(
  files: TierFiles,
  used: ReadonlySet<string>,
): Promise<{ files: number; bytes: number }> {
  const removed = { files: 0, bytes: 0 };
  for (const { name, bytes } of await files.list()) {
    if (used.has(name)) continue;
    await files.remove(name);
    removed.files++;
    removed.bytes += bytes;
  }
  await files.removeHalfFiles();
  return removed;
}

/** Packs that are replaced together: the old and the new ones take space at the same time. */
function inSteps<Pack extends PackIndex>(
  packs: readonly Pack[],
  bytesOf: (pack: Pack) => number,
): readonly Pack[][] {
  const steps: Pack[][] = [];
  let spare = 0;
  for (const pack of packs) {
    const bytes = bytesOf(pack);
    if (bytes > spare) {
      steps.push([]);
      spare = stepBytes;
    }
    steps.at(-1)?.push(pack);
    spare -= bytes;
  }
  return steps;
}
