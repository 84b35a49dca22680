/**
 * Runs the engine's jobs one after the other in one process. Its text is put behind the engine's own
 * (engine-worker.ts), so it imports nothing and refers to nothing outside itself.
 */
import type * as Readline from "node:readline";
import type * as Stream from "node:stream";

/** A job as a worker's standard input has it, a line each. */
export interface WorkerJob {
  readonly jobFolder: string;
  readonly resultFolder: string;
}

/** A line that asks for the end of the running job, if one runs. */
export const endLine = '{"end":true}\n';

/**
 * The engine looks at its arguments and closes its standard input when it has ended, so both are put in place for each
 * job. A job that failed has not closed what it opened: the process ends with it, and the next job has another one.
 * @param runEngine what the engine does as a process
 */
export async function runWorkerLoop(
  runEngine: () => Promise<void>,
  { createInterface }: typeof Readline,
  { PassThrough }: typeof Stream,
): Promise<void> {
  const jobs = process.stdin;
  // It never outlives the process that started it.
  jobs.on("end", () => process.exit(3)).on("error", () => process.exit(3));
  let running: Stream.PassThrough | undefined;
  createInterface({ input: jobs }).on("line", (line) => {
    const job = JSON.parse(line) as WorkerJob | { readonly end: true };
    // The end may be asked for of a job that has just ended.
    if ("end" in job) running?.write(line);
    else void run(job);
  });
  async function run({ jobFolder, resultFolder }: WorkerJob): Promise<void> {
    running = new PassThrough();
    process.argv.splice(2, Infinity, jobFolder, resultFolder);
    process.chdir(jobFolder);
    Object.defineProperty(process, "stdin", { value: running, configurable: true });
    await runEngine();
    if (process.exitCode !== undefined) process.exit();
    running = undefined;
    process.stdout.write('{"type":"done"}\n');
  }
  await new Promise<never>(() => undefined);
}
