/**
 * The file port on a real disk: node:fs with write loops, fsync and typed errors. Only this file,
 * regular-file.ts, the home lock and its disk reserve use node:fs.
 */
import { constants } from "node:fs";
import {
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  statfs,
  symlink,
  type FileHandle,
} from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Files, FileStat, OpenFile, OpenMode } from "../ports.js";
import { fileError, systemCode } from "./file-error.js";

/** One read or write call of the operating system stays below this (Node refuses 2 GiB). */
const maxCallBytes = 64 * 1024 * 1024;

const flags: Readonly<Record<OpenMode, number>> = {
  read: constants.O_RDONLY,
  update: constants.O_RDWR,
  create: constants.O_RDWR | constants.O_CREAT | constants.O_EXCL,
  // The flags of an appender leave out O_APPEND: Linux ignores positions on files opened with it.
  append: constants.O_RDWR | constants.O_CREAT,
};

/** An open file of this machine. The handle is closed with it. */
export class NodeOpenFile implements OpenFile {
  readonly #handle: FileHandle;
  readonly #path: string;

  constructor(handle: FileHandle, path: string) {
    this.#handle = handle;
    this.#path = path;
  }

  async read(target: Uint8Array, position: number): Promise<number> {
    let done = 0;
    try {
      while (done < target.length) {
        const { bytesRead } = await this.#handle.read(
          target,
          done,
          Math.min(target.length - done, maxCallBytes),
          position + done,
        );
        if (bytesRead === 0) break;
        done += bytesRead;
      }
    } catch (error) {
      throw fileError(error, "read", this.#path);
    }
    return done;
  }

  async write(bytes: Uint8Array, position: number): Promise<void> {
    let done = 0;
    try {
      while (done < bytes.length) {
        const { bytesWritten } = await this.#handle.write(
          bytes,
          done,
          Math.min(bytes.length - done, maxCallBytes),
          position + done,
        );
        done += bytesWritten;
      }
    } catch (error) {
      throw fileError(error, "write to", this.#path);
    }
  }

  async size(): Promise<number> {
    try {
      return (await this.#handle.stat()).size;
    } catch (error) {
      throw fileError(error, "get the size of", this.#path);
    }
  }
  async truncate(size: number): Promise<void> {
    try {
      await this.#handle.truncate(size);
    } catch (error) {
      throw fileError(error, "truncate", this.#path);
    }
  }
  async sync(): Promise<void> {
    try {
      await this.#handle.sync();
    } catch (error) {
      throw fileError(error, "fsync", this.#path);
    }
  }
  async close(): Promise<void> {
    try {
      await this.#handle.close();
    } catch (error) {
      throw fileError(error, "close", this.#path);
    }
  }
}

async function openNodeFile(path: string, mode: OpenMode, permissions: number): Promise<OpenFile> {
  try {
    return new NodeOpenFile(await open(path, flags[mode], permissions), path);
  } catch (error) {
    throw fileError(error, "open", path);
  }
}

async function statNode(path: string): Promise<FileStat | undefined> {
  try {
    const found = await lstat(path);
    return {
      kind: found.isSymbolicLink() ? "link" : found.isDirectory() ? "folder" : "file",
      size: found.size,
      modifiedMs: found.mtimeMs,
    };
  } catch (error) {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return undefined;
    throw fileError(error, "get the status of", path);
  }
}

async function listNode(path: string): Promise<string[]> {
  try {
    return (await readdir(path)).sort();
  } catch (error) {
    if (systemCode(error) === "ENOENT") return [];
    throw fileError(error, "list", path);
  }
}

async function replaceNodeLink(target: string, path: string): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.tmp`);
  try {
    await rm(temporary, { force: true });
    await symlink(target, temporary);
    await rename(temporary, path);
  } catch (error) {
    throw fileError(error, "replace the link", path);
  }
}

async function syncNodeFolder(path: string): Promise<void> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, constants.O_RDONLY);
    await handle.sync();
  } catch (error) {
    throw fileError(error, "fsync the folder", path);
  } finally {
    await handle?.close();
  }
}

async function makeNodeFolder(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode });
  } catch (error) {
    throw fileError(error, "make the folder", path);
  }
}

async function renameNode(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    throw fileError(error, "rename", `${from} to ${to}`);
  }
}

async function readNodeLink(path: string): Promise<string | undefined> {
  try {
    return await readlink(path);
  } catch (error) {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "EINVAL") return undefined;
    throw fileError(error, "read the link", path);
  }
}

export interface NodeFilesOptions {
  /**
   * Permissions of new files and folders, before the umask. Default 0o600 and 0o700: homes hold keys and
   * models.
   */
  readonly fileMode?: number | undefined;
  readonly folderMode?: number | undefined;
}

/**
 * Files on this machine's disk. New files are private to the user unless `options` sets other permissions.
 */
export function nodeFiles(options: NodeFilesOptions = {}): Files {
  const { fileMode = 0o600, folderMode = 0o700 } = options;
  return {
    open: (path, mode) => openNodeFile(path, mode, fileMode),
    async read(path) {
      try {
        const bytes = await readFile(path);
        // A Uint8Array, as the in-memory files return, because slice() of a Buffer would not copy.
        return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
      } catch (error) {
        throw fileError(error, "read", path);
      }
    },
    stat: statNode,
    list: listNode,
    makeFolder: (path) => makeNodeFolder(path, folderMode),
    rename: renameNode,
    async remove(path) {
      try {
        await rm(path, { recursive: true, force: true });
      } catch (error) {
        throw fileError(error, "remove", path);
      }
    },
    replaceLink: replaceNodeLink,
    readLink: readNodeLink,
    syncFolder: syncNodeFolder,
    async freeBytes(path) {
      try {
        const found = await statfs(path);
        return found.bavail * found.bsize;
      } catch (error) {
        throw fileError(error, "get the free space of", path);
      }
    },
  };
}
