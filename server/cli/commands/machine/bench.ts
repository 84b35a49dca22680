/**
 * `stemma bench`: runs the project's benchmarks (test/bench), each in its own process. They print ratios to a
 * floor that is measured in the same run.
 */
import { spawn } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { StemmaError } from "../../../../shared/errors.js";
import { withContext, type CommandContext } from "../../context.js";

const benchFolder = resolve(dirname(fileURLToPath(import.meta.url)), "../../../../test/bench");
const suffix = ".bench.js";

async function benchmarks(): Promise<string[]> {
  const names = await readdir(benchFolder).catch(() => [] as string[]);
  return names
    .filter((name) => name.endsWith(suffix))
    .map((name) => name.slice(0, -suffix.length))
    .sort();
}

interface BenchRequest {
  readonly name: string | undefined;
  /** Arguments that are passed on to the benchmark. */
  readonly passed: readonly string[];
  readonly quick: boolean;
}

export function define(command: Command): void {
  command
    .allowUnknownOption()
    .argument("[name]", "a benchmark, or all; without a name they are listed")
    .argument("[arguments...]", "passed on to the benchmark")
    .option("--quick", "fewer and smaller runs, whose figures are rough", false)
    .action(
      async (name: string | undefined, passed: string[], choices: { quick: boolean }, command: Command) =>
        withContext(command, (context) => benchCommand({ name, passed, quick: choices.quick }, context)),
    );
}

async function benchCommand(request: BenchRequest, context: CommandContext): Promise<void> {
  const known = await benchmarks();
  if (known.length === 0)
    throw new StemmaError(
      "NOT_FOUND",
      "This installation has no benchmarks; they are part of a checkout. Run it there.",
    );
  const { name } = request;
  if (name === undefined) {
    context.output.print({
      data: known,
      names: known,
      table: { rows: known, columns: [{ title: "BENCHMARK", value: (row) => row }] },
      text: "run one with: stemma bench NAME",
    });
    return;
  }
  if (name !== "all" && !known.includes(name))
    throw new StemmaError(
      "NOT_FOUND",
      `${name} is not the name of a benchmark. Use one of ${known.join(", ")}.`,
    );
  await runBenchmarks(name === "all" ? known : [name], request, context);
}

async function runBenchmarks(
  names: readonly string[],
  { name, passed, quick }: BenchRequest,
  { output, options, signal }: CommandContext,
): Promise<void> {
  const isForPrograms = options.output === "json" || options.output === "yaml";
  const args = [...passed, ...(quick ? ["--quick"] : []), ...(isForPrograms ? ["-o", "json"] : [])];
  const results: Record<string, unknown> = {};
  const printResults = (): void => {
    if (isForPrograms) output.print({ data: name === "all" ? results : results[names[0] ?? ""] });
  };
  const finished: string[] = [];
  for (const each of names) {
    if (name === "all") output.info(`== ${each}`);
    try {
      const printed = await runBenchmark(each, { args, isStreamed: !isForPrograms, signal });
      if (isForPrograms) results[each] = JSON.parse(printed) as unknown;
      finished.push(each);
    } catch (error) {
      if (signal.aborted && finished.length > 0) printResults();
      throw signal.aborted ? interrupted(each, finished) : error;
    }
  }
  printResults();
}

function interrupted(name: string, finished: readonly string[]): StemmaError {
  const partial =
    finished.length === 0
      ? "Figures above, if any, are not complete"
      : `The figures above are complete for ${finished.join(", ")} only`;
  return new StemmaError(
    "INTERRUPTED",
    `The benchmark ${name} was interrupted. ${partial}; run it again for all of them.`,
  );
}

interface BenchmarkRun {
  readonly args: readonly string[];
  /** True if its output is printed while it runs; otherwise it is only returned. */
  readonly isStreamed: boolean;
  readonly signal: AbortSignal;
}

/** @throws CHECK_FAILED where it fails or is interrupted */
async function runBenchmark(name: string, run: BenchmarkRun): Promise<string> {
  // An interrupted benchmark cannot remove its files, so they are in a folder that is removed here.
  const folder = await mkdtemp(join(tmpdir(), "stemma-bench-"));
  try {
    return await runBenchmarkIn(folder, name, run);
  } finally {
    // Processes that the benchmark started end after it, and may write until then.
    await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 300 });
  }
}

function runBenchmarkIn(
  folder: string,
  name: string,
  { args, isStreamed, signal }: BenchmarkRun,
): Promise<string> {
  return new Promise((resolvePrinted, reject) => {
    const child = spawn(process.execPath, ["--expose-gc", join(benchFolder, `${name}${suffix}`), ...args], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, TMPDIR: folder },
    });
    const stop = (): void => {
      child.kill("SIGKILL");
    };
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    let printed = "";
    child.stdout.on("data", (chunk: Buffer) => {
      if (isStreamed) process.stdout.write(chunk);
      else printed += chunk.toString("utf8");
    });
    child.on("error", reject);
    child.on("close", (code, killedBy) => {
      signal.removeEventListener("abort", stop);
      if (code === 0) resolvePrinted(printed);
      else
        reject(
          new StemmaError(
            "CHECK_FAILED",
            `The benchmark ${name} ended with ${killedBy ?? code}; its output is above. Run it alone with \`stemma bench ${name}\` to see more.`,
          ),
        );
    });
  });
}
