/**
 * Reads the header, trailer and index of every pack again, verifies packs, and replaces damaged ones. The index
 * cache and the memory of a running process stand in for what is damaged on the disk, so damage is found only
 * by reading. Runs serially with collections.
 */
import { basename, dirname, join } from "node:path";
import { mapConcurrent } from "../concurrency/map-concurrent.js";
import { isStemmaError, type StemmaError } from "../errors.js";
import { makeFolderDurably } from "../files/make-folder.js";
import type { ObjectKind } from "../model/model.js";
import type { Files } from "../ports.js";
import type { Hash } from "../tensor/tensor.js";
import type { PackRewriter } from "./collector.js";
import { readPack } from "./load-packs.js";
import type { Located } from "./compact-pack.js";
import type { ObjectIndex } from "./object-index.js";
import { rawEncodingCode } from "./pack-entry.js";
import { packSuffix } from "./pack-file-writer.js";
import type { PackFiles } from "./pack-files.js";
import { isPackName } from "./pack-format.js";
import type { PackTensors } from "./pack-tensors.js";
import type { ReferenceLock } from "./reference-lock.js";

export interface PackMaintenanceParts {
  readonly files: Files;
  readonly packFiles: PackFiles;
  readonly index: ObjectIndex;
  readonly tensors: PackTensors;
  readonly lock: ReferenceLock;
  readonly rewriter: Pick<PackRewriter, "rewrite">;
  /** The bytes of a raw object, verified. */
  readonly chunks: (id: Hash, kind: ObjectKind | "tensor") => AsyncIterable<Uint8Array>;
  /** A coded tensor's stored bytes, verified by decoding them. */
  readonly verifiedStored: (id: Hash) => Promise<Uint8Array>;
  /** The stored bytes of a tensor with a low part that are in its pack, compared with their plane check. */
  readonly verifiedInPack: (located: Located) => Promise<Uint8Array>;
  /** Makes renames and removals in the folder durable. */
  readonly syncNames: () => Promise<void>;
  /** Runs work when no collection is running. */
  readonly run: <T>(work: () => Promise<T>) => Promise<T>;
  /** @throws STORE_FAILED */
  readonly checkWritable: () => void;
}

/** A damaged pack that was replaced. */
export interface RepairedPack {
  readonly pack: string;
  /** Objects that are in the new pack. */
  readonly kept: number;
  /** Objects of its index that could not be read. */
  readonly lost: readonly Hash[];
  /** The path of the damaged file now; null for one that was missing. */
  readonly setAside: string | null;
}

const maxConcurrentReads = 16;
const setAsideName = "damaged";

export class PackMaintenance {
  readonly #parts: PackMaintenanceParts;

  constructor(parts: PackMaintenanceParts) {
    this.#parts = parts;
  }

  /**
   * Compares every pack on the disk with what is in memory. The objects of a pack that is missing are no longer
   * in the store; those of a pack that was put back are in it again. `PackStore.problems` has what was found.
   * @param unread packs of which only the size is compared, unless damage is known of them
   */
  async inspect(unread: ReadonlySet<string> = new Set()): Promise<void> {
    const { files, packFiles, index, tensors, run } = this.#parts;
    await run(async () => {
      const onDisk = (await files.list(packFiles.folder))
        .filter((name) => name.endsWith(packSuffix))
        .map((name) => name.slice(0, -packSuffix.length))
        .filter(isPackName);
      const damaged = new Set(tensors.problems().map(({ pack }) => pack));
      await mapConcurrent(new Set([...index.packs.keys(), ...onDisk]), maxConcurrentReads, async (name) => {
        if (unread.has(name) && !damaged.has(name) && (await this.#hasItsSize(name))) return;
        await this.#inspectPack(name);
      });
      await this.#findLowBytes();
    });
  }

  async #hasItsSize(name: string): Promise<boolean> {
    const { files, packFiles, index } = this.#parts;
    return (await files.stat(packFiles.path(name)))?.size === index.packs.get(name)?.bytes;
  }

  /** Low-order bytes that were damaged or lost are read again: their tier may have been put right. */
  async #findLowBytes(): Promise<void> {
    const { index, tensors } = this.#parts;
    for (const { id } of tensors.problems()) {
      const entry = id === undefined ? undefined : index.locate(id)?.entry;
      if (id === undefined || entry?.low === undefined) continue;
      try {
        if (await tensors.areLowBytesBack(entry)) index.dropDamage(id);
      } catch (error) {
        if (!isStemmaError(error, "TIER_UNREACHABLE")) throw error;
      }
    }
  }

  async #inspectPack(name: string): Promise<void> {
    const { packFiles, index, tensors } = this.#parts;
    try {
      const { pack, damage } = await readPack(packFiles, name, index.packs.get(name));
      if (pack !== undefined && !index.packs.has(name)) await this.#exclusive(() => index.add(pack));
      if (damage === undefined) tensors.packIntact(name);
      else tensors.packDamaged(name, damage);
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      tensors.packDamaged(name, error);
      const known = index.packs.get(name);
      if (known === undefined || !isStemmaError(error, "FILE_MISSING")) return;
      await this.#exclusive(() => index.replace([known], []));
      await packFiles.retire(name);
    }
  }

  /**
   * The errors of the pack's objects that cannot be read, among those that reads take from this pack. Of low-order
   * bytes in a tier nothing is read.
   */
  async *verify(name: string): AsyncIterable<StemmaError> {
    const { index, packFiles } = this.#parts;
    const pack = index.packs.get(name);
    packFiles.forgetReadAhead();
    for (const located of pack === undefined ? [] : index.liveObjects(pack, new Set())) {
      const error = await this.#errorOf(located);
      if (error !== undefined) yield error;
    }
  }

  /**
   * Writes the objects of damaged packs that can be read into new packs, and moves the damaged files into the
   * folder `damaged` below that of the packs. Nothing is deleted. Packs of an unknown format stay. Only damage
   * that `PackStore.problems` has is repaired. @throws DISK_FULL, FILE_FAILED, STORE_FAILED
   */
  async repair(): Promise<readonly RepairedPack[]> {
    const { tensors, run, checkWritable } = this.#parts;
    return await run(async () => {
      checkWritable();
      const damaged = tensors
        .problems()
        .filter(({ error }) => !isStemmaError(error, "PACK_FORMAT_UNKNOWN"))
        .map(({ pack }) => pack);
      return await mapConcurrent(new Set(damaged), 1, (name) => this.#repairPack(name));
    });
  }

  async #repairPack(name: string): Promise<RepairedPack> {
    const { index, tensors, packFiles, rewriter } = this.#parts;
    const pack = index.packs.get(name);
    const lost: Hash[] = [];
    let kept: readonly Located[] = [];
    if (pack !== undefined) {
      for (const located of index.liveObjects(pack, new Set()))
        if ((await this.#errorOf(located)) !== undefined) lost.push(located.entry.id);
      kept = index.liveObjects(pack, new Set(lost));
      const added = kept.length === 0 ? [] : [await rewriter.rewrite(kept)];
      await this.#exclusive(() => index.replace([pack], added));
      await packFiles.retire(name);
    }
    const setAside = await this.#setAside(name);
    tensors.packIntact(name);
    return { pack: name, kept: kept.length, lost, setAside };
  }

  /** Returns why an object cannot be read from the disk, or is not what its id states. No tier is read. */
  async #errorOf(located: Located): Promise<StemmaError | undefined> {
    const { chunks, verifiedStored, verifiedInPack } = this.#parts;
    const { id, kind, encodingCode, low } = located.entry;
    try {
      if (low !== undefined) await verifiedInPack(located);
      else if (kind === "tensor" && encodingCode !== rawEncodingCode) await verifiedStored(id);
      else for await (const piece of chunks(id, kind)) void piece;
      return undefined;
    } catch (error) {
      if (isStemmaError(error)) return error;
      throw error;
    }
  }

  async #setAside(name: string): Promise<string | null> {
    const { files, packFiles, syncNames } = this.#parts;
    const path = packFiles.path(name);
    if ((await files.stat(path)) === undefined) return null;
    const folder = join(dirname(path), setAsideName);
    await makeFolderDurably(files, folder);
    const to = join(folder, basename(path));
    await files.rename(path, to);
    await files.syncFolder(folder);
    await syncNames();
    return to;
  }

  #exclusive(change: () => void): Promise<void> {
    return this.#parts.lock.exclusive(() => {
      change();
      return Promise.resolve();
    });
  }
}
