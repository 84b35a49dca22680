/** Runs a user's own program, bare or with the recorder, in a process group that ends with it. */
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { nodeClock } from "../../../shared/adapters/node-ports.js";
import { runProgram, type ProgramEnd, type ProgramPorts } from "../../../shared/adapters/run-program.js";
import type { Recorder } from "../../../shared/determinism/recorder/build-recorder.js";
import {
  prepareRecording,
  readRecording,
  recordedCommand,
  throwIfRecordingFailed,
  type Recording,
} from "../../../shared/determinism/recorder/recorded-run.js";
import { messageOf } from "../../../shared/error-text.js";
import { StemmaError } from "../../../shared/errors.js";

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

/**
 * Runs the program with the recorder. @param given the records to replay; absent: it records
 * @throws what `runTraining` throws, RANDOM_PROFILE_INVALID where what it left are no records, RECORDER_UNAVAILABLE
 * where the loader did not take the recorder
 */
export async function runRecorded(
  run: TrainingRun,
  recorder: Recorder,
  given: Buffer | undefined,
  ports: RunPorts,
): Promise<Recording> {
  const recording = await prepareRecording(run.workFolder, given);
  const command = recordedCommand(recorder, run.command);
  const variables = { ...run.variables, ...recording.variables };
  try {
    await runTraining({ ...run, command, variables }, ports);
  } finally {
    await throwIfRecordingFailed(recording);
  }
  return await readRecording(recording);
}
