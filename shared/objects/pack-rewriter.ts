/** Rewrites and removes packs of the store on files, for collections, repairs and merging. */
import type { Files } from "../ports.js";
import type { ObjectKind } from "../model/model.js";
import type { Hash } from "../tensor/tensor.js";
import type { PackRewriter } from "./collector.js";
import type { Located } from "./compact-pack.js";
import type { PackFileWriter } from "./pack-file-writer.js";
import type { PackFiles } from "./pack-files.js";
import { rawEncodingCode, type PackEntry } from "./pack-entry.js";
import type { PackIndex } from "./pack-format.js";
import { plainSeal } from "./unsealed-entry.js";

export interface PackRewriterParts {
  readonly files: Files;
  readonly packFiles: PackFiles;
  readonly newTarget: () => PackFileWriter;
  /** The bytes of a raw object, verified. */
  readonly chunks: (id: Hash, kind: ObjectKind | "tensor") => AsyncIterable<Uint8Array>;
  /** A coded tensor's stored bytes, verified by decoding them. */
  readonly verifiedStored: (id: Hash) => Promise<Uint8Array>;
  /** The stored bytes of a tensor with a low part that are in its pack, compared with their plane check. */
  readonly verifiedInPack: (located: Located) => Promise<Uint8Array>;
  /** True if reads use this copy. */
  readonly isRead: (located: Located) => boolean;
  /** Makes renames and removals in the folder durable. */
  readonly syncNames: () => Promise<void>;
  readonly onSyncError: (error: unknown) => void;
}

export class FilePackRewriter implements PackRewriter {
  readonly #parts: PackRewriterParts;

  constructor(parts: PackRewriterParts) {
    this.#parts = parts;
  }

  /** @param change where a copy's low-order bytes are moved: its entry after that */
  async rewrite(
    kept: readonly Located[],
    change: (entry: PackEntry) => PackEntry = (entry) => entry,
  ): Promise<PackIndex> {
    const { newTarget, onSyncError, syncNames } = this.#parts;
    const target = newTarget();
    try {
      for (const located of kept) await this.#copy(located, change(located.entry), target);
      const pack = await target.finish(plainSeal, onSyncError);
      await target.publish(pack);
      await syncNames();
      return pack;
    } catch (error) {
      await target.discard();
      throw error;
    }
  }

  /**
   * Copies one object as it is stored, after verifying it: damage must not be copied while the original is
   * deleted. A copy that a recoding superseded meanwhile is left out: what was read is of another copy.
   */
  async #copy(located: Located, entry: PackEntry, target: PackFileWriter): Promise<void> {
    const { chunks, verifiedStored, verifiedInPack, isRead } = this.#parts;
    // Low-order bytes stay where they are, and are not read.
    if (entry.low !== undefined) await target.push(await verifiedInPack({ ...located, entry }));
    else if (entry.header !== undefined && entry.encodingCode !== rawEncodingCode)
      await target.push(await verifiedStored(entry.id));
    else for await (const piece of chunks(entry.id, entry.kind)) await target.push(piece);
    if (isRead(located)) target.endEntry(entry);
    else await target.dropEntry();
  }

  async remove(packs: readonly PackIndex[]): Promise<void> {
    const { files, packFiles, syncNames } = this.#parts;
    for (const { name } of packs) {
      await packFiles.retire(name);
      await files.remove(packFiles.path(name));
    }
    if (packs.length > 0) await syncNames();
  }
}
