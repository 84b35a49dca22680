/**
 * Builds the disks that a crash could have left from a recording. Data that was fsynced before the crash is
 * there; everything else may be there, missing or torn, because POSIX promises no order between writes,
 * between names, or between the two. A folder's new names are durable once that folder was fsynced, a file's
 * bytes once that file was. Pure; the same seed gives the same states.
 */
import { seededNumbers } from "../../../shared/random/seeded-numbers.js";
import {
  memoryFile,
  memoryFiles,
  memoryFolder,
  truncateMemoryFile,
  writeMemoryFile,
  type MemoryFile,
  type MemoryFolder,
  type MemoryNode,
} from "./memory-files.js";
import type { DiskOperation, RecordedOperation, Recording } from "./recording-files.js";

/** What happens to operations that were not fsynced. */
export const crashStyles = [
  "all-kept",
  "all-dropped",
  "each-by-chance",
  "torn-by-chance",
  "blocks-by-chance",
  "first-ones",
  "names-only",
  "contents-only",
  "zeros",
] as const;
export type CrashStyle = (typeof crashStyles)[number];

export interface CrashState {
  /** Describes the state so that it can be built again. */
  readonly description: string;
  readonly at: number;
  readonly style: CrashStyle;
  readonly root: MemoryFolder;
  readonly files: ReturnType<typeof memoryFiles>;
  /** The marks before the crash, in order. */
  readonly marks: readonly unknown[];
}

const blockBytes = 512;
type Fate = "kept" | "dropped" | "torn" | "blocks" | "zeros";

/** The node whose fsync makes an operation durable. */
function syncedBy(operation: DiskOperation): MemoryNode {
  return operation.kind === "write" || operation.kind === "truncate" || operation.kind === "sync"
    ? operation.node
    : operation.folder;
}

/** For each node, the latest begin of an fsync that had ended by `at`: operations that ended before it are durable. */
function durableUntil(recording: Recording, at: number): ReadonlyMap<MemoryNode, number> {
  const until = new Map<MemoryNode, number>();
  for (const { operation, begin, end } of recording.operations)
    if (operation.kind === "sync" && end < at)
      until.set(operation.node, Math.max(begin, until.get(operation.node) ?? -1));
  return until;
}

/** What happens to the unsynced operation number `index`; style "first-ones" keeps those before `cut`. */
function fateOf(
  style: CrashStyle,
  operation: DiskOperation,
  { index, cut }: { readonly index: number; readonly cut: number },
  random: () => number,
): Fate {
  const isContent = operation.kind === "write" || operation.kind === "truncate";
  switch (style) {
    case "all-kept":
      return "kept";
    case "all-dropped":
      return "dropped";
    case "each-by-chance":
      return random() < 0.5 ? "kept" : "dropped";
    case "torn-by-chance":
      return random() < 0.3 ? "dropped" : operation.kind === "write" && random() < 0.6 ? "torn" : "kept";
    case "blocks-by-chance":
      return operation.kind === "write" ? "blocks" : random() < 0.7 ? "kept" : "dropped";
    case "first-ones":
      return index < cut ? "kept" : index === cut && operation.kind === "write" ? "torn" : "dropped";
    case "names-only":
      return isContent ? "dropped" : "kept";
    case "contents-only":
      return isContent ? "kept" : "dropped";
    case "zeros":
      return operation.kind === "write" ? "zeros" : "kept";
  }
}

/** Builds the disk by applying operations in order to fresh nodes. */
class Disk {
  readonly #recording: Recording;
  readonly #nodes = new Map<MemoryNode, MemoryNode>();
  constructor(recording: Recording) {
    this.#recording = recording;
  }

  get root(): MemoryFolder {
    return this.#fresh(this.#recording.root) as MemoryFolder;
  }

  #fresh(node: MemoryNode): MemoryNode {
    const known = this.#nodes.get(node);
    if (known !== undefined) return known;
    let fresh: MemoryNode = node;
    if (node.kind === "file") {
      fresh = memoryFile();
      writeMemoryFile(fresh, node.bytes.subarray(0, node.size), 0);
    }
    if (node.kind === "folder") {
      const folder = memoryFolder();
      fresh = folder;
      for (const [name, child] of this.#recording.baseline.get(node) ?? [])
        folder.entries.set(name, this.#fresh(child));
    }
    this.#nodes.set(node, fresh);
    return fresh;
  }

  apply(operation: DiskOperation, fate: Fate, random: () => number): void {
    if (fate === "dropped" || operation.kind === "sync") return;
    if (operation.kind === "write") {
      this.#write(this.#fresh(operation.node) as MemoryFile, operation, fate, random);
      return;
    }
    if (operation.kind === "truncate") {
      truncateMemoryFile(this.#fresh(operation.node) as MemoryFile, operation.size);
      return;
    }
    const { entries } = this.#fresh(operation.folder) as MemoryFolder;
    const node = this.#fresh(operation.node);
    if (operation.kind === "link") {
      entries.set(operation.name, node);
      return;
    }
    if (operation.kind === "unlink") {
      if (entries.get(operation.name) === node) entries.delete(operation.name);
      return;
    }
    const from = this.#fresh(operation.from) as MemoryFolder;
    if (from.entries.get(operation.fromName) === node) from.entries.delete(operation.fromName);
    entries.set(operation.name, node);
  }

  #write(
    file: MemoryFile,
    { position, bytes }: { readonly position: number; readonly bytes: Uint8Array },
    fate: Fate,
    random: () => number,
  ): void {
    if (fate === "kept") writeMemoryFile(file, bytes, position);
    else if (fate === "zeros") writeMemoryFile(file, new Uint8Array(bytes.length), position);
    else if (fate === "torn")
      writeMemoryFile(file, bytes.subarray(0, Math.floor(random() * bytes.length)), position);
    else {
      for (let at = 0; at < bytes.length;) {
        const end = Math.min(bytes.length, at + blockBytes - ((position + at) % blockBytes));
        if (random() < 0.5) writeMemoryFile(file, bytes.subarray(at, end), position + at);
        at = end;
      }
    }
  }
}

/** The disk that a crash before event `at` leaves; `style` decides what happens to operations not fsynced. */
export function crashState(recording: Recording, at: number, style: CrashStyle, seed: number): CrashState {
  const random = seededNumbers(seed);
  const until = durableUntil(recording, at);
  const started = recording.operations.filter(({ begin }) => begin < at);
  const isDurable = ({ operation, end }: RecordedOperation): boolean =>
    end < (until.get(syncedBy(operation)) ?? -1);
  const cut = Math.floor(
    random() *
      (started.filter((recorded) => recorded.operation.kind !== "sync" && !isDurable(recorded)).length + 1),
  );
  const disk = new Disk(recording);
  let unsynced = 0;
  for (const recorded of started) {
    if (recorded.operation.kind === "sync") continue;
    disk.apply(
      recorded.operation,
      isDurable(recorded) ? "kept" : fateOf(style, recorded.operation, { index: unsynced++, cut }, random),
      random,
    );
  }
  const { root } = disk;
  const marks = recording.marks.filter((mark) => mark.at < at).map(({ value }) => value);
  return {
    description: `crash before event ${at} of ${recording.events}, style ${style}, state seed ${seed}`,
    at,
    style,
    root,
    files: memoryFiles({ root }),
    marks,
  };
}

/** `count` states at random moments of the recording and in random styles. */
export function* crashStates(recording: Recording, seed: number, count: number): Iterable<CrashState> {
  const random = seededNumbers(seed);
  for (let i = 0; i < count; i++) {
    const at = Math.floor(random() * (recording.events + 1));
    const style = crashStyles[Math.floor(random() * crashStyles.length)] as CrashStyle;
    yield crashState(recording, at, style, Math.floor(random() * 2 ** 32));
  }
}
