/**
 * Starts another part of this program as a process of its own: the engine, a simulated device's host, a command. From
 * `dist/` that is Node with a script. A single executable (packaging/) is Node and Stemma in one file: it starts
 * itself, a first argument says that it is to run a script, and Node's options can reach it in NODE_OPTIONS only.
 */
import { isSea } from "node:sea";

/** The argument that the executable's start.cjs looks for; after it comes the script, or "-e" and a script's text. */
const partArgument = "--stemma-part";
/** The place where start.cjs leaves the function that checks the unpacked files and restores the damaged ones. */
const restoreUnpacked = Symbol.for("stemma.restore-unpacked");

export interface ProcessStart {
  readonly program: string;
  readonly args: readonly string[];
  /** Variables that the process needs beside those that its caller gives it. */
  readonly environment: Readonly<Record<string, string>>;
}

export interface OwnPart {
  /** Path of a script; "-e" where the first of `args` is its text. */
  readonly script: string;
  readonly args?: readonly string[];
  readonly nodeOptions?: readonly string[];
  /** True if Node and Stemma are one file; by default as this process is. */
  readonly isExecutable?: boolean;
}

/** True if this process is a single executable, also in its worker threads. */
export const isExecutable = (): boolean => isSea();

/** Returns the way to start a part of this program. In an executable, damaged files on the disk are restored first. */
export function ownPart({
  script,
  args = [],
  nodeOptions = [],
  isExecutable = isSea(),
}: OwnPart): ProcessStart {
  const program = process.execPath;
  if (!isExecutable) return { program, args: [...nodeOptions, script, ...args], environment: {} };
  (globalThis as Record<symbol, (() => void) | undefined>)[restoreUnpacked]?.();
  return {
    program,
    args: [partArgument, script, ...args],
    environment: nodeOptions.length === 0 ? {} : { NODE_OPTIONS: nodeOptions.map(quoted).join(" ") },
  };
}

/** Options of `fork` with which Node starts a script of this program, since `fork` puts the script's path itself. */
export const forkArguments = (): readonly string[] => (isSea() ? [partArgument] : process.execArgv);

/** An option as NODE_OPTIONS takes it: quoted where it has a space, since a path may. */
const quoted = (option: string): string =>
  /[\s"\\]/.test(option) ? `"${option.replaceAll(/["\\]/g, "\\$&")}"` : option;
