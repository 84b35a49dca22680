/**
 * Starts the demo's child processes, reads their output line by line, kills them on request, and leaves none
 * behind. Does not know what they do.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { createWriteStream } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import type { ProcessStart } from "../../../shared/adapters/own-program.js";
import { StemmaError } from "../../../shared/errors.js";

export interface StartedProcess {
  readonly name: string;
  readonly pid: number;
  /** Resolves when the process has ended, with its status or signal. */
  readonly ended: Promise<number | NodeJS.Signals>;
  /**
   * Resolves with the first result of `pick` that is not undefined; `pick` gets every line of output.
   *
   * @throws CHECK_FAILED when the process ends before that
   */
  waitFor<T>(pick: (line: string) => T | undefined): Promise<T>;
  kill(signal: NodeJS.Signals): void;
}

/** The result of a command that ran to its end. */
export interface EndedProcess {
  readonly status: number | NodeJS.Signals;
  readonly stdout: string;
  readonly stderr: string;
}

type Program = Pick<ProcessStart, "program" | "args">;
type Environment = Readonly<Record<string, string>>;
interface SpawnedProcess {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly ended: Promise<number | NodeJS.Signals>;
}

/** The environment without the settings of a person's own server and home, which are not the demo's. */
function withoutOwnSettings(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith("STEMMA_")));
}

export class ChildProcesses {
  readonly #running = new Map<number, ChildProcess>();
  #isStopping = false;
  readonly #onExit = (): void => {
    for (const child of this.#running.values()) child.kill("SIGKILL");
  };

  /** @param logFolder keeps the output of every child, one file for each name */
  constructor(private readonly logFolder: string) {
    process.on("exit", this.#onExit);
  }

  /** @throws INTERRUPTED once all are being stopped, CHECK_FAILED where the system starts no process */
  #spawn(name: string, { program, args }: Program, environment: Environment): SpawnedProcess {
    if (this.#isStopping)
      throw new StemmaError("INTERRUPTED", `The process ${name} was not started: all are being stopped.`);
    // The child's standard input is a pipe from this process. If this process is killed, the pipe closes and
    // the child ends itself.
    const child = spawn(program, [...args], {
      stdio: ["pipe", "pipe", "pipe"],
      env: { ...withoutOwnSettings(process.env), ...environment, STEMMA_EXIT_WITH_STDIN: "1" },
      detached: true,
    });
    const { pid, stdout, stderr } = child;
    if (pid === undefined || stdout === null || stderr === null)
      throw new StemmaError(
        "CHECK_FAILED",
        `The process ${name} could not be started: ${program} ${args.join(" ")}. Check free memory and the limit on processes (ulimit -u).`,
      );
    this.#running.set(pid, child);
    const ended = new Promise<number | NodeJS.Signals>((resolve) => {
      child.on("close", (code, signal) => {
        this.#running.delete(pid);
        resolve(signal ?? code ?? 1);
      });
    });
    return { child, pid, stdout, stderr, ended };
  }

  /** Runs a command to its end. @throws as `start` */
  async run(program: Program, environment: Environment = {}): Promise<EndedProcess> {
    const { stdout, stderr, ended } = this.#spawn("command", program, environment);
    const [out, err] = [stdout, stderr].map((stream) => {
      const parts: Buffer[] = [];
      stream.on("data", (part: Buffer) => parts.push(part));
      return parts;
    });
    const status = await ended;
    const textOf = (parts: readonly Buffer[] = []): string => Buffer.concat(parts).toString("utf8");
    return { status, stdout: textOf(out), stderr: textOf(err) };
  }

  /** Starts a process that stays. @throws INTERRUPTED once all are being stopped, CHECK_FAILED */
  start(name: string, program: Program, environment: Environment = {}): StartedProcess {
    const { child, pid, stdout, stderr, ended } = this.#spawn(name, program, environment);
    const log = createWriteStream(`${this.logFolder}/${name}.log`, { flags: "a" });
    const listeners = new Set<(line: string) => void>();
    const tail: string[] = [];
    for (const stream of [stdout, stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        log.write(`${line}\n`);
        tail.push(line);
        if (tail.length > 12) tail.shift();
        for (const listener of listeners) listener(line);
      });
    }
    void ended.then(() => {
      log.end();
    });
    return {
      name,
      pid,
      ended,
      kill: (signal) => {
        child.kill(signal);
      },
      waitFor: (pick) =>
        new Promise((resolve, reject) => {
          const listener = (line: string): void => {
            const picked = pick(line);
            if (picked === undefined) return;
            listeners.delete(listener);
            resolve(picked);
          };
          listeners.add(listener);
          for (const line of tail) {
            if (listeners.has(listener)) listener(line);
          }
          void ended.then((how) => {
            if (listeners.delete(listener))
              reject(
                new StemmaError(
                  "CHECK_FAILED",
                  `${name} ended (${how}) before it was ready. The end of its log, ${this.logFolder}/${name}.log:\n${tail.join("\n")}`,
                ),
              );
          });
        }),
    };
  }

  /** Asks all to end (SIGTERM), waits up to `graceMs`, then kills those that still run. */
  async stopAll(graceMs = 8000): Promise<void> {
    this.#isStopping = true;
    const children = [...this.#running.values()];
    if (children.length === 0) {
      process.off("exit", this.#onExit);
      return;
    }
    const gone = Promise.all(
      children.map(
        (child) =>
          new Promise<void>((resolve) => {
            child.once("close", () => {
              resolve();
            });
          }),
      ),
    );
    for (const child of children) child.kill("SIGTERM");
    const timer = setTimeout(() => {
      for (const child of this.#running.values()) child.kill("SIGKILL");
    }, graceMs);
    await gone;
    clearTimeout(timer);
    process.off("exit", this.#onExit);
  }
}
