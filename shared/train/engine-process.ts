/**
 * Runs the engine bundle as a child process and reads its messages: JSON lines on its standard output. The
 * child gets nothing of the caller's environment, so that no variable of the caller's shell can change the bits of a
 * training.
 */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { ownPart, type OwnPart } from "../adapters/own-program.js";
import { isErrorCode, isStemmaError, StemmaError } from "../errors.js";
import { builtInEngineFolder } from "./engine-folder.js";
import { limitedPart } from "./limited-part.js";
import type { EngineNotice, LossReport, PlannedTraining, TrainingProgress } from "./training.js";
import { endLine } from "./worker-loop.js";

export interface EngineProcessOptions {
  /** Aborting kills the child immediately and rejects with TRAINING_STOPPED. */
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: TrainingProgress) => void) | undefined;
  readonly onNotice?: ((notice: EngineNotice) => void) | undefined;
  /**
   * Told before the first step what the training is going to do. Where it throws, the child is killed, nothing more is
   * told of it, and the run rejects with what was thrown. An engine of an earlier release does not tell.
   */
  readonly onPlan?: ((planned: PlannedTraining) => Promise<void>) | undefined;
  /**
   * Told the losses that the job asks for. Calling `end` ends the training, and the run rejects as `isEndedEarly` says,
   * unless the training was done before.
   */
  readonly onLoss?: ((report: LossReport, end: () => void) => void) | undefined;
  /** The folder of the bundle; that of this build when absent. */
  readonly engineFolder?: string | undefined;
  /** MiB of memory that the process may write to, which the kernel enforces; absent: no such limit. */
  readonly processLimitMb?: number | undefined;
}

export interface EngineRun {
  /** The work of the child, for messages. */
  readonly purpose: "training" | "evaluation" | "probe";
  readonly jobFolder: string;
  readonly resultFolder: string;
  /** Another program than the engine. */
  readonly script?: string | undefined;
}

/** The longest that a machine may take for the known answer, which needs less than a second. */
const knownAnswerTimeoutMs = 60_000;

/**
 * The engine's process grows no more than the agent's own (packaging/debian/agent/unit.service): a small young
 * generation, and memory that is free goes back. (docs/performance.md, "One file")
 */
const smallHeap = ["--max-semi-space-size=2"];
const smallMalloc = { MALLOC_ARENA_MAX: "2", MALLOC_TRIM_THRESHOLD_: "131072" };

/** Computes the known answer of this build's engine on this machine (known-answer.ts). @throws BACKEND_UNAVAILABLE */
export async function computeKnownAnswer(): Promise<string> {
  const script = join(builtInEngineFolder(), "engine.mjs");
  try {
    const { program, args, environment } = ownPart({ script, args: ["--known-answer"] });
    const { stdout } = await promisify(execFile)(program, [...args], {
      env: { ...environment },
      timeout: knownAnswerTimeoutMs,
    });
    return stdout.trim();
  } catch (cause) {
    throw new StemmaError(
      "BACKEND_UNAVAILABLE",
      `The training engine at ${script} did not compute its known answer. Build it with \`npm run build\`.`,
      { cause },
    );
  }
}

/** The longest line that is accepted from the child. */
const maxLineCharacters = 64 * 1024;
/** The characters at the end of the child's standard error that are kept for the error message. */
const maxStderrCharacters = 8192;

/**
 * Runs the engine's process from start to end.
 * @throws the child's own typed error, TRAINING_STOPPED, BACKEND_UNAVAILABLE
 */
export async function runEngineProcess(
  { purpose, jobFolder, resultFolder, script: other }: EngineRun,
  options: EngineProcessOptions,
): Promise<void> {
  if (options.signal?.aborted === true) throw stopped(purpose, "was stopped before it began");
  const script = other ?? join(options.engineFolder ?? builtInEngineFolder(), "engine.mjs");
  const child = startEngine({ script, args: [jobFolder, resultFolder] }, jobFolder, options.processLimitMb);
  const work = new EngineWork(child, purpose, options);
  try {
    for await (const line of child.lines) await work.take(line);
    await work.ended();
  } finally {
    work.close();
  }
}

export const stopped = (
  purpose: EngineRun["purpose"],
  how: string,
  details: Record<string, unknown> = {},
): StemmaError =>
  new StemmaError(
    "TRAINING_STOPPED",
    `The ${purpose} ${how}. It gave no result; start it again when it can run.`,
    details,
  );

/** True for the end of a training for which `onLoss` was asked. */
export const isEndedEarly = (error: unknown): boolean =>
  isStemmaError(error, "TRAINING_STOPPED") && error.details["isEndedEarly"] === true;

/** A process of the engine that was started. */
export interface EngineChild {
  readonly script: string;
  readonly process: ChildProcess;
  readonly exit: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  /** The end of its standard error so far. */
  readonly stderrTail: () => string;
  /** The lines of its standard output. */
  readonly lines: AsyncIterableIterator<string>;
}

/** @param limitMb as `processLimitMb` */
export function startEngine(
  { script, args = [] }: Pick<OwnPart, "script" | "args">,
  cwd: string,
  limitMb?: number,
): EngineChild {
  // Nothing of the caller's environment: NODE_OPTIONS and the like must not change what a training computes.
  const part = { script, args, nodeOptions: smallHeap };
  const started = limitMb === undefined ? ownPart(part) : limitedPart(part, limitMb);
  const child = spawn(started.program, [...started.args], {
    cwd,
    env: { ...smallMalloc, ...started.environment },
    stdio: ["pipe", "pipe", "pipe"],
  });
  // Written to after its end; that it ended is told otherwise.
  child.stdin.on("error", () => undefined);
  const exit = exitOf(child);
  exit.catch(() => undefined);
  return {
    script,
    process: child,
    exit,
    stderrTail: collectStderr(child),
    lines: createInterface({ input: child.stdout, crlfDelay: Infinity })[Symbol.asyncIterator](),
  };
}

/** One job of an engine's process, from what the process says. */
export class EngineWork {
  #failure: StemmaError | undefined;
  #refusal: { readonly error: unknown } | undefined;
  #isEndedEarly = false;
  #isOver = false;
  readonly #onAbort = (): void => {
    this.child.process.kill("SIGKILL");
  };

  constructor(
    private readonly child: EngineChild,
    private readonly purpose: EngineRun["purpose"],
    private readonly options: EngineProcessOptions,
  ) {
    options.signal?.addEventListener("abort", this.#onAbort, { once: true });
    // A signal that was aborted while the process started says nothing more.
    if (options.signal?.aborted === true) this.#onAbort();
  }

  /** Takes a line of the process. @returns true for a worker's word that the job is done */
  async take(line: string): Promise<boolean> {
    // The child did not wait for the answer to its plan.
    if (this.#refusal !== undefined) return false;
    const message = parseMessage(line);
    const type = message?.["type"];
    if (type === "progress") this.options.onProgress?.(message as unknown as TrainingProgress);
    if (type === "loss")
      this.options.onLoss?.(message as unknown as LossReport, () => {
        if (!this.#isOver) this.child.process.stdin?.write(endLine);
      });
    if (type === "ended") this.#isEndedEarly = true;
    if (type === "notice") this.options.onNotice?.(message as unknown as EngineNotice);
    if (type === "plan")
      try {
        await this.options.onPlan?.(message?.["planned"] as PlannedTraining);
      } catch (error) {
        this.#refusal = { error };
        this.child.process.kill("SIGKILL");
      }
    if (type === "error") {
      const code = String(message?.["code"]);
      this.#failure = new StemmaError(isErrorCode(code) ? code : "INTERNAL", String(message?.["message"]), {
        ...(message?.["details"] as Record<string, unknown> | undefined),
      });
    }
    return type === "done";
  }

  /** Call when the process has closed its output. @throws what went wrong with the job, if anything did */
  async ended(): Promise<void> {
    const { script, exit, stderrTail } = this.child;
    const { code, signal } = await exit;
    if (this.#refusal !== undefined) throw this.#refusal.error;
    if (this.options.signal?.aborted === true) throw stopped(this.purpose, "was stopped");
    if (this.#failure !== undefined) throw this.#failure;
    this.requireResult();
    if (code === 0) return;
    if (signal !== null) throw stopped(this.purpose, `was killed by ${signal}`, { signal });
    const stderr = stderrTail();
    if (/Cannot find module|ERR_MODULE_NOT_FOUND/.test(stderr))
      throw new StemmaError(
        "BACKEND_UNAVAILABLE",
        `The training engine is missing at ${script}. Build it with \`npm run build\`.`,
        { script },
      );
    throw stopped(this.purpose, `ended with status ${code} and the output: ${stderr.trim().slice(-400)}`, {
      code,
      stderr,
    });
  }

  /** @throws TRAINING_STOPPED where the training was ended early */
  requireResult(): void {
    if (this.#isEndedEarly) throw stopped(this.purpose, "was ended early", { isEndedEarly: true });
  }

  /** Ends the process where it runs yet. */
  close(): void {
    this.release();
    const { process: child } = this.child;
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
  }

  /** Lets the process go on with another job. */
  release(): void {
    this.#isOver = true;
    this.options.signal?.removeEventListener("abort", this.#onAbort);
  }
}

function exitOf(child: ChildProcess): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  return new Promise((resolveExit, reject) => {
    child.once("error", (cause) => {
      reject(
        new StemmaError(
          "BACKEND_UNAVAILABLE",
          `The training engine could not be started: ${cause.message}. Check that ${process.execPath} can run.`,
          { cause },
        ),
      );
    });
    child.once("close", (code, signal) => {
      resolveExit({ code, signal });
    });
  });
}

/** Collects the child's standard error; returns a function that gives the end of it. */
function collectStderr(child: ChildProcess): () => string {
  let text = "";
  child.stderr?.setEncoding("utf8").on("data", (part: string) => {
    text = (text + part).slice(-maxStderrCharacters);
  });
  return () => text;
}

/** A line as a message; undefined for anything else that a library prints. */
function parseMessage(line: string): Record<string, unknown> | undefined {
  if (line.length > maxLineCharacters) return undefined;
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
