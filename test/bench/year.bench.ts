/**
 * A year of a fleet whose vehicles save once a day, simulated with a clock that is set on:
 * `stemma bench year [--vehicles 40] [--days 360] [--tensors 10] [--svg FILE] [-o json]`. Twice: with the retention
 * rule `30 days`, carried out and collected once a week, and with none. After each 30 days: versions that are kept,
 * bytes of the store, of journal and index, the start of a server and its memory. Asserts nothing.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startServerProcess } from "../../server/cli/simulation/server-process.js";
import { localOperations } from "../../server/operations/local-operations.js";
import { openFleets } from "../../server/services/context/open-fleets.js";
import { openHome } from "../../server/storage/repository/home.js";
import { nodeHomePorts } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import { formatBytes, formatDuration } from "../../shared/cli/output.js";
import { renderTable } from "../../shared/cli/table.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { denseChain, modelOf } from "../helpers/dense-chain.js";
import { bytesBelow } from "./bytes-below.js";
import { lineChart, type LinePanel } from "./line-chart.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    vehicles: { type: "string", default: "40" },
    days: { type: "string", default: "360" },
    tensors: { type: "string", default: "10" },
    svg: { type: "string" },
    quick: { type: "boolean", default: false },
  },
});
const vehicles = options.quick ? 4 : Number(options.vehicles);
const days = options.quick ? 90 : Number(options.days);
const tensors = Number(options.tensors);
const fleet = "year";
const rules = ["30 days", undefined] as const;
type Rule = (typeof rules)[number];
const nameOf = (rule: Rule): string => (rule === undefined ? "everything is kept" : `keep ${rule}`);
const dayMs = 86_400_000;
const monthDays = 30;
const weekDays = 7;
/** The year has ended by now, so that the server that is started afterwards trusts its clock. */
const startMs = Date.now() - (days + 1) * dayMs;

interface Month {
  readonly day: number;
  readonly saved: number;
  readonly kept: number;
  readonly storeBytes: number;
  /** The bytes of journal and index. */
  readonly indexBytes: number;
  readonly readyMs: number;
  /** Memory of the server that no file backs. */
  readonly memoryBytes: number;
}

/** The newest version of each vehicle. */
type Newest = Map<number, Hash>;

/** Saves a month's versions. @returns how many are kept at its end */
async function passMonth(path: string, rule: Rule, firstDay: number, newest: Newest): Promise<number> {
  let nowMs = startMs + firstDay * dayMs;
  const ports = nodeHomePorts();
  const home = await openHome(path, { ...ports, clock: { ...ports.clock, now: () => nowMs } });
  if (firstDay === 0) await (await openRepository(home, fleet)).close();
  const fleets = openFleets(home);
  try {
    const operations = localOperations({ home, fleets, version: "bench" });
    const repository = await fleets.get(fleet);
    if (firstDay === 0 && rule !== undefined)
      await operations.setRetention({ fleet, scope: { of: "fleet" }, rule });
    const architecture = denseChain(tensors);
    const save = async (vehicle: number, day: number): Promise<void> => {
      const base = newest.get(vehicle);
      const { summary } = await repository.save(modelOf(architecture, tensors, vehicle, day), {
        name: `vehicle-${vehicle}`,
        ...(base === undefined ? {} : { bases: [base] }),
      });
      newest.set(vehicle, summary.versionId);
      await repository.confirmStored(summary.versionId);
      await repository.release(summary.versionId, "the server read it back");
    };
    for (let day = firstDay; day < Math.min(days, firstDay + monthDays); day++, nowMs += dayMs) {
      await Promise.all(Array.from({ length: vehicles }, (_, vehicle) => save(vehicle, day)));
      if (rule !== undefined && (day + 1) % weekDays === 0)
        await operations.applyRetention({ fleet, collect: true });
    }
    return repository.versions().length;
  } finally {
    await fleets.close();
    await home.close();
  }
}

async function measure(path: string, day: number, kept: number): Promise<Month> {
  const folder = join(path, "fleets", fleet);
  const storeBytes = await bytesBelow(join(folder, "packs"));
  const indexBytes = (await bytesBelow(join(folder, "journal"))) + (await bytesBelow(join(folder, "index")));
  const startedMs = performance.now();
  const server = await startServerProcess(path, fleet);
  const readyMs = performance.now() - startedMs;
  const status = await readFile(`/proc/${server.pid}/status`, "utf8");
  const memoryBytes = Number(/^RssAnon:\s+(\d+)/mu.exec(status)?.[1]) * 1024;
  await server.kill("SIGTERM");
  return { day, saved: day * vehicles, kept, storeBytes, indexBytes, readyMs, memoryBytes };
}

async function passYear(path: string, rule: Rule): Promise<readonly Month[]> {
  const newest: Newest = new Map();
  const months: Month[] = [];
  for (let day = 0; day < days; day += monthDays) {
    const kept = await passMonth(path, rule, day, newest);
    const month = await measure(path, Math.min(days, day + monthDays), kept);
    months.push(month);
    process.stderr.write(`${nameOf(rule)}, day ${month.day}: ${kept} of ${month.saved} versions …\n`);
  }
  return months;
}

interface Year {
  readonly rule: Rule;
  readonly months: readonly Month[];
}

function chartOf(years: readonly Year[]): string {
  const panel = (title: string, yAxis: string, value: (month: Month) => number): LinePanel => ({
    ...{ title, xAxis: "days", yAxis },
    lines: years.map(({ rule, months }) => ({
      name: nameOf(rule),
      points: months.map((month) => ({ x: month.day, y: value(month) })),
    })),
  });
  return lineChart(`${vehicles} vehicles that save once a day`, [
    panel("Store", "MB", ({ storeBytes }) => storeBytes / 1e6),
    panel("Journal and index", "MB", ({ indexBytes }) => indexBytes / 1e6),
    panel("A server's start", "s", ({ readyMs }) => readyMs / 1000),
    panel("A server's own memory", "MB", ({ memoryBytes }) => memoryBytes / 1e6),
  ]);
}

const folder = await mkdtemp(join(tmpdir(), "stemma-bench-year-"));
try {
  const years: Year[] = [];
  for (const [i, rule] of rules.entries())
    years.push({ rule, months: await passYear(join(folder, String(i)), rule) });
  if (options.svg !== undefined) await writeFile(options.svg, chartOf(years));
  if (options.output === "json") process.stdout.write(`${JSON.stringify({ vehicles, tensors, years })}\n`);
  else
    process.stdout.write(
      renderTable(
        years.flatMap(({ rule, months }) => months.map((month) => ({ rule, ...month }))),
        [
          { title: "RULE", value: ({ rule }) => rule ?? "none" },
          { title: "DAY", value: ({ day }) => String(day), align: "right" },
          { title: "SAVED", value: ({ saved }) => String(saved), align: "right" },
          { title: "KEPT", value: ({ kept }) => String(kept), align: "right" },
          { title: "STORE", value: ({ storeBytes }) => formatBytes(storeBytes), align: "right" },
          { title: "INDEX", value: ({ indexBytes }) => formatBytes(indexBytes), align: "right" },
          { title: "READY", value: ({ readyMs }) => formatDuration(readyMs), align: "right" },
          { title: "MEMORY", value: ({ memoryBytes }) => formatBytes(memoryBytes), align: "right" },
        ],
      ),
    );
} finally {
  await rm(folder, { recursive: true, force: true });
}
