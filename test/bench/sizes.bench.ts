/**
 * Whole homes of growing size: `stemma bench sizes [--versions 1000,10000] [--tensors 10] [--merged|--records]
 * [--skip COMMAND] [--keep FOLDER] [-o json]`. For each: a server's start and memory of its own, answers of that
 * server, commands without one, a save, the nearest ancestor, and the bytes of journal and index. A kept folder's homes
 * are used again; merged: one pack a line in place of one a version; records: journal and index alone. Asserts nothing.
 */
import { access, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { startServerProcess, type ServerProcess } from "../../server/cli/simulation/server-process.js";
import { openHome } from "../../server/storage/repository/home.js";
import { nodeHomePorts } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import { formatBytes, formatDuration } from "../../shared/cli/output.js";
import { renderTable } from "../../shared/cli/table.js";
import { denseChain, modelOf } from "../helpers/dense-chain.js";
import { bytesBelow } from "./bytes-below.js";
import { costOf } from "./command-cost.js";
import { grownFleet, growHome } from "./grown-home.js";
import { median, timed } from "./save-floors.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    versions: { type: "string", default: "1000,10000" },
    tensors: { type: "string", default: "10" },
    keep: { type: "string" },
    merged: { type: "boolean", default: false },
    records: { type: "boolean", default: false },
    skip: { type: "string", multiple: true, default: [] },
    quick: { type: "boolean", default: false },
  },
});
const sizes = options.quick ? [200, 2000] : options.versions.split(",").map(Number);
const tensors = Number(options.tensors);
const asked = options.quick ? 5 : 25;
const binary = join(resolve(dirname(fileURLToPath(import.meta.url)), "../../.."), "stemma");

/** What was measured, by its name; milliseconds unless the name says bytes or times. */
type Measured = Record<string, number>;

const commands: readonly string[] = [
  "model list --limit 20",
  "model show line-0",
  "model log line-0 --limit 20",
  "device list",
  "storage stats",
  "storage gc --dry-run",
];

/** Memory that no file backs, of a process. */
async function ownMemory(pid: number): Promise<number> {
  return Number(/^RssAnon:\s+(\d+)/mu.exec(await readFile(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024;
}

/** Middle of the times of one question. */
async function medianOf(ask: (round: number) => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < asked; round++) times.push(await timed(async () => void (await ask(round))));
  return median(times);
}

async function askServer(server: ServerProcess, size: number): Promise<Measured> {
  const { operations } = server;
  const fleet = grownFleet;
  const first = await timed(async () => void (await operations.listModels({ fleet, limit: 50 })));
  const nearestFirst = await timed(async () => void (await operations.nearest({ fleet, model: "line-0" })));
  return {
    "first page": first,
    "page of 50": await medianOf((round) =>
      operations.listModels({ fleet, limit: 50, offset: (round * 997) % Math.floor(size / 2) }),
    ),
    "page of devices": await medianOf(() => operations.devices({ fleet, limit: 50 })),
    "first nearest": nearestFirst,
    nearest: await medianOf(() => operations.nearest({ fleet, model: "line-0" })),
  };
}

/** Saves of new lines in this home and in an empty one, in turn: the middle of the times, and of their ratio. */
async function saves(path: string): Promise<{ readonly ms: number; readonly ofEmpty: number }> {
  const empty = await mkdtemp(join(tmpdir(), "stemma-bench-empty-"));
  const architecture = denseChain(tensors);
  const at = Date.now() % 1_000_000;
  const opened = await Promise.all(
    [path, empty].map(async (folder) => {
      const home = await openHome(folder, nodeHomePorts());
      return { home, repository: await openRepository(home, grownFleet) };
    }),
  );
  const times: number[][] = [[], []];
  // The first saves of a process wait for the compiler.
  for (let round = -asked; round < 2 * asked; round++)
    for (const [which, { repository }] of opened.entries()) {
      const model = modelOf(architecture, tensors, 1_000_000 + round + asked, at);
      const ms = await timed(async () => void (await repository.save(model, { name: `extra-${at}` })));
      if (round >= 0) times[which]?.push(ms);
    }
  for (const { home, repository } of opened) {
    await repository.close();
    await home.close();
  }
  await rm(empty, { recursive: true, force: true });
  const [here = 0, there = 0] = times.map(median);
  return { ms: here, ofEmpty: here / there };
}

/** Makes the home, and where that wrote no index, the index. */
async function grow(path: string, size: number, say: (text: string) => void): Promise<Measured> {
  say("saving");
  let told = 0;
  const home = {
    count: size,
    tensors,
    isMerged: options.merged,
    hasOnlyRecords: options.records,
    onSaved: (saved: number) => {
      if (saved < told + 100_000) return;
      told = saved;
      say(`${saved} saved`);
    },
  };
  const saving = (await timed(() => growHome(path, home))) / size;
  if (!options.records) return { "saving, each": saving };
  say("its index");
  const before = process.cpuUsage();
  const opened = await openHome(path, nodeHomePorts());
  await (await openRepository(opened, grownFleet)).close();
  await opened.close();
  const { user, system } = process.cpuUsage(before);
  return { "saving, each": saving, "index made, each, processor": (user + system) / 1000 / size };
}

async function measure(path: string, size: number): Promise<Measured> {
  const say = (text: string): void => void process.stderr.write(`${size} versions: ${text} …\n`);
  const isThere = await access(path).then(
    () => true,
    () => false,
  );
  const found: Measured = isThere ? {} : { ...(await grow(path, size, say)) };
  const fleetFolder = join(path, "fleets", grownFleet);
  const held =
    (await bytesBelow(join(fleetFolder, "journal"))) + (await bytesBelow(join(fleetFolder, "index")));
  found["journal and index Bytes, a version"] = held / size;
  say("a server");
  const startedMs = performance.now();
  const server = await startServerProcess(path, grownFleet);
  found["server ready"] = performance.now() - startedMs;
  found["server's memory Bytes"] = await ownMemory(server.pid);
  try {
    Object.assign(found, await askServer(server, size));
    found["server's memory afterwards Bytes"] = await ownMemory(server.pid);
  } finally {
    await server.kill("SIGTERM");
  }
  for (const command of commands) {
    if (options.skip.some((each) => command.startsWith(each))) continue;
    say(command);
    const { processorMs, residentBytes } = costOf([
      binary,
      ...command.split(" "),
      "--fleet",
      grownFleet,
      "--home",
      path,
    ]);
    found[`${command}, processor`] = processorMs;
    found[`${command}, memory Bytes`] = residentBytes;
  }
  say("saves");
  const { ms, ofEmpty } = await saves(path);
  found["a save"] = ms;
  found["a save, times one in an empty home"] = ofEmpty;
  return found;
}

const folder = options.keep ?? (await mkdtemp(join(tmpdir(), "stemma-bench-sizes-")));
try {
  const columns: Measured[] = [];
  for (const size of sizes) columns.push(await measure(join(folder, `${size}x${tensors}`), size));
  const bare = costOf(["-e", "0"]).processorMs;
  if (options.output === "json")
    process.stdout.write(`${JSON.stringify({ sizes, tensors, bareNodeMs: bare, columns })}\n`);
  else {
    const names = [...new Set(columns.flatMap((column) => Object.keys(column)))];
    const text = (name: string, value: number | undefined): string =>
      value === undefined
        ? ""
        : name.includes(", times ")
          ? value.toFixed(2)
          : name.endsWith("Bytes") || name.includes("Bytes,")
            ? formatBytes(value)
            : formatDuration(value);
    process.stdout.write(
      renderTable(names, [
        { title: "WHAT", value: (name) => name.replace(" Bytes", "") },
        ...sizes.map((size, at) => ({
          title: String(size),
          value: (name: string) => text(name, columns[at]?.[name]),
          align: "right" as const,
        })),
      ]),
    );
    process.stdout.write(`bare Node: ${formatDuration(bare)} of processor\n`);
  }
} finally {
  if (options.keep === undefined) await rm(folder, { recursive: true, force: true });
}
