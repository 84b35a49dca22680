/**
 * Runs an external trainer as a process group of its own: without a shell, with a fixed environment, for a limited
 * time, and with a limit on what it writes. Ends the complete group, whatever the program started. Knows nothing
 * of models.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import type { Clock } from "../../shared/ports.js";
import { LineSplitter } from "./line-splitter.js";

export interface CommandRun {
  readonly exec: readonly string[];
  /** Its current directory. */
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  /** What it may fill, and with how many bytes. */
  readonly watched: { readonly folders: readonly string[]; readonly maxBytes: number };
  readonly timeoutSeconds: number;
}

export interface CommandPorts {
  readonly clock: Clock;
  /** Aborting ends the program's group and rejects with TRAINING_STOPPED. */
  readonly signal: AbortSignal;
  /** Gets each line of its standard output. */
  onLine(line: string): void;
  /** Called once it runs, before anything else is awaited. */
  onStarted(pid: number): Promise<void>;
}

/** Milliseconds between SIGTERM and SIGKILL. */
const graceMs = 2000;
const watchMs = 1000;
/** Milliseconds for reading what it wrote last. A process that left the group may keep the pipes open for ever. */
const drainMs = 500;
const maxWatchedFiles = 20_000;
const maxErrorCharacters = 8192;
/** Signals by which something else ended it: no memory, a shutdown. Other signals are its own crash. */
const outerSignals = new Set(["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"]);

type End = { readonly code: number | null; readonly signal: NodeJS.Signals | null };
/** Why this process ended the program. */
type Reason = "stopped" | "timed-out" | "too-large";

/**
 * Runs a program to its end. When this resolves or rejects, nothing of its process group runs any more.
 * @throws TRAINER_FAILED, TRAINER_TIMED_OUT, TRAINER_OUTPUT_TOO_LARGE; TRAINING_STOPPED when it was aborted, or
 * killed from outside
 */
export async function runCommand(run: CommandRun, ports: CommandPorts): Promise<void> {
  if (ports.signal.aborted) throw stopped("was stopped before it began");
  const child = await startProcess(run);
  const pid = child.pid as number;
  let reason: Reason | undefined;
  let cancelKill: (() => void) | undefined;
  const end = (why: Reason): void => {
    if (reason !== undefined) return;
    reason = why;
    signalGroup(pid, "SIGTERM");
    cancelKill = ports.clock.after(graceMs, () => {
      signalGroup(pid, "SIGKILL");
    });
  };
  const onAbort = (): void => {
    end("stopped");
  };
  ports.signal.addEventListener("abort", onAbort, { once: true });
  const cancelTimeout = ports.clock.after(run.timeoutSeconds * 1000, () => {
    end("timed-out");
  });
  const watch = watchBytes(run.watched, ports.clock, () => {
    end("too-large");
  });
  const output = collectOutput(child, ports);
  try {
    const ended = endOf(child);
    await ports.onStarted(pid);
    const { code, signal } = await ended;
    // The program may have left others behind, and may have written much since the last look.
    signalGroup(pid, "SIGKILL");
    await output.drained();
    if (reason === undefined && (await bytesIn(run.watched.folders)) > run.watched.maxBytes)
      reason = "too-large";
    throwUnlessDone({ reason, code, signal }, run, output.errorTail());
  } finally {
    ports.signal.removeEventListener("abort", onAbort);
    cancelTimeout();
    cancelKill?.();
    watch.stop();
    signalGroup(pid, "SIGKILL");
  }
}

/** Ends a process group; does nothing if it has ended already. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // It has ended.
  }
}

function stopped(how: string): StemmaError {
  return new StemmaError(
    "TRAINING_STOPPED",
    `The external trainer ${how}. Nothing was saved; it begins again.`,
  );
}

function startProcess({ exec, folder, environment }: CommandRun): Promise<ChildProcess> {
  const [program = "", ...args] = exec;
  return new Promise((resolve, reject) => {
    // Detached: the leader of a group of its own, so that its children can be ended with it.
    const child = spawn(program, args, {
      cwd: folder,
      env: environment,
      detached: true,
      shell: false,
      stdio: ["ignore", "pipe", "pipe"],
    });
    child.once("spawn", () => {
      resolve(child);
    });
    child.once("error", (cause) => {
      reject(
        new StemmaError(
          "TRAINER_FAILED",
          `The external trainer ${program} could not be started: ${cause.message}. Check the program ` +
            "and its permissions.",
          { cause },
        ),
      );
    });
  });
}

/** "exit", not "close": a process that it left behind may keep its pipes open. */
function endOf(child: ChildProcess): Promise<End> {
  if (child.exitCode !== null || child.signalCode !== null)
    return Promise.resolve({ code: child.exitCode, signal: child.signalCode });
  return new Promise((resolve) => {
    child.once("exit", (code, signal) => {
      resolve({ code, signal });
    });
  });
}

interface Output {
  /** Resolves when all that it wrote has been read, which may be after its end; at most for `drainMs`. */
  drained(): Promise<void>;
  /** The end of what it wrote as errors. */
  errorTail(): string;
}

/** Passes lines of its output on, and keeps the end of what it writes as errors. */
function collectOutput(
  child: ChildProcess,
  { onLine, clock }: Pick<CommandPorts, "onLine" | "clock">,
): Output {
  let tail = "";
  const lines = new LineSplitter(onLine);
  child.stdout?.setEncoding("utf8").on("data", (part: string) => {
    lines.push(part);
  });
  child.stderr?.setEncoding("utf8").on("data", (part: string) => {
    tail = (tail + part).slice(-maxErrorCharacters);
  });
  for (const stream of [child.stdout, child.stderr]) stream?.on("error", () => undefined);
  const closed = new Promise<void>((resolve) => {
    child.once("close", () => {
      resolve();
    });
  });
  return {
    drained: async () => {
      let cancel = (): void => undefined;
      const late = new Promise<void>((resolve) => {
        cancel = clock.after(drainMs, resolve);
      });
      await Promise.race([closed, late]);
      cancel();
      for (const stream of [child.stdout, child.stderr]) stream?.destroy();
    },
    errorTail: () => tail.trim(),
  };
}

function throwUnlessDone(
  { reason, code, signal }: End & { readonly reason: Reason | undefined },
  { timeoutSeconds, watched }: CommandRun,
  errors: string,
): void {
  const output = errors === "" ? "" : ` It wrote: ${errors.slice(-400)}`;
  switch (reason) {
    case "stopped":
      throw stopped("was stopped");
    case "timed-out":
      throw new StemmaError(
        "TRAINER_TIMED_OUT",
        `The external trainer did not end within ${timeoutSeconds} seconds (trainer.timeoutSeconds) ` +
          `and was ended. Nothing was saved; let it do less, or raise the limit.${output}`,
        { timeoutSeconds },
      );
    case "too-large":
      throw new StemmaError(
        "TRAINER_OUTPUT_TOO_LARGE",
        `The external trainer wrote more than ${watched.maxBytes} bytes, or very many files, and was ` +
          `ended. Nothing was saved; let it write less, or raise trainer.maxOutputBytes.${output}`,
        { maxBytes: watched.maxBytes },
      );
    case undefined:
  }
  if (signal !== null && outerSignals.has(signal)) throw stopped(`was killed by ${signal}`);
  if (code !== 0)
    throw new StemmaError(
      "TRAINER_FAILED",
      `The external trainer ended with ${signal === null ? `status ${code}` : signal}. Nothing was ` +
        "saved; see what it wrote, and run it by hand in a folder like the one that docs/own-models.md " +
        `describes.${output}`,
      { code, signal, stderr: errors },
    );
}

/** Looks regularly how much there is in folders; calls back once when it is too much. */
function watchBytes(
  { folders, maxBytes }: CommandRun["watched"],
  clock: Clock,
  onTooMuch: () => void,
): { stop(): void } {
  let isStopped = false;
  let cancel = (): void => undefined;
  const look = async (): Promise<void> => {
    const bytes = await bytesIn(folders);
    if (isStopped) return;
    if (bytes > maxBytes) onTooMuch();
    else cancel = clock.after(watchMs, () => void look());
  };
  cancel = clock.after(watchMs, () => void look());
  return {
    stop: () => {
      isStopped = true;
      cancel();
    },
  };
}

/** Bytes of all files below folders, by length or by disk blocks; Infinity for too many files. Follows no links. */
async function bytesIn(folders: readonly string[]): Promise<number> {
  let bytes = 0;
  let files = 0;
  const left = [...folders];
  for (let folder = left.pop(); folder !== undefined; folder = left.pop()) {
    for (const name of await readdir(folder).catch(() => [])) {
      if (++files > maxWatchedFiles) return Infinity;
      const path = join(folder, name);
      const found = await lstat(path).catch(() => undefined);
      if (found === undefined) continue;
      if (found.isDirectory()) left.push(path);
      else bytes += Math.max(found.size, found.blocks * 512);
    }
  }
  return bytes;
}
