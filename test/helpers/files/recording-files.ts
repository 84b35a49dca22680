/**
 * A file port that records every change of the disk, so that crash-states.ts can build every disk that a crash
 * could have left. The begin and the end of each operation are separate events: an operation that has not ended
 * may have happened or not; an fsync covers what had ended before it began.
 */
import { dirname } from "node:path";
import type { Files, OpenFile, OpenMode } from "../../../shared/ports.js";
import {
  memoryFile,
  memoryFolder,
  memoryNodeAt,
  memoryPlace,
  type MemoryFile,
  type MemoryFolder,
  type MemoryNode,
} from "./memory-files.js";

/**
 * What happened to the disk. Nodes are identities (inodes); their contents are those of the start of the
 * recording.
 */
export type DiskOperation =
  | {
      readonly kind: "write";
      readonly node: MemoryFile;
      readonly position: number;
      readonly bytes: Uint8Array;
    }
  | { readonly kind: "truncate"; readonly node: MemoryFile; readonly size: number }
  | { readonly kind: "sync"; readonly node: MemoryNode }
  | { readonly kind: "link"; readonly folder: MemoryFolder; readonly name: string; readonly node: MemoryNode }
  | {
      readonly kind: "unlink";
      readonly folder: MemoryFolder;
      readonly name: string;
      readonly node: MemoryNode;
    }
  | {
      readonly kind: "move";
      readonly from: MemoryFolder;
      readonly fromName: string;
      readonly folder: MemoryFolder;
      readonly name: string;
      readonly node: MemoryNode;
    };

/** One operation with the positions of its two events; `end` is infinite when it failed or never ended. */
export interface RecordedOperation {
  readonly operation: DiskOperation;
  readonly path: string;
  readonly begin: number;
  end: number;
}
export interface Mark {
  readonly at: number;
  readonly value: unknown;
}

export interface Recording {
  readonly operations: readonly RecordedOperation[];
  readonly marks: readonly Mark[];
  /** Number of events so far; a crash may come before each and after the last. */
  readonly events: number;
  /** The content of the folders when the recording began. */
  readonly baseline: ReadonlyMap<MemoryFolder, ReadonlyMap<string, MemoryNode>>;
  readonly root: MemoryFolder;
}

class Recorder implements Recording {
  readonly operations: RecordedOperation[] = [];
  readonly marks: Mark[] = [];
  readonly baseline = new Map<MemoryFolder, ReadonlyMap<string, MemoryNode>>();
  /** The current names; the contents of files are those of the start. */
  readonly root: MemoryFolder;
  events = 0;

  constructor(initial: MemoryFolder) {
    this.root = this.#copy(initial) as MemoryFolder;
  }

  #copy(node: MemoryNode): MemoryNode {
    if (node.kind === "link") return node;
    if (node.kind === "file") return { ...node, bytes: node.bytes.slice(0, node.size) };
    const folder: MemoryFolder = {
      ...memoryFolder(),
      entries: new Map([...node.entries].map(([name, child]) => [name, this.#copy(child)])),
    };
    this.baseline.set(folder, new Map(folder.entries));
    return folder;
  }

  begin(operation: DiskOperation, path: string): RecordedOperation {
    const recorded = { operation, path, begin: this.events++, end: Number.POSITIVE_INFINITY };
    this.operations.push(recorded);
    return recorded;
  }
  end(recorded: RecordedOperation): void {
    recorded.end = this.events++;
  }
  mark(value: unknown): void {
    this.marks.push({ at: this.events++, value });
  }

  /** Runs an operation between its two events. */
  async around<T>(operation: DiskOperation, path: string, run: () => Promise<T>): Promise<T> {
    const recorded = this.begin(operation, path);
    const result = await run();
    this.end(recorded);
    return result;
  }

  /** Records a change of names that has just been made. */
  changed(operation: DiskOperation, path: string): void {
    this.end(this.begin(operation, path));
  }

  node(path: string, followLast: boolean): MemoryNode | undefined {
    return memoryNodeAt(this.root, path, followLast);
  }
  place(path: string): { folder: MemoryFolder; name: string } {
    return memoryPlace(this.root, path);
  }

  added(path: string, node: MemoryNode): void {
    const { folder, name } = this.place(path);
    folder.entries.set(name, node);
    this.changed({ kind: "link", folder, name, node }, path);
  }

  removed(path: string): void {
    const node = this.node(path, false);
    if (node === undefined) return;
    if (node.kind === "folder") for (const name of [...node.entries.keys()]) this.removed(`${path}/${name}`);
    const { folder, name } = this.place(path);
    folder.entries.delete(name);
    this.changed({ kind: "unlink", folder, name, node }, path);
  }

  moved(from: string, to: string): void {
    const source = this.place(from);
    const target = this.place(to);
    const node = source.folder.entries.get(source.name);
    if (node === undefined) return;
    source.folder.entries.delete(source.name);
    target.folder.entries.set(target.name, node);
    this.changed(
      {
        kind: "move",
        from: source.folder,
        fromName: source.name,
        folder: target.folder,
        name: target.name,
        node,
      },
      `${from} to ${to}`,
    );
  }
}

class RecordedFile implements OpenFile {
  readonly #inner: OpenFile;
  readonly #node: MemoryFile;
  readonly #path: string;
  readonly #recorder: Recorder;
  constructor(inner: OpenFile, node: MemoryFile, path: string, recorder: Recorder) {
    this.#inner = inner;
    this.#node = node;
    this.#path = path;
    this.#recorder = recorder;
  }
  read(target: Uint8Array, position: number): Promise<number> {
    return this.#inner.read(target, position);
  }
  write(bytes: Uint8Array, position: number): Promise<void> {
    return this.#recorder.around(
      { kind: "write", node: this.#node, position, bytes: bytes.slice() },
      this.#path,
      () => this.#inner.write(bytes, position),
    );
  }
  size(): Promise<number> {
    return this.#inner.size();
  }
  truncate(size: number): Promise<void> {
    return this.#recorder.around({ kind: "truncate", node: this.#node, size }, this.#path, () =>
      this.#inner.truncate(size),
    );
  }
  sync(): Promise<void> {
    return this.#recorder.around({ kind: "sync", node: this.#node }, this.#path, () => this.#inner.sync());
  }
  close(): Promise<void> {
    return this.#inner.close();
  }
}

async function openRecorded(
  recorder: Recorder,
  inner: Files,
  path: string,
  mode: OpenMode,
): Promise<OpenFile> {
  const file = await inner.open(path, mode);
  let node = recorder.node(path, true);
  if (node === undefined) {
    node = memoryFile();
    recorder.added(path, node);
  }
  return new RecordedFile(file, node as MemoryFile, path, recorder);
}

/** Records the parents first, each as its own step. */
async function makeFolderRecorded(recorder: Recorder, inner: Files, path: string): Promise<void> {
  await inner.makeFolder(path);
  const missing: string[] = [];
  for (let at = path; recorder.node(at, true) === undefined; at = dirname(at)) missing.unshift(at);
  for (const folder of missing) recorder.added(folder, memoryFolder());
}

export interface RecordingFiles extends Files {
  readonly recording: Recording;
  /** Adds a mark to the sequence of events, such as an acknowledged save. */
  mark(value: unknown): void;
}

/**
 * Records every operation that passes through. `initial` is the present content of `inner`'s disk; default:
 * empty.
 */
export function recordingFiles(inner: Files, initial: MemoryFolder = memoryFolder()): RecordingFiles {
  const recorder = new Recorder(initial);
  return {
    recording: recorder,
    mark: (value) => recorder.mark(value),
    open: (path, mode) => openRecorded(recorder, inner, path, mode),
    read: (path) => inner.read(path),
    ...(inner.openNow && { openNow: inner.openNow }),
    stat: (path) => inner.stat(path),
    list: (path) => inner.list(path),
    makeFolder: (path) => makeFolderRecorded(recorder, inner, path),
    async rename(from, to) {
      await inner.rename(from, to);
      recorder.moved(from, to);
    },
    async remove(path) {
      await inner.remove(path);
      recorder.removed(path);
    },
    async replaceLink(target, path) {
      await inner.replaceLink(target, path);
      recorder.added(path, { kind: "link", target, modifiedMs: 0 });
    },
    readLink: (path) => inner.readLink(path),
    async syncFolder(path) {
      const node = recorder.node(path, true);
      if (node === undefined) return inner.syncFolder(path);
      return recorder.around({ kind: "sync", node }, path, () => inner.syncFolder(path));
    },
    freeBytes: (path) => inner.freeBytes(path),
  };
}
