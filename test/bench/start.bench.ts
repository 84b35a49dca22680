/**
 * How long short commands take to start: `stemma bench start [--quick] [-o json]`. Each command and a bare Node
 * that does nothing run in turn, in processes of their own; the ratio is of their medians. Asserts nothing.
 */
import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { formatDuration } from "../../shared/cli/output.js";
import { renderTable } from "../../shared/cli/table.js";
import { median } from "./save-floors.js";

interface Result {
  readonly command: string;
  readonly ms: number;
  /** Milliseconds as a multiple of a bare Node's. */
  readonly ratio: number;
}

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const args = process.argv.slice(2);
const runs = args.includes("--quick") ? 5 : 25;

/** Milliseconds from spawning the process to its end. */
function run(commandArgs: readonly string[]): number {
  const startedMs = performance.now();
  spawnSync(process.execPath, commandArgs, { cwd: root, stdio: "ignore" });
  return performance.now() - startedMs;
}

const home = await mkdtemp(join(tmpdir(), "stemma-bench-start-"));
try {
  const binary = join(root, "stemma");
  // A fleet to show: without one the commands end before they read it.
  spawnSync(process.execPath, [binary, "device", "enroll", "d", "--line", "l", "--home", home], {
    cwd: home,
    stdio: "ignore",
  });
  const commands = [
    { command: "node (bare)", commandArgs: ["-e", "0"] },
    { command: "stemma --version", commandArgs: [binary, "--version"] },
    { command: "stemma --help", commandArgs: [binary, "--help"] },
    { command: "stemma model --help", commandArgs: [binary, "model", "--help"] },
    ...["model list", "storage stats", "device list"].map((words) => ({
      command: `stemma ${words}`,
      commandArgs: [binary, ...words.split(" "), "--home", home],
    })),
    { command: "stemma agent --help", commandArgs: [binary, "agent", "--help"] },
  ];
  const times = commands.map(() => [] as number[]);
  for (let round = 0; round <= runs; round++)
    commands.forEach(({ commandArgs }, index) => {
      const ms = run(commandArgs);
      // The first round builds what is stale and fills the disk's cache.
      if (round > 0) times[index]!.push(ms);
    });
  const bareMs = median(times[0]!);
  const results = commands.map<Result>(({ command }, index) => {
    const ms = median(times[index]!);
    return { command, ms, ratio: ms / bareMs };
  });
  process.stdout.write(
    args.includes("json")
      ? `${JSON.stringify({ runs, results })}\n`
      : renderTable(results, [
          { title: "COMMAND", value: (row) => row.command },
          { title: "MEDIAN", value: (row) => formatDuration(row.ms), align: "right" },
          { title: "TIMES BARE NODE", value: (row) => row.ratio.toFixed(2), align: "right" },
        ]),
  );
} finally {
  await rm(home, { recursive: true, force: true });
}
