/**
 * Opens a file that another program names or writes. A pipe would block the reader for ever, a device may do
 * anything when it is opened, and a link in another program's folder may point at any file: all are refused
 * before a byte is read.
 */
import { constants } from "node:fs";
import { lstat, open, stat, type FileHandle } from "node:fs/promises";
import { StemmaError } from "../errors.js";
import type { OpenFile } from "../ports.js";
import { fileError, systemCode } from "./file-error.js";
import { NodeOpenFile } from "./node-files.js";
import { notRegular, requireRegular } from "./not-regular.js";

export interface RegularFileOptions {
  /** True if a symbolic link stands for the file that it points at; else it is refused. */
  readonly followLinks: boolean;
}

export interface RegularFile {
  readonly file: OpenFile;
  readonly size: number;
  /** @throws FILE_CHANGED where the file was written to since it was opened */
  readonly requireUnchanged: () => Promise<void>;
}

/** O_NONBLOCK: a pipe that took the file's place after the first look must not block. */
const readFlags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;

/**
 * Opens a regular file for reading, in place.
 * @throws FILE_MISSING, FILE_NOT_REGULAR, FILE_FAILED
 */
export async function openRegularFile(
  path: string,
  { followLinks }: RegularFileOptions,
): Promise<RegularFile> {
  const flags = followLinks ? readFlags : readFlags | constants.O_NOFOLLOW;
  let handle: FileHandle | undefined;
  try {
    requireRegular(await (followLinks ? stat : lstat)(path, { bigint: true }), path);
    handle = await open(path, flags);
    const opened = await handle.stat({ bigint: true });
    requireRegular(opened, path);
    const openHandle = handle;
    return {
      file: new NodeOpenFile(openHandle, path),
      size: Number(opened.size),
      requireUnchanged: async () => {
        const now = await openHandle.stat({ bigint: true }).catch((error: unknown) => {
          throw fileError(error, "get the status of", path);
        });
        if (now.size !== opened.size || now.mtimeNs !== opened.mtimeNs)
          throw new StemmaError(
            "FILE_CHANGED",
            `${path} changed while it was read, so nothing was saved. Save it again when it is ` +
              "complete; a program that writes it under a temporary name and renames it avoids this.",
            { path },
          );
      },
    };
  } catch (error) {
    await handle?.close();
    // O_NOFOLLOW on a link that took the file's place.
    throw systemCode(error) === "ELOOP"
      ? notRegular(path, "a symbolic link")
      : fileError(error, "open", path);
  }
}
