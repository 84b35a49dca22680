/**
 * Runs commands of the `stemma` program in the process of the test, where a process of its own is not what is tested:
 * starting one takes ten times as long as most commands. With STEMMA_TEST_FULL each command is a process, as with
 * `runStemma`. Commands that start a program of their own (demo, console) write past this, and those that run until a
 * signal (server, agent run) end with the test's process only: use `runStemma` for them.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { runAgentProgram } from "../../agent/cli/agent-program.js";
import { runCommandLine } from "../../server/cli/build-program.js";
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { runStemmaProcess, type ProgramResult } from "./run-stemma.js";

export type { ProgramResult };

interface Written {
  readonly stdout: Buffer[];
  readonly stderr: Buffer[];
}

/** What the running command writes. What others in this process write meanwhile, as the test runner, is not its. */
const running = new AsyncLocalStorage<Written>();
/** One command at a time, since each has the process's exit status and environment. */
const queue = new SerialQueue();

/** @param home the home folder; the fleet is "local" unless the arguments name another */
export function runStemmaHere(
  args: readonly string[],
  { home }: { readonly home: string },
): Promise<ProgramResult> {
  return runStemmaWith([...args, "--home", home], { STEMMA_FLEET: "local" });
}

/** @param environment variables that differ from this process's; undefined: not set */
export function runStemmaWith(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Promise<ProgramResult> {
  if (process.env["STEMMA_TEST_FULL"] === "1") return runStemmaProcess(args, environment);
  return runHere(() => runCommandLine(args), environment);
}

/** A command of the agent: what follows `stemma agent` on a command line. */
export function runAgentHere(args: readonly string[]): Promise<ProgramResult> {
  if (process.env["STEMMA_TEST_FULL"] === "1") return runStemmaProcess(["agent", ...args], {});
  return runHere(() => runAgentProgram(args), {});
}

function runHere(
  command: () => Promise<number>,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<ProgramResult> {
  return queue.run(async () => {
    catchOutput("stdout");
    catchOutput("stderr");
    const written: Written = { stdout: [], stderr: [] };
    const ownStatus = process.exitCode;
    const restore = setEnvironment(environment);
    process.exitCode = undefined;
    try {
      const status = await running.run(written, command);
      const textOf = (parts: readonly Buffer[]): string => Buffer.concat(parts).toString();
      return { status, stdout: textOf(written.stdout), stderr: textOf(written.stderr) };
    } finally {
      restore();
      process.exitCode = ownStatus;
    }
  });
}

/** @returns what sets the variables back */
function setEnvironment(environment: Readonly<Record<string, string | undefined>>): () => void {
  const set = (variables: Readonly<Record<string, string | undefined>>): void => {
    for (const [name, value] of Object.entries(variables))
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
  };
  const before = Object.fromEntries(Object.keys(environment).map((name) => [name, process.env[name]]));
  set(environment);
  return () => {
    set(before);
  };
}

const caught = new Set<keyof Written>();

/** From now on, what a command writes to the stream is kept for its result. */
function catchOutput(name: keyof Written): void {
  if (caught.has(name)) return;
  caught.add(name);
  const stream = process[name];
  const write = stream.write.bind(stream) as (
    chunk: string | Uint8Array,
    ...rest: readonly unknown[]
  ) => boolean;
  const writeOrKeep = (chunk: string | Uint8Array, ...rest: readonly unknown[]): boolean => {
    const written = running.getStore();
    if (written === undefined) return write(chunk, ...rest);
    written[name].push(Buffer.from(chunk));
    const onWritten = rest.at(-1);
    if (typeof onWritten === "function") process.nextTick(onWritten);
    return true;
  };
  stream.write = writeOrKeep;
}
