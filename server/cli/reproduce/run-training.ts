/** Runs a user's own program, bare or with the recorder, in a process group that ends with it. */
import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { nodeClock } from "../../../shared/adapters/node-ports.js";
import { runProgram, type ProgramEnd, type ProgramPorts } from "../../../shared/adapters/run-program.js";
import {
  decodeRecords,
  maxProfileBytes,
  type RandomRecord,
} from "../../../shared/determinism/reproduce/random-profile.js";
import { messageOf } from "../../../shared/error-text.js";
import { StemmaError } from "../../../shared/errors.js";
import type { Recorder } from "./build-recorder.js";

export interface TrainingRun {
  readonly command: readonly string[];
  readonly timeoutSeconds: number;
  /** A folder of the caller's own; the run's files are below `run` in it. */
  readonly workFolder: string;
  /** Variables beside those of this process. */
  readonly variables?: Readonly<Record<string, string>>;
}

export type RunPorts = Pick<ProgramPorts, "signal" | "onLine" | "onErrorLine">;

/** The variable that names the folder in which a run leaves its files. */
export const runVariable = "STEMMA_RUN";
export const runFolderOf = (workFolder: string): string => join(workFolder, "run");

/**
 * Runs the program to its end, in the current folder. Its run's folder is new, and always has the same path: a path of
 * another length would move what the program has in memory.
 * @throws TRAINER_FAILED, TRAINER_TIMED_OUT; INTERRUPTED when it was aborted
 */
export async function runTraining(run: TrainingRun, ports: RunPorts): Promise<void> {
  const { command, timeoutSeconds, workFolder, variables = {} } = run;
  ports.signal.throwIfAborted();
  await rm(runFolderOf(workFolder), { recursive: true, force: true });
  await mkdir(runFolderOf(workFolder), { recursive: true, mode: 0o700 });
  const environment = { ...process.env, ...variables, [runVariable]: runFolderOf(workFolder) };
  let end: ProgramEnd;
  try {
    end = await runProgram(
      {
        exec: command,
        folder: process.cwd(),
        environment: environment,
        timeoutSeconds,
      },
      { ...ports, clock: nodeClock(), onStarted: () => Promise.resolve() },
    );
  } catch (cause) {
    throw new StemmaError("TRAINER_FAILED", `The program could not be started: ${messageOf(cause)}.`, {
      cause,
    });
  }
  ports.signal.throwIfAborted();
  throwUnlessDone(end, timeoutSeconds);
}

/** A run that failed is never compared: it is equal to nothing. */
function throwUnlessDone({ reason, code, signal, errors }: ProgramEnd, timeoutSeconds: number): void {
  const output = errors === "" ? "" : ` It wrote: ${errors.slice(-400)}`;
  if (reason === "timed-out")
    throw new StemmaError(
      "TRAINER_TIMED_OUT",
      `The program did not end within ${timeoutSeconds} seconds (--timeout) and was ended; nothing was kept.${output}`,
    );
  if (code !== 0)
    throw new StemmaError(
      "TRAINER_FAILED",
      `The program ended with ${signal ?? `status ${code}`}; a run that fails counts as equal to none, and nothing ` +
        `was kept.${output}`,
      { code, signal, stderr: errors },
    );
}

export interface Recording {
  readonly bytes: Buffer;
  readonly records: readonly RandomRecord[];
}

/**
 * Runs the program with the recorder. @param given the records to replay; absent: it records
 * @throws what `runTraining` throws, RANDOM_PROFILE_INVALID where what it left are no records, RECORDER_UNAVAILABLE
 * where the loader did not take the recorder
 */
export async function runRecorded(
  run: TrainingRun,
  { library, launcher }: Recorder,
  given: Buffer | undefined,
  ports: RunPorts,
): Promise<Recording> {
  const [from, to, state] = ["given", "taken", "state"].map((name) => join(run.workFolder, name)) as [
    string,
    string,
    string,
  ];
  for (const path of [from, to, state]) await rm(path, { force: true });
  await writeFile(from, given ?? "", { mode: 0o600 });
  const variables = {
    ...run.variables,
    // The environment has the same length in both modes.
    SRECORDER_MODE: given === undefined ? "record" : "replay",
    SRECORDER_GIVEN: from,
    SRECORDER_TAKEN: to,
    SRECORDER_STATE: state,
    SRECORDER_PATH: "0000000000000001",
  };
  try {
    await runTraining({ ...run, command: [launcher, library, ...run.command], variables }, ports);
  } finally {
    await throwIfRecordingFailed(state);
  }
  if (((await stat(to).catch(() => undefined))?.size ?? 0) === 0)
    throw new StemmaError(
      "RECORDER_UNAVAILABLE",
      "The program ran without the recorder: the loader did not take it, so nothing is known of its randomness. It " +
        "may be for another C library than glibc.",
    );
  if ((await stat(to)).size > maxProfileBytes) throw tooMuch();
  const bytes = await readFile(to);
  return { bytes, records: decodeRecords(bytes, "What the program left") };
}

const tooMuch = (): StemmaError =>
  new StemmaError(
    "TRAINER_OUTPUT_TOO_LARGE",
    "The program drew more than 64 MiB of randomness, too much for a profile; it was ended. Seed what draws that much.",
  );

async function throwIfRecordingFailed(state: string): Promise<void> {
  const shared = await readFile(state).catch(() => Buffer.alloc(0));
  const failure = shared.length < 4 ? 0 : shared.readUInt32LE(0);
  if (failure === 2) throw tooMuch();
  if (failure === 1)
    throw new StemmaError("DISK_FULL", "The records of randomness could not be written; the run was ended.");
}
