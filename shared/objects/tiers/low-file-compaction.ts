/**
 * Rewrites low files of which little is still needed. Needed parts go into new low files of the same tier,
 * then the packs that name them are replaced, and the old files have no use any more. As with a move, a part
 * is in a file that a pack names at every moment; the caller removes unused files last.
 */
import { isStemmaError } from "../../errors.js";
import type { Random } from "../../ports.js";
import type { Hash } from "../../tensor/tensor.js";
import type { Located } from "../compact-pack.js";
import type { ObjectIndex } from "../object-index.js";
import type { PackEntry } from "../pack-entry.js";
import type { PackIndex } from "../pack-format.js";
import { stepBytes } from "../plan-collection.js";
import { ChangedEntries, LowFileWriter } from "./low-file-writer.js";
import type { LowFiles } from "./low-files.js";
import type { Tier, TierFile } from "./tier-files.js";

/** A low file is rewritten when less than this share of it is needed; so a tier keeps at most twice what it needs. */
const minLiveShare = 0.5;

export interface CompactionParts {
  readonly index: ObjectIndex;
  readonly lowFiles: LowFiles;
  readonly random: Random;
  /** Replaces packs by ones in which entries are changed. */
  readonly replace: (packs: readonly PackIndex[], change: (entry: PackEntry) => PackEntry) => Promise<void>;
}

/** A low file with the copies that need it, and all packs that name it. */
interface UsedFile {
  readonly file: TierFile;
  readonly needed: readonly Located[];
  readonly neededBytes: number;
  readonly packs: ReadonlySet<PackIndex>;
}

/** The bytes that a collection removes from one place of low files. */
export interface LowFileRemoval {
  readonly files: number;
  readonly bytes: number;
  /** The bytes among them that are still needed and are written into new files. */
  readonly rewrittenBytes: number;
}

/** Predicts what is removed once the `dead` objects are collected. A damaged file, or a full disk, removes less. */
export function forecastRemoval(
  index: ObjectIndex,
  files: readonly TierFile[],
  { dead, isCompacted }: { readonly dead: ReadonlySet<Hash>; readonly isCompacted: boolean },
): LowFileRemoval {
  const removal = { files: 0, bytes: 0, rewrittenBytes: 0 };
  for (const used of usesOf(index, files, dead)) {
    if (used.neededBytes > 0 && !(isCompacted && isSparse(used))) continue;
    removal.files++;
    removal.bytes += used.file.bytes;
    removal.rewrittenBytes += used.neededBytes;
  }
  return removal;
}

function isSparse({ file, neededBytes, packs }: UsedFile): boolean {
  return packs.size > 0 && neededBytes < minLiveShare * file.bytes;
}

/**
 * Rewrites the sparse low files of one tier. One with a damaged part stays as it is, and what the disks have no space
 * for waits for the next time.
 * @returns bytes of the parts that were written again
 * @throws TIER_UNREACHABLE, FILE_FAILED where the tier returns other bytes than were written
 */
export async function compactTier(parts: CompactionParts, tier: Tier): Promise<number> {
  let written = 0;
  for (const step of inSteps(sparseFiles(parts.index, await tier.files.list()))) {
    try {
      written += await rewrite(parts, tier, step);
    } catch (error) {
      if (!isStemmaError(error, "DISK_FULL")) throw error;
      break;
    }
  }
  return written;
}

function sparseFiles(index: ObjectIndex, files: readonly TierFile[]): readonly UsedFile[] {
  return usesOf(index, files, new Set()).filter(isSparse);
}

/** @param dead objects that are looked at as if they were collected */
function usesOf(
  index: ObjectIndex,
  files: readonly TierFile[],
  dead: ReadonlySet<Hash>,
): readonly UsedFile[] {
  const found = new Map(
    files.map((file) => [
      file.name,
      { file, needed: [] as Located[], neededBytes: 0, packs: new Set<PackIndex>() },
    ]),
  );
  for (const pack of index.packs.values()) {
    for (const { low } of pack.lowEntries()) if (low !== undefined) found.get(low.file)?.packs.add(pack);
    for (const located of index.liveObjects(pack, dead)) {
      const { low } = located.entry;
      const own = low === undefined ? undefined : found.get(low.file);
      if (low === undefined || own === undefined) continue;
      own.needed.push(located);
      own.neededBytes += low.bytes;
    }
  }
  return [...found.values()];
}

/** Files whose packs are replaced together. */
function inSteps(files: readonly UsedFile[]): readonly UsedFile[][] {
  const steps: UsedFile[][] = [];
  let packs = new Set<PackIndex>();
  for (const file of files) {
    const all = new Set([...packs, ...file.packs]);
    const isFull = [...all].reduce((sum, { bytes }) => sum + bytes, 0) > stepBytes;
    if (steps.length === 0 || isFull) steps.push([]);
    packs = isFull ? new Set(file.packs) : all;
    steps.at(-1)!.push(file);
  }
  return steps;
}

async function rewrite(
  { index, lowFiles, random, replace }: CompactionParts,
  tier: Tier,
  files: readonly UsedFile[],
): Promise<number> {
  const changed = new ChangedEntries();
  const writer = new LowFileWriter(tier.files, random, changed);
  const packs = new Set<PackIndex>();
  for (const file of files) {
    const read = await readParts(lowFiles, file.needed);
    if (read === undefined) continue;
    for (const { entry, bytes } of read) await writer.add(entry, bytes);
    for (const pack of file.packs) packs.add(pack);
  }
  await writer.flush();
  const current = [...packs].filter(({ name }) => index.packs.has(name));
  if (current.length === 0) return 0;
  await replace(current, (entry) => changed.of(entry));
  return changed.lowBytes;
}

/** Reads low parts; undefined where a part is damaged. @throws TIER_UNREACHABLE */
async function readParts(
  lowFiles: LowFiles,
  needed: readonly Located[],
): Promise<readonly { readonly entry: PackEntry; readonly bytes: Uint8Array }[] | undefined> {
  const read: { entry: PackEntry; bytes: Uint8Array }[] = [];
  for (const { entry } of needed) {
    if (entry.low === undefined) continue;
    const found = await lowFiles.read(entry.low);
    if (found.isDamaged) return undefined;
    read.push({ entry, bytes: found.bytes });
  }
  return read;
}
