/** A file port that injects faults: a plan sees every operation and decides which fail, and how. */
import type { Files, OpenFile } from "../../../shared/ports.js";
import { fileError } from "../../../shared/files/file-error.js";
import { systemError } from "../../../shared/files/memory-files.js";

export type FileOperationKind =
  | "open"
  | "read"
  | "write"
  | "size"
  | "truncate"
  | "sync"
  | "close"
  | "stat"
  | "list"
  | "makeFolder"
  | "rename"
  | "remove"
  | "replaceLink"
  | "readLink"
  | "syncFolder"
  | "freeBytes";
/** Operations that change the disk or make it durable. */
export const changingKinds: readonly FileOperationKind[] = [
  "open",
  "write",
  "truncate",
  "sync",
  "makeFolder",
  "rename",
  "remove",
  "replaceLink",
  "syncFolder",
];

export interface FileOperation {
  /** Counted from 0. */
  readonly number: number;
  readonly kind: FileOperationKind;
  readonly path: string;
  /** Length of a write, else 0. */
  readonly bytes: number;
}
export interface Fault {
  readonly code: "EIO" | "ENOSPC" | "EACCES" | "EMFILE";
  /** The share of the bytes of a failing write that reach the file before it fails; default 0. */
  readonly writtenShare?: number;
}
export type FaultPlan = (operation: FileOperation) => Fault | undefined;

/** Fails operation number `n` among those of `kinds`, and all after it when `isPermanent`. */
export function failNth(
  n: number,
  fault: Fault,
  {
    kinds = changingKinds,
    isPermanent = false,
  }: { readonly kinds?: readonly FileOperationKind[]; readonly isPermanent?: boolean } = {},
): FaultPlan {
  let seen = 0;
  return ({ kind }) => {
    if (!kinds.includes(kind)) return undefined;
    const number = seen++;
    return number === n || (isPermanent && number > n) ? fault : undefined;
  };
}

/** A disk that is full after `bytes` written bytes, until `free` is called. Overwriting counts as writing. */
export function fullAfter(bytes: number): {
  readonly plan: FaultPlan;
  readonly free: (more: number) => void;
} {
  let left = bytes;
  return {
    plan({ kind, bytes: wanted }) {
      if (kind !== "write") return undefined;
      if (wanted <= left) {
        left -= wanted;
        return undefined;
      }
      const writtenShare = left / wanted;
      left = 0;
      return { code: "ENOSPC", writtenShare };
    },
    free(more) {
      left += more;
    },
  };
}

class FaultyFile implements OpenFile {
  readonly #inner: OpenFile;
  readonly #path: string;
  readonly #check: (kind: FileOperationKind, path: string, bytes?: number) => Fault | undefined;
  constructor(
    inner: OpenFile,
    path: string,
    check: (kind: FileOperationKind, path: string, bytes?: number) => Fault | undefined,
  ) {
    this.#inner = inner;
    this.#path = path;
    this.#check = check;
  }
  #pass(kind: FileOperationKind): void {
    const fault = this.#check(kind, this.#path);
    if (fault !== undefined) throw fileError(systemError(fault.code), kind, this.#path);
  }
  async read(target: Uint8Array, position: number): Promise<number> {
    this.#pass("read");
    return this.#inner.read(target, position);
  }
  async write(bytes: Uint8Array, position: number): Promise<void> {
    const fault = this.#check("write", this.#path, bytes.length);
    if (fault === undefined) return this.#inner.write(bytes, position);
    await this.#inner.write(
      bytes.subarray(0, Math.floor(bytes.length * (fault.writtenShare ?? 0))),
      position,
    );
    throw fileError(systemError(fault.code), "write to", this.#path);
  }
  async size(): Promise<number> {
    this.#pass("size");
    return this.#inner.size();
  }
  async truncate(size: number): Promise<void> {
    this.#pass("truncate");
    return this.#inner.truncate(size);
  }
  async sync(): Promise<void> {
    this.#pass("sync");
    return this.#inner.sync();
  }
  async close(): Promise<void> {
    const fault = this.#check("close", this.#path);
    await this.#inner.close();
    if (fault !== undefined) throw fileError(systemError(fault.code), "close", this.#path);
  }
}

/** Forwards every operation to `inner` that the plan does not fail. */
export function faultyFiles(inner: Files, plan: FaultPlan): Files {
  let number = 0;
  const check = (kind: FileOperationKind, path: string, bytes = 0): Fault | undefined =>
    plan({ number: number++, kind, path, bytes });
  const pass = async <T>(kind: FileOperationKind, path: string, run: () => Promise<T>): Promise<T> => {
    const fault = check(kind, path);
    if (fault !== undefined) throw fileError(systemError(fault.code), kind, path);
    return run();
  };
  return {
    open: (path, mode) =>
      pass("open", path, async () => new FaultyFile(await inner.open(path, mode), path, check)),
    read: (path) => pass("read", path, () => inner.read(path)),
    ...(inner.openNow && { openNow: inner.openNow }),
    stat: (path) => pass("stat", path, () => inner.stat(path)),
    list: (path) => pass("list", path, () => inner.list(path)),
    makeFolder: (path) => pass("makeFolder", path, () => inner.makeFolder(path)),
    rename: (from, to) => pass("rename", to, () => inner.rename(from, to)),
    remove: (path) => pass("remove", path, () => inner.remove(path)),
    replaceLink: (target, path) => pass("replaceLink", path, () => inner.replaceLink(target, path)),
    readLink: (path) => pass("readLink", path, () => inner.readLink(path)),
    syncFolder: (path) => pass("syncFolder", path, () => inner.syncFolder(path)),
    freeBytes: (path) => pass("freeBytes", path, () => inner.freeBytes(path)),
  };
}
