/**
 * A process of the engine that runs many jobs, one after the other: what starts with a process (Node, the engine's
 * code, its first compilation) is paid once. It runs the engine's own file but for its last statement, which starts a
 * single job; every job has a backend, memory and random streams of its own, so its bits are those of a process of its
 * own.
 */
import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { StemmaError } from "../errors.js";
import { builtInEngineFolder } from "./engine-folder.js";
import { engineFiles } from "./engine-id.js";
import {
  EngineWork,
  startEngine,
  stopped,
  type EngineChild,
  type EngineProcessOptions,
} from "./engine-process.js";
import { runWorkerLoop, type WorkerJob } from "./worker-loop.js";

/** The engine's last statement: it is a member's worker, or runs one job. */
const lastStatement = /([\w$]+)\(\)\?await ([\w$]+)\(\):await ([\w$]+)\(\);\s*$/;
const scriptName = "worker.mjs";

/** The engine's file with the loop as its last statement. @throws INTERNAL where it does not end as expected */
export function workerScript(engine: string): string {
  const last = lastStatement.exec(engine);
  if (last === null)
    throw new StemmaError("INTERNAL", "The training engine does not end as a worker needs it. Report this.");
  const [, isMember = "", runMember = "", runEngine = ""] = last;
  const modules = `await import("node:readline"),await import("node:stream")`;
  return `${engine.slice(0, last.index)}${isMember}()?await ${runMember}():await(${runWorkerLoop.toString()})(${runEngine},${modules});\n`;
}

/** One process at a time, started when a job comes. A job that fails, or is aborted, ends its process. */
export class EngineWorker {
  readonly #folder: string;
  #prepared: Promise<string> | undefined;
  #idle: EngineChild | undefined;

  /** @param folder of its own: a copy of the engine's files is put there, and removed when it is closed */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * Runs a training, or an evaluation of a model. One at a time.
   * @throws as runEngineProcess
   */
  async run({ jobFolder, resultFolder }: WorkerJob, options: EngineProcessOptions): Promise<void> {
    const isAborted = (): boolean => options.signal?.aborted === true;
    if (isAborted()) throw stopped("training", "was stopped before it began");
    const child = this.#idle ?? (await this.#start());
    this.#idle = undefined;
    const work = new EngineWork(child, "training", options);
    try {
      child.process.stdin?.write(`${JSON.stringify({ jobFolder, resultFolder })}\n`);
      for (;;) {
        const line = await child.lines.next();
        if (line.done === true) {
          await work.ended();
          throw stopped("training", "ended without a result", { code: 0 });
        }
        if (await work.take(line.value)) break;
      }
      if (isAborted()) throw stopped("training", "was stopped");
      work.release();
      this.#idle = child;
      work.requireResult();
    } finally {
      if (this.#idle !== child) work.close();
    }
  }

  async close(): Promise<void> {
    this.#idle?.process.kill("SIGKILL");
    this.#idle = undefined;
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #start(): Promise<EngineChild> {
    this.#prepared ??= this.#prepare();
    return startEngine({ script: await this.#prepared }, this.#folder);
  }

  async #prepare(): Promise<string> {
    const from = builtInEngineFolder();
    // A process that was killed may have left its own.
    await rm(this.#folder, { recursive: true, force: true });
    await mkdir(this.#folder, { recursive: true });
    for (const name of engineFiles) await copyFile(join(from, name), join(this.#folder, name));
    const script = join(this.#folder, scriptName);
    await writeFile(script, workerScript(await readFile(join(this.#folder, "engine.mjs"), "utf8")));
    return script;
  }
}
