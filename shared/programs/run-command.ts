/**
 * Runs an external trainer or a measurement program, with a limit on what it writes (run-program.ts has the rest).
 * Knows nothing of models.
 */
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../error-text.js";
import { StemmaError } from "../errors.js";
import type { Clock } from "../ports.js";
import { runProgram, type ProgramEnd, type ProgramPorts, type ProgramRun } from "../adapters/run-program.js";

/** The kind of a program, as messages about it need it. */
export interface ProgramKind {
  readonly title: string;
  /** The member of a line in agent.json that names it. */
  readonly setting: "trainer" | "measure";
  /** Says what does not happen when it fails. */
  readonly outcome: string;
  /** Says what follows when it was cut short. */
  readonly afterwards: string;
}

export const trainerKind: ProgramKind = {
  title: "external trainer",
  setting: "trainer",
  outcome: "Nothing was saved",
  afterwards: "it begins again",
};

export const measureKind: ProgramKind = {
  title: "measurement program",
  setting: "measure",
  outcome: "Nothing was measured",
  afterwards: "ask again",
};

export interface CommandRun extends ProgramRun {
  readonly kind: ProgramKind;
  /** The folders that it may fill, and with how many bytes. */
  readonly watched: { readonly folders: readonly string[]; readonly maxBytes: number };
}

const watchMs = 1000;
const maxWatchedFiles = 20_000;
/** Signals by which something else ended it: no memory, a shutdown. Other signals are its own crash. */
const outerSignals = new Set(["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"]);

/**
 * Runs a program to its end. When this resolves or rejects, nothing of its process group runs any more.
 * @throws TRAINER_FAILED, TRAINER_TIMED_OUT, TRAINER_OUTPUT_TOO_LARGE; TRAINING_STOPPED when it was aborted, or
 * killed from outside
 */
export async function runCommand(run: CommandRun, ports: ProgramPorts): Promise<void> {
  const { watched, exec, kind } = run;
  if (ports.signal.aborted) throw stopped(kind, "was stopped before it began");
  // What is there already, as the program's own files, it did not write.
  const limit = { ...watched, maxBytes: watched.maxBytes + (await bytesIn(watched.folders)) };
  let end: ProgramEnd;
  try {
    end = await runProgram(run, ports, (onTooLarge) => watchBytes(limit, ports.clock, onTooLarge));
  } catch (cause) {
    throw new StemmaError(
      "TRAINER_FAILED",
      `The ${kind.title} ${exec[0] ?? ""} could not be started: ${messageOf(cause)}. Check the program ` +
        "and its permissions.",
      { cause },
    );
  }
  // The program may have written much since the last look.
  const isTooLarge = end.reason === undefined && (await bytesIn(watched.folders)) > limit.maxBytes;
  throwUnlessDone(isTooLarge ? { ...end, reason: "too-large" } : end, run);
}

function stopped({ title, outcome, afterwards }: ProgramKind, how: string): StemmaError {
  return new StemmaError("TRAINING_STOPPED", `The ${title} ${how}. ${outcome}; ${afterwards}.`);
}

function throwUnlessDone(
  { reason, code, signal, errors }: ProgramEnd,
  { timeoutSeconds, watched, kind }: CommandRun,
): void {
  const { title, setting, outcome } = kind;
  const output = errors === "" ? "" : ` It wrote: ${errors.slice(-400)}`;
  switch (reason) {
    case "stopped":
      throw stopped(kind, "was stopped");
    case "timed-out":
      throw new StemmaError(
        "TRAINER_TIMED_OUT",
        `The ${title} did not end within ${timeoutSeconds} seconds (${setting}.timeoutSeconds) ` +
          `and was ended. ${outcome}; let it do less, or raise the limit.${output}`,
        { timeoutSeconds },
      );
    case "too-large":
      throw new StemmaError(
        "TRAINER_OUTPUT_TOO_LARGE",
        `The ${title} wrote more than ${watched.maxBytes} bytes, or very many files, and was ` +
          `ended. ${outcome}; let it write less, or raise ${setting}.maxOutputBytes.${output}`,
        { maxBytes: watched.maxBytes },
      );
    case undefined:
  }
  if (signal !== null && outerSignals.has(signal)) throw stopped(kind, `was killed by ${signal}`);
  if (code !== 0)
    throw new StemmaError(
      "TRAINER_FAILED",
      `The ${title} ended with ${signal === null ? `status ${code}` : signal}. ${outcome}; see what it ` +
        "wrote, and run it by hand in a folder like the one that docs/own-models.md " +
        `describes.${output}`,
      { code, signal, stderr: errors },
    );
}

/** Looks regularly how much there is in folders; calls back once when it is too much. */
function watchBytes(
  { folders, maxBytes }: CommandRun["watched"],
  clock: Clock,
  onTooMuch: () => void,
): () => void {
  let isStopped = false;
  let cancel = (): void => undefined;
  const look = async (): Promise<void> => {
    const bytes = await bytesIn(folders);
    if (isStopped) return;
    if (bytes > maxBytes) onTooMuch();
    else cancel = clock.after(watchMs, () => void look());
  };
  cancel = clock.after(watchMs, () => void look());
  return () => {
    isStopped = true;
    cancel();
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
