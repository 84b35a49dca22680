/**
 * The file port in memory, with the semantics of a POSIX file system: folders must exist, open files stay
 * readable after they are removed or replaced, links resolve. For tests and pure simulations. crash-states.ts
 * builds such disks to simulate crashes.
 */
import type { Files, OpenFile, OpenMode } from "../../../shared/ports.js";
import { fileError } from "../../../shared/files/file-error.js";
import { systemError } from "./system-error.js";

export interface MemoryFile {
  readonly kind: "file";
  bytes: Uint8Array;
  size: number;
  modifiedMs: number;
}
export interface MemoryFolder {
  readonly kind: "folder";
  readonly entries: Map<string, MemoryNode>;
  modifiedMs: number;
}
export interface MemoryLink {
  readonly kind: "link";
  readonly target: string;
  modifiedMs: number;
}
export type MemoryNode = MemoryFile | MemoryFolder | MemoryLink;

export function memoryFolder(): MemoryFolder {
  return { kind: "folder", entries: new Map(), modifiedMs: 0 };
}
export function memoryFile(): MemoryFile {
  return { kind: "file", bytes: new Uint8Array(0), size: 0, modifiedMs: 0 };
}

/** Writes into a file and grows it as needed; a gap is filled with zeros. */
export function writeMemoryFile(file: MemoryFile, bytes: Uint8Array, position: number): void {
  const end = position + bytes.length;
  if (end > file.bytes.length) {
    const grown = new Uint8Array(Math.max(end, file.bytes.length * 2));
    grown.set(file.bytes.subarray(0, file.size));
    file.bytes = grown;
  }
  file.bytes.set(bytes, position);
  file.size = Math.max(file.size, end);
}

/** Shortens a file, or extends it with zeros. */
export function truncateMemoryFile(file: MemoryFile, size: number): void {
  if (size < file.size) file.bytes.fill(0, size, file.size);
  else writeMemoryFile(file, new Uint8Array(size - file.size), file.size);
  file.size = size;
}

const maxLinks = 16;
const partsOf = (path: string): string[] => path.split("/").filter((part) => part !== "" && part !== ".");

/** Resolves a path; with `followLast` also a link at its end. */
function find(root: MemoryFolder, path: string, followLast: boolean): MemoryNode | undefined {
  let remaining = partsOf(path);
  const trail: MemoryFolder[] = [root];
  for (let links = 0; remaining.length > 0;) {
    const [name, ...rest] = remaining as [string, ...string[]];
    remaining = rest;
    if (name === "..") {
      if (trail.length > 1) trail.pop();
      continue;
    }
    const next = trail[trail.length - 1]?.entries.get(name);
    if (next === undefined) return undefined;
    if (next.kind === "link" && (rest.length > 0 || followLast)) {
      if (++links > maxLinks) throw systemError("ELOOP");
      if (next.target.startsWith("/")) trail.length = 1;
      remaining = [...partsOf(next.target), ...rest];
      continue;
    }
    if (rest.length === 0) return next;
    if (next.kind !== "folder") throw systemError("ENOTDIR");
    trail.push(next);
  }
  return trail[trail.length - 1];
}

/** The folder that holds `path`, and the last part of it. */
export function memoryPlace(root: MemoryFolder, path: string): { folder: MemoryFolder; name: string } {
  const parts = partsOf(path);
  const name = parts.pop();
  if (name === undefined) throw systemError("EPERM", "the root itself");
  const folder = find(root, parts.join("/"), true);
  if (folder === undefined) throw systemError("ENOENT");
  if (folder.kind !== "folder") throw systemError("ENOTDIR");
  return { folder, name };
}

class MemoryOpenFile implements OpenFile {
  readonly #file: MemoryFile;
  readonly #path: string;
  readonly #writable: boolean;
  readonly #now: () => number;
  #open = true;
  constructor(file: MemoryFile, path: string, writable: boolean, now: () => number) {
    this.#file = file;
    this.#path = path;
    this.#writable = writable;
    this.#now = now;
  }
  #check(action: string, writing: boolean): void {
    if (!this.#open || (writing && !this.#writable))
      throw fileError(systemError("EBADF"), action, this.#path);
  }
  async read(target: Uint8Array, position: number): Promise<number> {
    this.#check("read", false);
    const length = Math.max(0, Math.min(target.length, this.#file.size - position));
    target.set(this.#file.bytes.subarray(position, position + length));
    return length;
  }
  async write(bytes: Uint8Array, position: number): Promise<void> {
    this.#check("write to", true);
    writeMemoryFile(this.#file, bytes, position);
    this.#file.modifiedMs = this.#now();
  }
  async size(): Promise<number> {
    this.#check("read the size of", false);
    return this.#file.size;
  }
  async truncate(size: number): Promise<void> {
    this.#check("truncate", true);
    truncateMemoryFile(this.#file, size);
  }
  async sync(): Promise<void> {
    this.#check("fsync", false);
  }
  async close(): Promise<void> {
    this.#check("close", false);
    this.#open = false;
  }
}

export interface MemoryFilesOptions {
  /** The disk; default: an empty one. */
  readonly root?: MemoryFolder;
  /** Modification times; default: always 0. */
  readonly now?: () => number;
  readonly freeBytes?: number;
}

function renameNode(root: MemoryFolder, from: string, to: string): void {
  const source = memoryPlace(root, from);
  const moved = source.folder.entries.get(source.name);
  if (moved === undefined) throw systemError("ENOENT");
  const target = memoryPlace(root, to);
  const replaced = target.folder.entries.get(target.name);
  if (replaced === moved) return;
  if (replaced?.kind === "folder" && (moved.kind !== "folder" || replaced.entries.size > 0))
    throw systemError(moved.kind === "folder" ? "ENOTEMPTY" : "EISDIR");
  if (moved.kind === "folder" && replaced !== undefined && replaced.kind !== "folder")
    throw systemError("ENOTDIR");
  source.folder.entries.delete(source.name);
  target.folder.entries.set(target.name, moved);
}

/** Opens a file; creates it if the mode allows that. */
function openNode(root: MemoryFolder, path: string, mode: OpenMode): MemoryFile {
  const found = find(root, path, true);
  if (found !== undefined) {
    if (mode === "create") throw systemError("EEXIST");
    if (found.kind !== "file") throw systemError("EISDIR");
    return found;
  }
  if (mode === "read" || mode === "update") throw systemError("ENOENT");
  const { folder, name } = memoryPlace(root, path);
  const created = memoryFile();
  folder.entries.set(name, created);
  return created;
}

function makeFolders(root: MemoryFolder, path: string): void {
  let at = "";
  for (const part of partsOf(path)) {
    at += `/${part}`;
    const found = find(root, at, true);
    if (found === undefined) {
      const { folder, name } = memoryPlace(root, at);
      folder.entries.set(name, memoryFolder());
    } else if (found.kind !== "folder") throw systemError("EEXIST");
  }
}

/** The node at the path; undefined if there is none, also below something that is not a folder. */
export function memoryNodeAt(root: MemoryFolder, path: string, follow: boolean): MemoryNode | undefined {
  try {
    return find(root, path, follow);
  } catch {
    return undefined;
  }
}

/** Files in memory. Paths are absolute, as on a disk; the root folder exists, all others must be made. */
export function memoryFiles(options: MemoryFilesOptions = {}): Files & { readonly root: MemoryFolder } {
  const { root = memoryFolder(), now = () => 0, freeBytes = 2 ** 40 } = options;
  const attempt = <T>(action: string, path: string, run: () => T): T => {
    try {
      return run();
    } catch (error) {
      throw fileError(error, action, path);
    }
  };
  return {
    root,
    async open(path, mode) {
      return new MemoryOpenFile(
        attempt("open", path, () => openNode(root, path, mode)),
        path,
        mode !== "read",
        now,
      );
    },
    async read(path) {
      return attempt("read", path, () => {
        const file = openNode(root, path, "read");
        return file.bytes.slice(0, file.size);
      });
    },
    async stat(path) {
      const found = memoryNodeAt(root, path, false);
      return found === undefined
        ? undefined
        : { kind: found.kind, size: found.kind === "file" ? found.size : 0, modifiedMs: found.modifiedMs };
    },
    async list(path) {
      const found = memoryNodeAt(root, path, true);
      if (found === undefined) return [];
      if (found.kind !== "folder") throw fileError(systemError("ENOTDIR"), "list", path);
      return [...found.entries.keys()].sort();
    },
    async makeFolder(path) {
      attempt("make the folder", path, () => makeFolders(root, path));
    },
    async rename(from, to) {
      attempt("rename", `${from} to ${to}`, () => renameNode(root, from, to));
    },
    async remove(path) {
      if (memoryNodeAt(root, path, false) !== undefined)
        attempt("remove", path, () => {
          const { folder, name } = memoryPlace(root, path);
          folder.entries.delete(name);
        });
    },
    async replaceLink(target, path) {
      attempt("replace the link", path, () => {
        const { folder, name } = memoryPlace(root, path);
        folder.entries.set(name, { kind: "link", target, modifiedMs: now() });
      });
    },
    async readLink(path) {
      const found = memoryNodeAt(root, path, false);
      return found?.kind === "link" ? found.target : undefined;
    },
    async syncFolder(path) {
      const found = memoryNodeAt(root, path, true);
      if (found?.kind !== "folder") throw fileError(systemError("ENOENT"), "fsync the folder", path);
    },
    async freeBytes() {
      return freeBytes;
    },
  };
}
