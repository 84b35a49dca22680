/**
 * `stemma bench`: runs the project's benchmarks (test/bench), each in its own process. They print ratios to a
 * floor that is measured in the same run.
 */
import { spawn } from "node:child_process";
import { readdir } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { withContext } from "../context.js";

const benchFolder = resolve(dirname(fileURLToPath(import.meta.url)), "../../../test/bench");
const suffix = ".bench.js";

async function benchmarks(): Promise<string[]> {
  const names = await readdir(benchFolder).catch(() => [] as string[]);
  return names
    .filter((name) => name.endsWith(suffix))
    .map((name) => name.slice(0, -suffix.length))
    .sort();
}

export function addBenchCommand(program: Command): void {
  program
    .command("bench")
    .allowUnknownOption()
    .argument("[name]", "a benchmark, or all; without a name they are listed")
    .argument("[arguments...]", "passed on to the benchmark")
    .option("--quick", "fewer and smaller runs", false)
    .description(
      "measure this machine: ratios against a floor taken in the same run (times alone mean little)",
    )
    .action(
      async (name: string | undefined, passed: string[], choices: { quick: boolean }, command: Command) =>
        withContext(command, async ({ output, options, signal }) => {
          const known = await benchmarks();
          if (known.length === 0)
            throw new StemmaError(
              "NOT_FOUND",
              "This installation has no benchmarks; they are part of a checkout. Run it there.",
            );
          if (name === undefined) {
            output.print({
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
              `There is no benchmark with the name ${name}. Use one of ${known.join(", ")}.`,
            );
          const results: Record<string, unknown> = {};
          for (const each of name === "all" ? known : [name]) {
            if (name === "all") output.info(`== ${each}`);
            const args = [
              ...passed,
              ...(choices.quick ? ["--quick"] : []),
              ...(options.output === "json" || options.output === "yaml" ? ["-o", "json"] : []),
            ];
            const printed = await runBenchmark(join(benchFolder, `${each}${suffix}`), args, signal);
            if (options.output === "json" || options.output === "yaml")
              results[each] = JSON.parse(printed) as unknown;
            else process.stdout.write(printed);
          }
          if (options.output === "json" || options.output === "yaml")
            output.print({ data: name === "all" ? results : results[name] });
        }),
    );
}

async function runBenchmark(path: string, args: readonly string[], signal: AbortSignal): Promise<string> {
  return new Promise((resolvePrinted, reject) => {
    const child = spawn(process.execPath, ["--expose-gc", path, ...args], {
      stdio: ["ignore", "pipe", "inherit"],
      signal,
    });
    let printed = "";
    child.stdout.on("data", (chunk: Buffer) => {
      printed += chunk.toString("utf8");
    });
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolvePrinted(printed);
      else
        reject(
          new StemmaError("CHECK_FAILED", `The benchmark ${path} ended with ${code}; its output is above.`),
        );
    });
  });
}
