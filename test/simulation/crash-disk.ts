/**
 * A disk in memory that can lose what was not fsynced, be full, and fail its fsyncs. Names and contents are durable
 * apart from each other, as POSIX promises no order between them: a name once its folder was fsynced, bytes once
 * their file was (test/helpers/files/crash-states.ts builds the same states from a recording; a simulation of weeks
 * cannot keep one).
 */
import type { Files, OpenFile } from "../../shared/ports.js";
import {
  filesInMemory,
  folderInMemory,
  nodeInMemory,
  placeInMemory,
  type FileContents,
  type FolderInMemory,
  type NodeInMemory,
} from "../../shared/files/memory-files.js";
import {
  memoryFile,
  truncateMemoryFile,
  writeMemoryFile,
  type MemoryFile,
} from "../helpers/files/memory-files.js";
import { faultyFiles, type Fault, type FileOperation } from "../helpers/files/faulty-files.js";
import type { Choice } from "./choice.js";

type Change =
  | { readonly kind: "write"; readonly position: number; readonly bytes: Uint8Array }
  | { readonly kind: "truncate"; readonly size: number };

interface DiskFile extends MemoryFile {
  /** What a crash keeps for sure. */
  readonly durable: MemoryFile;
  /** Since the last fsync. */
  changes: Change[];
}
type Folder = FolderInMemory<DiskFile>;
type Node = NodeInMemory<DiskFile>;

/** A name that was given or taken since its folder was fsynced. */
interface NameChange {
  readonly folder: Folder;
  readonly name: string;
  readonly node: Node;
  readonly isRemoval: boolean;
  /** The path of a renamed node before. */
  readonly from?: { readonly folder: Folder; readonly name: string };
}

const contents: FileContents<DiskFile> = {
  make: () => ({ ...memoryFile(), durable: memoryFile(), changes: [] }),
  read: ({ bytes, size }, target, position) => {
    const length = Math.max(0, Math.min(target.length, size - position));
    target.set(bytes.subarray(position, position + length));
    return length;
  },
  write: (file, bytes, position) => {
    writeMemoryFile(file, bytes, position);
    file.changes.push({ kind: "write", position, bytes: bytes.slice() });
  },
  truncate: (file, size) => {
    truncateMemoryFile(file, size);
    file.changes.push({ kind: "truncate", size });
  },
};

function apply(file: MemoryFile, change: Change): void {
  if (change.kind === "write") writeMemoryFile(file, change.bytes, change.position);
  else truncateMemoryFile(file, change.size);
}

export class CrashDisk {
  isFull = false;
  /** How many of the next fsyncs fail. */
  syncsToFail = 0;
  /** Counts the faults that operations met. */
  faults = 0;
  /** Counts the changes of names, and crashes. */
  nameChanges = 0;
  readonly files: Files;
  readonly #root: Folder = folderInMemory<DiskFile>();
  readonly #durable = new Map<Folder, Map<string, Node>>([[this.#root, new Map()]]);
  #names: NameChange[] = [];

  constructor(
    now: () => number,
    private readonly choice: Choice,
  ) {
    const inner = filesInMemory(contents, { root: this.#root, now, freeBytes: 2 ** 40 });
    this.files = faultyFiles(this.#noting(inner), (operation) => this.#faultOf(operation));
  }

  /** The bytes of a file as programs see them now; undefined: there is none. */
  bytesOf(path: string): Uint8Array | undefined {
    const node = nodeInMemory(this.#root, path, true);
    return node?.kind === "file" ? node.bytes.subarray(0, node.size) : undefined;
  }
  linkTarget(path: string): string | undefined {
    const node = nodeInMemory(this.#root, path, false);
    return node?.kind === "link" ? node.target : undefined;
  }

  /** The power fails: of what was not fsynced, some is kept, some lost, some torn. Nobody has files open after it. */
  crash(): void {
    const { choice } = this;
    this.nameChanges++;
    const keptNames = choice.of([0, 0.5, 1]) as number;
    const keptBytes = choice.of([0, 0.5, 1]) as number;
    for (const change of this.#names) if (choice.chance(keptNames)) this.#settle(change);
    this.#names = [];
    this.#restore(this.#root, keptBytes);
    const reached = new Set<Node>();
    this.#reach(this.#root, reached);
    for (const folder of this.#durable.keys()) if (!reached.has(folder)) this.#durable.delete(folder);
  }

  #reach(folder: Folder, reached: Set<Node>): void {
    reached.add(folder);
    for (const node of folder.entries.values()) if (node.kind === "folder") this.#reach(node, reached);
  }

  #restore(folder: Folder, keptBytes: number): void {
    folder.entries.clear();
    for (const [name, node] of this.#durable.get(folder) ?? []) {
      folder.entries.set(name, node);
      if (node.kind === "folder") this.#restore(node, keptBytes);
      if (node.kind === "file") this.#loseChanges(node, keptBytes);
    }
  }

  #loseChanges(file: DiskFile, keptBytes: number): void {
    for (const change of file.changes) {
      if (!this.choice.chance(keptBytes)) continue;
      apply(file.durable, change.kind === "write" ? this.#torn(change) : change);
    }
    file.changes = [];
    file.bytes = file.durable.bytes.slice();
    file.size = file.durable.size;
  }

  #torn(write: Extract<Change, { readonly kind: "write" }>): Change {
    if (!this.choice.chance(0.2)) return write;
    return { ...write, bytes: write.bytes.subarray(0, this.choice.below(write.bytes.length + 1)) };
  }

  #faultOf({ kind }: FileOperation): Fault | undefined {
    if (this.isFull && kind === "write")
      return this.#met({ code: "ENOSPC", writtenShare: this.choice.number() });
    if (this.syncsToFail === 0 || (kind !== "sync" && kind !== "syncFolder")) return undefined;
    this.syncsToFail--;
    return this.#met({ code: "EIO" });
  }
  #met(fault: Fault): Fault {
    this.faults++;
    return fault;
  }

  #settle({ folder, name, node, isRemoval, from }: NameChange): void {
    const entries = this.#durableOf(folder);
    if (isRemoval) {
      if (entries.get(name) === node) entries.delete(name);
      return;
    }
    const before = from && this.#durableOf(from.folder);
    if (from !== undefined && before?.get(from.name) === node) before.delete(from.name);
    entries.set(name, node);
  }
  #durableOf(folder: Folder): Map<string, Node> {
    let entries = this.#durable.get(folder);
    if (entries === undefined) this.#durable.set(folder, (entries = new Map<string, Node>()));
    return entries;
  }

  #syncNames(folder: Node | undefined): void {
    if (this.#names.length === 0) return;
    const rest: NameChange[] = [];
    for (const change of this.#names)
      if (change.folder === folder) this.#settle(change);
      else rest.push(change);
    this.#names = rest;
  }

  #note(path: string, from?: { readonly folder: Folder; readonly name: string }): void {
    const { folder, name } = placeInMemory(this.#root, path);
    const node = folder.entries.get(name);
    this.nameChanges++;
    if (node === undefined) return;
    this.#names.push({ folder, name, node, isRemoval: false, ...(from === undefined ? {} : { from }) });
  }

  #noteRemoval(path: string): void {
    const node = nodeInMemory(this.#root, path, false);
    if (node === undefined) return;
    if (node.kind === "folder")
      for (const name of [...node.entries.keys()]) this.#noteRemoval(`${path}/${name}`);
    const { folder, name } = placeInMemory(this.#root, path);
    this.nameChanges++;
    this.#names.push({ folder, name, node, isRemoval: true });
  }

  /** Notes every change of names and every fsync of `inner`. */
  #noting(inner: Files): Files {
    return {
      ...inner,
      freeBytes: async (path) => (this.isFull ? 0 : inner.freeBytes(path)),
      open: async (path, mode) => {
        const isNew = nodeInMemory(this.#root, path, true) === undefined;
        const file = await inner.open(path, mode);
        if (isNew) this.#note(path);
        return this.#notingFile(file, nodeInMemory(this.#root, path, true) as DiskFile);
      },
      makeFolder: async (path) => {
        const parts = path.split("/").filter((part) => part !== "");
        const paths = parts.map((_, at) => `/${parts.slice(0, at + 1).join("/")}`);
        const missing = paths.filter((each) => nodeInMemory(this.#root, each, true) === undefined);
        await inner.makeFolder(path);
        for (const each of missing) this.#note(each);
      },
      rename: async (from, to) => {
        const source = placeInMemory(this.#root, from);
        await inner.rename(from, to);
        this.#note(to, source);
      },
      remove: async (path) => {
        this.#noteRemoval(path);
        await inner.remove(path);
      },
      replaceLink: async (target, path) => {
        await inner.replaceLink(target, path);
        this.#note(path);
      },
      syncFolder: async (path) => {
        await inner.syncFolder(path);
        this.#syncNames(nodeInMemory(this.#root, path, true));
      },
    };
  }

  #notingFile(file: OpenFile, node: DiskFile): OpenFile {
    return {
      read: (target, position) => file.read(target, position),
      write: (bytes, position) => file.write(bytes, position),
      size: () => file.size(),
      truncate: (size) => file.truncate(size),
      close: () => file.close(),
      sync: async () => {
        await file.sync();
        for (const change of node.changes) apply(node.durable, change);
        node.changes = [];
      },
    };
  }
}
