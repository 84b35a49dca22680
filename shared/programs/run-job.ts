/**
 * Runs a program of a line in its job's folder, with its limits and nothing of this process's environment, and ends
 * whatever it left running.
 */
import { plainEnvironment } from "../adapters/run-program.js";
import type { Clock, Log } from "../ports.js";
import { noteProcess } from "./left-process.js";
import { shortScratch } from "./short-scratch.js";
import { endStrayProcesses } from "./stray-processes.js";
import type { JobFolders, JobLimits } from "./job-folder.js";
import { runCommand, type ProgramKind } from "./run-command.js";

/** A command and the environment variables that its owner adds. */
export interface RunnableProgram {
  readonly exec: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

export interface ProgramJob {
  readonly line: string;
  readonly kind: ProgramKind;
  readonly program: RunnableProgram;
  readonly workFolder: string;
  readonly folders: JobFolders;
  readonly limits: JobLimits;
  /** Folders beside its own ones that are filled while it runs, and count as what it writes. */
  readonly alsoFilled?: readonly string[];
}

export interface JobPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Gets each line of its standard output; false: the line is logged. */
  readonly takesLine: (line: string) => boolean;
  readonly onStarted?: (pid: number) => void;
}

/** @throws TRAINER_FAILED, TRAINER_TIMED_OUT, TRAINER_OUTPUT_TOO_LARGE, TRAINING_STOPPED */
export async function runJob(
  { line, kind, program, workFolder, folders, limits, alsoFilled = [] }: ProgramJob,
  { clock, log, signal, takesLine, onStarted }: JobPorts,
): Promise<void> {
  const temporary = await shortScratch(folders.scratch);
  try {
    await runCommand(
      {
        kind,
        exec: program.exec,
        folder: folders.output,
        environment: { ...environmentOf(program, limits, folders), TMPDIR: temporary.path },
        watched: {
          folders: [folders.output, folders.scratch, folders.program, ...alsoFilled],
          maxBytes: limits.maxOutputBytes,
        },
        timeoutSeconds: limits.timeoutSeconds,
      },
      {
        clock,
        signal,
        onLine: (text) => {
          if (!takesLine(text) && text !== "")
            log.debug(`${kind.setting}-output`, { line, text: text.slice(0, 2000) });
        },
        onStarted: async (pid) => {
          onStarted?.(pid);
          await noteProcess(workFolder, pid);
        },
      },
    );
  } finally {
    const strays = await endStrayProcesses(workFolder);
    await temporary.remove();
    if (strays > 0)
      log.warn(`${kind.setting}-left-processes`, {
        line,
        strays,
        text: `${line}: ${strays} processes that the ${kind.title} left behind were ended`,
      });
  }
}

/** All that the program gets from its surroundings; nothing of this process's own environment. */
function environmentOf(
  { environment }: Pick<RunnableProgram, "environment">,
  { memoryLimitMb, threads }: JobLimits,
  { input, output, scratch }: JobFolders,
): Record<string, string> {
  return {
    ...plainEnvironment,
    OMP_NUM_THREADS: String(threads),
    ...environment,
    HOME: scratch,
    STEMMA_INPUT: input,
    STEMMA_OUTPUT: output,
    STEMMA_MEMORY_LIMIT_MB: String(memoryLimitMb),
  };
}
