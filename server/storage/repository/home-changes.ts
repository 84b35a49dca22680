/**
 * Notices that another process has changed a fleet's files since they were read, for those that read a home without its
 * lock: what they miss then may have been merged, collected or written meanwhile.
 */
import { join } from "node:path";
import { isStemmaError } from "../../../shared/errors.js";
import { headName } from "../../../shared/journal/open-journal.js";
import { sha256 } from "../../../shared/tensor/hash.js";
import type { Files } from "../../../shared/ports.js";
import { journalFolderOf } from "./lost-journal.js";

export class HomeChanges {
  /** Folder of a fleet → its files as they were before they were read. */
  readonly #before = new Map<string, string>();

  constructor(private readonly files: Files) {}

  /** A fleet is about to be read. */
  async begin(fleetFolder: string): Promise<void> {
    this.#before.set(fleetFolder, await this.#stateOf(fleetFolder));
  }

  /** True if any fleet that was read has changed since. */
  async areThere(): Promise<boolean> {
    for (const [folder, before] of this.#before) if ((await this.#stateOf(folder)) !== before) return true;
    return false;
  }

  /** Names of packs and journal segments, and the signed head, which every fact changes. */
  async #stateOf(fleetFolder: string): Promise<string> {
    const journal = journalFolderOf(fleetFolder);
    const [packs, segments, head] = await Promise.all([
      this.files.list(join(fleetFolder, "packs")),
      this.files.list(journal),
      this.files.read(join(journal, headName)).catch((error: unknown) => {
        if (isStemmaError(error, "FILE_MISSING")) return new Uint8Array();
        throw error;
      }),
    ]);
    return sha256(JSON.stringify([packs, segments, Buffer.from(head).toString("base64")]));
  }
}
