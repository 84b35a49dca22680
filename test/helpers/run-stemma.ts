/** Runs the `stemma` program in its own process, as a user does. */
import { execFile, spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("bundled-program.mjs", import.meta.url));

export interface ProgramResult {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** @param home the home folder; the fleet is "local" unless the arguments name another */
export function runStemma(
  args: readonly string[],
  { home }: { readonly home: string },
): Promise<ProgramResult> {
  return runStemmaProcess([...args, "--home", home], { STEMMA_FLEET: "local" });
}

/** A running command, with its streams. @param program "stemma", or "agent" for the agent's own program */
export function spawnStemma(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>> = {},
  programName: "stemma" | "agent" = "stemma",
): ChildProcessWithoutNullStreams {
  return spawn(process.execPath, [program, programName, ...args], {
    env: { ...process.env, ...environment },
  });
}

/** @param environment variables that differ from this process's; undefined: not set */
export function runStemmaProcess(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Promise<ProgramResult> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [program, "stemma", ...args],
      { env: { ...process.env, ...environment }, maxBuffer: 64 * 1024 * 1024 },
      (error, stdout, stderr) => {
        resolve({
          status: typeof error?.code === "number" ? error.code : error === null ? 0 : -1,
          stdout,
          stderr,
        });
      },
    );
  });
}
