/**
 * Implements the file port in memory, with the semantics of a POSIX file system. Folders must exist, open
 * files stay readable after they are removed or replaced, links resolve. Where the bytes of a file are is the
 * caller's: simulated devices share them (agent/simulation/pooled-content.ts), tests keep them in one array.
 */
// Async without await: what is wrong rejects, as it does on a disk.
/* eslint-disable @typescript-eslint/require-await */
import type { FilesToReadNow, OpenFile, OpenMode } from "../ports.js";
import { fileError } from "./file-error.js";

/** A file; what holds its bytes is added to it. */
export interface FileInMemory {
  readonly kind: "file";
  size: number;
  modifiedMs: number;
}
export interface FolderInMemory<F extends FileInMemory> {
  readonly kind: "folder";
  readonly entries: Map<string, NodeInMemory<F>>;
  modifiedMs: number;
}
export interface LinkInMemory {
  readonly kind: "link";
  readonly target: string;
  modifiedMs: number;
}
export type NodeInMemory<F extends FileInMemory> = F | FolderInMemory<F> | LinkInMemory;

/** The storage for the bytes of files. */
export interface FileContents<F extends FileInMemory> {
  /** An empty file. */
  make(): F;
  /** Copies the bytes from `position` on that fit; returns how many. */
  read(file: F, target: Uint8Array, position: number): number;
  /** Grows the file as needed; a gap is filled with zeros. */
  write(file: F, bytes: Uint8Array, position: number): void;
  /** Shortens the file, or extends it with zeros. */
  truncate(file: F, size: number): void;
}

/** An operating system error for file systems that live in memory or fail on purpose. */
export function systemError(code: string, message: string = code): Error {
  return Object.assign(new Error(message), { code });
}

const maxLinks = 16;
const partsOf = (path: string): string[] => path.split("/").filter((part) => part !== "" && part !== ".");

/** Resolves a path; with `followLast` also a link at its end. */
function find<F extends FileInMemory>(
  root: FolderInMemory<F>,
  path: string,
  followLast: boolean,
): NodeInMemory<F> | undefined {
  let remaining = partsOf(path);
  const trail: FolderInMemory<F>[] = [root];
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
export function placeInMemory<F extends FileInMemory>(
  root: FolderInMemory<F>,
  path: string,
): { folder: FolderInMemory<F>; name: string } {
  const parts = partsOf(path);
  const name = parts.pop();
  if (name === undefined) throw systemError("EPERM", "the root itself");
  const folder = find(root, parts.join("/"), true);
  if (folder === undefined) throw systemError("ENOENT");
  if (folder.kind !== "folder") throw systemError("ENOTDIR");
  return { folder, name };
}

class FileOpenInMemory<F extends FileInMemory> implements OpenFile {
  #open = true;
  constructor(
    private readonly file: F,
    private readonly path: string,
    private readonly contents: FileContents<F>,
    /** The clock for writing; undefined: opened for reading only. */
    private readonly now: (() => number) | undefined,
  ) {}
  #check(action: string, writing: boolean): void {
    if (!this.#open || (writing && this.now === undefined))
      throw fileError(systemError("EBADF"), action, this.path);
  }
  async read(target: Uint8Array, position: number): Promise<number> {
    this.#check("read", false);
    return this.contents.read(this.file, target, position);
  }
  async write(bytes: Uint8Array, position: number): Promise<void> {
    this.#check("write to", true);
    this.contents.write(this.file, bytes, position);
    this.file.modifiedMs = this.now?.() ?? 0;
  }
  async size(): Promise<number> {
    this.#check("read the size of", false);
    return this.file.size;
  }
  async truncate(size: number): Promise<void> {
    this.#check("truncate", true);
    this.contents.truncate(this.file, size);
  }
  async sync(): Promise<void> {
    this.#check("fsync", false);
  }
  async close(): Promise<void> {
    this.#check("close", false);
    this.#open = false;
  }
}

export interface FilesInMemoryOptions<F extends FileInMemory> {
  /** The disk; default: an empty one. */
  readonly root?: FolderInMemory<F>;
  /** Modification times; default: always 0. */
  readonly now?: () => number;
  readonly freeBytes?: number;
}

export function folderInMemory<F extends FileInMemory>(): FolderInMemory<F> {
  return { kind: "folder", entries: new Map(), modifiedMs: 0 };
}

function renameNode<F extends FileInMemory>(root: FolderInMemory<F>, from: string, to: string): void {
  const source = placeInMemory(root, from);
  const moved = source.folder.entries.get(source.name);
  if (moved === undefined) throw systemError("ENOENT");
  const target = placeInMemory(root, to);
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
function openNode<F extends FileInMemory>(
  root: FolderInMemory<F>,
  contents: FileContents<F>,
  path: string,
  mode: OpenMode,
): F {
  const found = find(root, path, true);
  if (found !== undefined) {
    if (mode === "create") throw systemError("EEXIST");
    if (found.kind !== "file") throw systemError("EISDIR");
    return found;
  }
  if (mode === "read" || mode === "update") throw systemError("ENOENT");
  const { folder, name } = placeInMemory(root, path);
  const created = contents.make();
  folder.entries.set(name, created);
  return created;
}

function makeFolders<F extends FileInMemory>(root: FolderInMemory<F>, path: string): void {
  let at = "";
  for (const part of partsOf(path)) {
    at += `/${part}`;
    const found = find(root, at, true);
    if (found === undefined) {
      const { folder, name } = placeInMemory(root, at);
      folder.entries.set(name, folderInMemory());
    } else if (found.kind !== "folder") throw systemError("EEXIST");
  }
}

/** The node at the path; undefined if there is none, also below something that is not a folder. */
export function nodeInMemory<F extends FileInMemory>(
  root: FolderInMemory<F>,
  path: string,
  follow: boolean,
): NodeInMemory<F> | undefined {
  try {
    return find(root, path, follow);
  } catch {
    return undefined;
  }
}

/** Files in memory. Paths are absolute, as on a disk; the root folder exists, all others must be made. */
// eslint-disable-next-line max-lines-per-function -- a table of the methods of `Files`
export function filesInMemory<F extends FileInMemory>(
  contents: FileContents<F>,
  options: FilesInMemoryOptions<F> = {},
): FilesToReadNow & { readonly root: FolderInMemory<F> } {
  const { root = folderInMemory<F>(), now = () => 0, freeBytes = 2 ** 40 } = options;
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
      return new FileOpenInMemory(
        attempt("open", path, () => openNode(root, contents, path, mode)),
        path,
        contents,
        mode === "read" ? undefined : now,
      );
    },
    openNow: (path) =>
      attempt("open", path, () => {
        const file = openNode(root, contents, path, "read");
        return {
          size: () => file.size,
          read: (target, position) => contents.read(file, target, position),
          close: () => undefined,
        };
      }),
    async read(path) {
      return attempt("read", path, () => {
        const file = openNode(root, contents, path, "read");
        const bytes = new Uint8Array(file.size);
        contents.read(file, bytes, 0);
        return bytes;
      });
    },
    async stat(path) {
      const found = nodeInMemory(root, path, false);
      return found === undefined
        ? undefined
        : { kind: found.kind, size: found.kind === "file" ? found.size : 0, modifiedMs: found.modifiedMs };
    },
    async list(path) {
      const found = nodeInMemory(root, path, true);
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
      if (nodeInMemory(root, path, false) !== undefined)
        attempt("remove", path, () => {
          const { folder, name } = placeInMemory(root, path);
          folder.entries.delete(name);
        });
    },
    async replaceLink(target, path) {
      attempt("replace the link", path, () => {
        const { folder, name } = placeInMemory(root, path);
        folder.entries.set(name, { kind: "link", target, modifiedMs: now() });
      });
    },
    async readLink(path) {
      const found = nodeInMemory(root, path, false);
      return found?.kind === "link" ? found.target : undefined;
    },
    async syncFolder(path) {
      const found = nodeInMemory(root, path, true);
      if (found?.kind !== "folder") throw fileError(systemError("ENOENT"), "fsync the folder", path);
    },
    async freeBytes() {
      return freeBytes;
    },
  };
}
