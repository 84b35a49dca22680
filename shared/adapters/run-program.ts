/**
 * Runs a program as a process group of its own: without a shell, with a fixed environment, for a limited time. Ends the
 * complete group, whatever the program started. Knows nothing of what it is for.
 */
import { spawn, type ChildProcess } from "node:child_process";
import type { Clock } from "../ports.js";

export interface ProgramRun {
  readonly exec: readonly string[];
  /** The current directory of the program. */
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly timeoutSeconds: number;
  /** The bytes for its standard input; absent: none. */
  readonly input?: Uint8Array;
}

export interface ProgramPorts {
  readonly clock: Clock;
  /** Aborting ends the program's group. */
  readonly signal: AbortSignal;
  /** Gets each line of its standard output. */
  onLine(line: string): void;
  /** Gets each line of what it writes as errors. */
  readonly onErrorLine?: (line: string) => void;
  /** Called once it runs, before anything else is awaited. */
  onStarted(pid: number): Promise<void>;
}

/** The environment of every program, beside what it is for: nothing of the agent's own. */
export const plainEnvironment = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  LANG: "C.UTF-8",
} as const;

/** Milliseconds between SIGTERM and SIGKILL. */
const graceMs = 2000;
/** Milliseconds for reading what it wrote last. A process that left the group may keep the pipes open for ever. */
const drainMs = 500;
const maxErrorCharacters = 8192;

type Exit = { readonly code: number | null; readonly signal: NodeJS.Signals | null };

/** The end of a program. */
export interface ProgramEnd extends Exit {
  /** The reason why this process ended it; undefined: it ended by itself, or something else ended it. */
  readonly reason: "stopped" | "timed-out" | "too-large" | undefined;
  /** The end of what it wrote as errors. */
  readonly errors: string;
}

/**
 * Runs a program to its end. When this resolves, nothing of its process group runs any more.
 * @param watch calls back when the program fills too much; returns what ends the watching
 * @throws the system's error where it cannot be started
 */
export async function runProgram(
  run: ProgramRun,
  ports: ProgramPorts,
  watch: (onTooLarge: () => void) => () => void = () => () => undefined,
): Promise<ProgramEnd> {
  const child = await startProcess(run);
  const pid = child.pid as number;
  let reason: ProgramEnd["reason"];
  let cancelKill: (() => void) | undefined;
  const end = (why: ProgramEnd["reason"]): void => {
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
  // The signal may be older than this program.
  if (ports.signal.aborted) onAbort();
  const cancelTimeout = ports.clock.after(run.timeoutSeconds * 1000, () => {
    end("timed-out");
  });
  const stopWatch = watch(() => {
    end("too-large");
  });
  const output = collectOutput(child, ports);
  try {
    const ended = endOf(child);
    await ports.onStarted(pid);
    const { code, signal } = await ended;
    // The program may have left others behind.
    signalGroup(pid, "SIGKILL");
    await output.drained();
    return { code, signal, reason, errors: output.errorTail() };
  } finally {
    ports.signal.removeEventListener("abort", onAbort);
    cancelTimeout();
    cancelKill?.();
    stopWatch();
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

function startProcess({ exec, folder, environment, input }: ProgramRun): Promise<ChildProcess> {
  const [program = "", ...args] = exec;
  return new Promise((resolve, reject) => {
    // Detached: the leader of a group of its own, so that its children can be ended with it.
    const child = spawn(program, args, {
      cwd: folder,
      env: environment,
      detached: true,
      shell: false,
      stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    });
    // A program may end without having read it.
    child.stdin?.on("error", () => undefined).end(input);
    child.once("spawn", () => {
      resolve(child);
    });
    child.once("error", reject);
  });
}

/** "exit", not "close": a process that it left behind may keep its pipes open. */
function endOf(child: ChildProcess): Promise<Exit> {
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
  { onLine, onErrorLine, clock }: Pick<ProgramPorts, "onLine" | "onErrorLine" | "clock">,
): Output {
  let tail = "";
  const lines = new LineSplitter(onLine);
  const errorLines = onErrorLine && new LineSplitter(onErrorLine);
  child.stdout?.setEncoding("utf8").on("data", (part: string) => {
    lines.push(part);
  });
  child.stderr?.setEncoding("utf8").on("data", (part: string) => {
    tail = (tail + part).slice(-maxErrorCharacters);
    errorLines?.push(part);
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

const maxLineCharacters = 64 * 1024;

/** Cuts text that arrives in parts into lines, with bounded memory: what is longer than a line may be is dropped. */
class LineSplitter {
  #unfinished = "";
  #isTooLong = false;

  constructor(private readonly onLine: (line: string) => void) {}

  push(part: string): void {
    let start = 0;
    for (let end = part.indexOf("\n"); end >= 0; end = part.indexOf("\n", start)) {
      this.#extend(part.slice(start, end));
      if (!this.#isTooLong) this.onLine(this.#unfinished);
      this.#unfinished = "";
      this.#isTooLong = false;
      start = end + 1;
    }
    this.#extend(part.slice(start));
  }

  #extend(text: string): void {
    if (this.#isTooLong) return;
    if (this.#unfinished.length + text.length > maxLineCharacters) {
      this.#isTooLong = true;
      this.#unfinished = "";
    } else this.#unfinished += text;
  }
}
