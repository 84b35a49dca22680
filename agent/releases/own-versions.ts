/**
 * Remembers the versions that this device made and has deleted since. A file that only grows has 32 bytes of
 * each (280 KB for a year of hourly versions). Offered again, they need no release.
 */
import { join } from "node:path";
import { makeFolderDurably } from "../../shared/files/make-folder.js";
import type { Files } from "../../shared/ports.js";
import { hashBytes, hexOf } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";

const hashLength = 32;

export class OwnVersions {
  private constructor(
    private readonly files: Files,
    private readonly folder: string,
    private readonly known: Set<Hash>,
  ) {}

  static async open(files: Files, folder: string): Promise<OwnVersions> {
    const path = join(folder, "own-versions");
    const known = new Set<Hash>();
    if ((await files.stat(path)) !== undefined) {
      const bytes = await files.read(path);
      // A last entry that a crash cut short is written again: its version was not deleted before.
      for (let at = 0; at + hashLength <= bytes.length; at += hashLength)
        known.add(hexOf(bytes.subarray(at, at + hashLength)));
    }
    return new OwnVersions(files, folder, known);
  }

  has(versionId: Hash): boolean {
    return this.known.has(versionId);
  }

  /** Resolves when they are durable. */
  async add(versionIds: readonly Hash[]): Promise<void> {
    const added = versionIds.filter((id) => !this.known.has(id));
    if (added.length === 0) return;
    await makeFolderDurably(this.files, this.folder);
    const file = await this.files.open(join(this.folder, "own-versions"), "append");
    try {
      await file.write(Buffer.concat(added.map(hashBytes)), this.known.size * hashLength);
      await file.sync();
    } finally {
      await file.close();
    }
    await this.files.syncFolder(this.folder);
    for (const id of added) this.known.add(id);
  }
}
