/**
 * A fleet with 20,000 versions beside one with a tenth of them: what commands cost a user, and how long a server
 * takes until it answers: `stemma bench versions [--quick] [-o json]`. Half of the versions are one chain, as of a
 * device that reports every hour for a year, each of them evaluated once; the others belong to 100 lines. Two more
 * fleets have as many devices and no versions. Each command runs in a process of its own. Asserts nothing.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { openLocalOperations } from "../../server/operations/local-operations.js";
import { openHome } from "../../server/storage/repository/home.js";
import { nodeHomePorts } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import type { FleetRepository } from "../../server/storage/repository/fleet-repository.js";
import { formatBytes, formatDuration } from "../../shared/cli/output.js";
import { renderTable } from "../../shared/cli/table.js";
import { unhashedOpaqueModel } from "../../shared/save/model-source.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { evaluationOf, predictionsOfOne } from "../helpers/evaluation-of.js";
import { withTokens } from "../helpers/home-with-tokens.js";
import { startServerProcess } from "../../server/cli/simulation/server-process.js";
import { costOf, type CommandCost } from "./command-cost.js";
import { median, timed } from "./save-floors.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    quick: { type: "boolean", default: false },
  },
});
const fleet = "bench";
const most = options.quick ? 2_000 : 20_000;
const runs = options.quick ? 1 : 3;
const lines = 100;
/** The long chain's. */
const evaluatedName = "long";

const commands: readonly (readonly string[])[] = [
  ["model", "list"],
  ["model", "list", "--offset", String(most / 20)],
  ["model", "log", "long"],
  ["model", "log", "long", "--graph"],
  ["model", "show", "long"],
  ["model", "diff", "long:1", "long"],
  ["model", "descendants", "long:1"],
  ["model", "verify", "long"],
  ["model", "evals"],
  ["storage", "stats"],
  ["storage", "gc", "--dry-run"],
  ["storage", "check"],
];

/** Of the fleets of devices. */
const deviceCommands: readonly (readonly string[])[] = [
  ["device", "list"],
  ["device", "list", "--limit", "50", "--offset", String(most / 20)],
  ["device", "list", "--select", "name=device-1*"],
  ["device", "show", "device-7"],
];

interface Row {
  readonly command: string;
  readonly few: CommandCost;
  readonly many: CommandCost;
}

/** Models of four small tensors; each version changes one of them. */
async function saveVersions(path: string, count: number): Promise<void> {
  const home = await openHome(path, nodeHomePorts());
  const repository = await openRepository(home, fleet);
  const perLine = Math.round(count / 2 / lines);
  await Promise.all([
    saveChain(repository, evaluatedName, count / 2),
    ...Array.from({ length: lines }, (_, line) => saveChain(repository, `line-${line}`, perLine)),
  ]);
  await repository.close();
  await home.close();
}

async function saveChain(repository: FleetRepository, name: string, count: number): Promise<void> {
  let base: Hash | undefined;
  for (let version = 0; version < count; version++) {
    const tensors = Array.from({ length: 4 }, (_, tensor) => {
      const changedBy = version - ((version - tensor) & 3);
      const text = `${name} ${tensor} ${Math.max(0, changedBy)}`.padEnd(256);
      return { name: `t${tensor}`, dtype: "U8" as const, shape: [256], bytes: Buffer.from(text) };
    });
    const { summary } = await repository.save(unhashedOpaqueModel(tensors), {
      name,
      ...(base === undefined ? {} : { bases: [base] }),
    });
    base = summary.versionId;
    if (name === evaluatedName)
      await repository.storeEvaluation(evaluationOf(summary, version), predictionsOfOne);
  }
}

/** Enrolled at the same moment, so that their facts share fsyncs. */
async function enrolDevices(path: string, count: number): Promise<void> {
  const operations = await openLocalOperations({ home: await withTokens(path) });
  const atOnce = 500;
  for (let from = 0; from < count; from += atOnce)
    await Promise.all(
      Array.from({ length: Math.min(atOnce, count - from) }, (_, index) =>
        operations.enroll({ fleet, device: `device-${from + index}`, lines: ["model"], profile: "generic" }),
      ),
    );
  await operations.close();
}

const binary = join(resolve(dirname(fileURLToPath(import.meta.url)), "../../.."), "stemma");

function run(home: string, args: readonly string[]): CommandCost {
  return costOf([binary, ...args, "--fleet", fleet, "--home", home], home);
}

function medianCost(costs: readonly CommandCost[]): CommandCost {
  const middle = (of: keyof CommandCost): number => median(costs.map((cost) => cost[of]));
  return {
    ms: middle("ms"),
    processorMs: middle("processorMs"),
    residentBytes: middle("residentBytes"),
    printedBytes: middle("printedBytes"),
  };
}

/** Milliseconds from the start of a server's process until it answers its first question about the models. */
async function startMs(home: string): Promise<number> {
  return await timed(async () => {
    const server = await startServerProcess(home, fleet);
    await server.operations.listModels({ fleet, limit: 1 });
    await server.kill("SIGTERM");
  });
}

const folder = await mkdtemp(join(tmpdir(), "stemma-bench-versions-"));
const say = (text: string): void => {
  if (options.output !== "json") process.stderr.write(`${text} …\n`);
};
try {
  const homes = { few: join(folder, "few"), many: join(folder, "many") };
  const ofDevices = { few: join(folder, "few-devices"), many: join(folder, "many-devices") };
  say(`saving ${most / 10} and ${most} versions`);
  const saveMs = {
    few: (await timed(() => saveVersions(homes.few, most / 10))) / (most / 10),
    many: (await timed(() => saveVersions(homes.many, most))) / most,
  };
  const measure = (home: string, args: readonly string[]): CommandCost =>
    medianCost(Array.from({ length: runs }, () => run(home, args)));
  const rows: Row[] = [];
  const measureRows = (of: Record<"few" | "many", string>, all: typeof commands): void => {
    for (const args of all) {
      say(args.join(" "));
      rows.push({ command: args.join(" "), few: measure(of.few, args), many: measure(of.many, args) });
    }
  };
  measureRows(homes, commands);
  say(`enrolling ${most / 10} and ${most} devices`);
  await enrolDevices(ofDevices.few, most / 10);
  await enrolDevices(ofDevices.many, most);
  measureRows(ofDevices, deviceCommands);
  const starts: Record<"few" | "many", number[]> = { few: [], many: [] };
  for (let round = 0; round < runs; round++)
    for (const which of ["few", "many"] as const) starts[which].push(await startMs(homes[which]));
  const started = { few: median(starts.few), many: median(starts.many) };
  if (options.output === "json")
    process.stdout.write(`${JSON.stringify({ versions: most, saveMs, rows, started })}\n`);
  else {
    const ms = (of: "few" | "many"): ((row: Row) => string) => {
      return (row) => formatDuration(row[of].ms);
    };
    process.stdout.write(
      [
        renderTable(rows, [
          { title: "COMMAND", value: ({ command }) => command },
          { title: (most / 10).toLocaleString("en"), value: ms("few"), align: "right" },
          { title: most.toLocaleString("en"), value: ms("many"), align: "right" },
          {
            title: "PROCESSOR",
            value: ({ few, many }) => `${(many.processorMs / few.processorMs).toFixed(1)} ×`,
            align: "right",
          },
          { title: "MEMORY", value: ({ many }) => formatBytes(many.residentBytes), align: "right" },
          { title: "PRINTS", value: ({ many }) => formatBytes(many.printedBytes), align: "right" },
        ]),
        "",
        `until a server answers, and has ended: ${formatDuration(started.few)}, ${formatDuration(started.many)}`,
        `a save: ${saveMs.few.toFixed(1)} ms, ${saveMs.many.toFixed(1)} ms`,
        "",
      ].join("\n"),
    );
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
