/** Keeps a tier's files in a folder, each with the suffix `.low`. */
import { join } from "node:path";
import { isStemmaError, StemmaError } from "../../errors.js";
import { temporarySuffix, writeDurably } from "../../files/durable-write.js";
import { makeFolderDurably } from "../../files/make-folder.js";
import type { Files } from "../../ports.js";
import { uninitializedBytes } from "../../tensor/uninitialized-bytes.js";
import { isLowFileName, type TierFile, type TierFiles } from "./tier-files.js";

export const lowFileSuffix = ".low";

/**
 * @param folder created by the first write
 * @returns methods that throw FILE_FAILED where the folder cannot be read: whether that means that a tier is
 * unreachable is for the caller to decide
 */
export function folderTierFiles(files: Files, folder: string): TierFiles {
  const pathOf = (name: string): string => join(folder, `${name}${lowFileSuffix}`);
  return {
    async list() {
      const found: TierFile[] = [];
      for (const file of await files.list(folder)) {
        const name = file.slice(0, -lowFileSuffix.length);
        if (!file.endsWith(lowFileSuffix) || !isLowFileName(name)) continue;
        const stat = await files.stat(join(folder, file));
        if (stat?.kind === "file") found.push({ name, bytes: stat.size });
      }
      return found;
    },
    async sizeOf(name) {
      const stat = await files.stat(pathOf(name));
      return stat?.kind === "file" ? stat.size : undefined;
    },
    async read(name, at, length) {
      const file = await files.open(pathOf(name), "read");
      try {
        const bytes = uninitializedBytes(length);
        const got = await file.read(bytes, at);
        if (got !== length)
          throw new StemmaError(
            "PACK_CORRUPT",
            `The low file ${pathOf(name)} ends at byte ${at + got}, before the end of what a pack has in it. Put it back from a backup.`,
            { file: name, at, length },
          );
        return bytes;
      } finally {
        await file.close();
      }
    },
    async write(name, bytes) {
      await makeFolderDurably(files, folder);
      try {
        await writeDurably(files, pathOf(name), bytes);
      } catch (error) {
        await files.remove(pathOf(name)).catch(() => undefined);
        throw error;
      }
    },
    async remove(name) {
      await files.remove(pathOf(name));
    },
    async removeHalfFiles() {
      for (const name of await files.list(folder))
        if (name.endsWith(`${lowFileSuffix}${temporarySuffix}`)) await files.remove(join(folder, name));
    },
    async freeBytes() {
      try {
        return await files.freeBytes(folder);
      } catch (error) {
        if (isStemmaError(error, "FILE_MISSING")) return undefined;
        throw error;
      }
    },
  };
}
