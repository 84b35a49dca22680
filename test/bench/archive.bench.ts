/**
 * Time to retrieve a snapshot from a store on disk under three plans (everything materialised, least storage,
 * planned with α = 1.6), complete and by the highest two bytes and the highest byte of every number, under
 * three retrieval schemes (ModelHub's table V). `stemma bench archive [--committed] [--quick] [-o json]`.
 *
 * Repositories are generated with parameters: one like the paper's SD, whose trainings mostly move weights
 * far, and one like the fine-tunes measured elsewhere. They are saved, planned and applied in byte planes as
 * `storage plan --layout planes` and `storage apply` do, then read from a newly opened store out of the
 * operating system's cache. Times are processor time; "wall" is elapsed time. Every time is also given as a
 * multiple of the materialised plan's complete retrieval under the same scheme in the same run, best of
 * STEMMA_BENCH_ROUNDS (2) rounds. Asserts nothing.
 *
 * independent: the path of every tensor retraced, one after the other; parallel: the longest path of the
 * snapshot (the paper's definition); wall: all tensors requested concurrently, in this one process; reusable:
 * one after the other with shared work done once (the store's cache of decoded tensors, its default size).
 *
 * With --committed instead: small repositories like SD (--versions 54: all its versions) and RD, made and archived by a
 * model repository's own commands (committed-repositories.ts), beside the paper's figures.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openArchive, type Archive } from "../../server/storage/archive/archive.js";
import { openNodeHome } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import type { FleetRepository } from "../../server/storage/repository/fleet-repository.js";
import { nodeClock } from "../../shared/adapters/node-ports.js";
import { renderTable } from "../../shared/cli/table.js";
import { StemmaError } from "../../shared/errors.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import { opaqueModelSource } from "../../shared/save/model-source.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { generateModels } from "../helpers/generated-models.js";
import { sdLike, type RepositoryOptions } from "../helpers/generated-repository.js";
import { committedTables } from "./committed-report.js";
import { benchCommitted, committedOptions } from "./committed-repositories.js";
import { machineLine } from "./machine.js";
import {
  mean,
  measure,
  readBytesPerSecond,
  sampleOf,
  sum,
  type Snapshot,
  type Times,
} from "./retrieval-times.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    quick: { type: "boolean", default: false },
    committed: { type: "boolean", default: false },
    versions: { type: "string", default: "12" },
  },
});
const rounds = Number(process.env["STEMMA_BENCH_ROUNDS"] ?? (options.quick ? 1 : 2));
const size = options.quick
  ? { versions: 3, checkpoints: 3, snapshotBytes: 1e6 }
  : { versions: 4, checkpoints: 6, snapshotBytes: 16e6 };
/** Deltas of 19 bits are what 200 steps of SGD left (docs/performance.md); SD's own deltas hardly save bytes. */
const repositories: Readonly<Record<string, RepositoryOptions>> = {
  "like SD": { ...sdLike, ...size },
  "like fine-tunes": { ...sdLike, ...size, deltaBits: 19, rateBits: 2, frozenShare: 0.5 },
};
const plans = [
  { plan: "materialised", ratio: 1 },
  { plan: "least storage (MST)", ratio: null },
  { plan: "planned, α = 1.6", ratio: 1.6 },
] as const;
const queries = [
  { query: "full", planes: 4 },
  { query: "2 bytes", planes: 2 },
  { query: "1 byte", planes: 1 },
] as const;
async function fill(repository: FleetRepository, generated: RepositoryOptions): Promise<readonly Snapshot[]> {
  const versions = new Map<string, Hash>();
  for (const { id, base, tensors } of generateModels(generated)) {
    const report = await repository.save(opaqueModelSource(tensors), {
      name: id.split("/")[0]!,
      ...(base === undefined ? {} : { bases: [versions.get(base)!] }),
    });
    versions.set(id, report.summary.versionId);
  }
  return await Promise.all(
    [...versions.values()].map(async (version) => [
      ...new Set((await repository.leaves(version)).map(({ tensor }) => tensor)),
    ]),
  );
}

/** Plans and applies on the repository of a home, then closes it. */
async function planAndApply(
  path: string,
  archive: Archive,
  ratio: number | null,
): Promise<{
  readonly storedBytes: number;
  readonly predictedBytes: number;
  readonly predictedMs: number;
  readonly deepest: number;
}> {
  const home = await openNodeHome(path);
  const repository = await openRepository(home, "local");
  try {
    const plan = await archive.plan(repository, {
      ratio,
      layout: "planes",
      scheme: "independent",
      readBytesPerSecond,
    });
    const report = await archive.apply(repository, plan, { pauseMs: 0 });
    if (report.stopped !== null || report.failed.length > 0 || report.left > 0)
      throw new StemmaError(
        "INTERNAL",
        `The plan was not applied completely: ${JSON.stringify({ stopped: report.stopped, failed: report.failed.slice(0, 3), left: report.left })}.`,
      );
    const deepest = Math.max(
      ...plan.plan.vertices.map(({ vertex }) => repository.objects.encodingOf(vertex as Hash)?.depth ?? 0),
    );
    return {
      storedBytes: report.bytesReached,
      predictedBytes: plan.plan.storageCost,
      predictedMs: plan.summary.planned.meanUs / 1000,
      deepest,
    };
  } finally {
    await repository.close();
    await home.close();
  }
}

async function benchRepository(
  name: string,
  generated: RepositoryOptions,
  folder: string,
): Promise<Record<string, unknown> & { readonly rows: readonly Row[] }> {
  const path = join(folder, name.replaceAll(" ", "-"));
  const packs = join(path, "fleets", "local", "packs");
  const home = await openNodeHome(path);
  const repository = await openRepository(home, "local");
  const snapshots = await fill(repository, generated);
  const tensors = [...new Set(snapshots.flat())];
  const rawBytes = sum(tensors.map((id) => repository.objects.stat(id)!.byteLength));
  const snapshotBytes = mean(
    sampleOf(snapshots).map((own) => sum(own.map((id) => repository.objects.stat(id)!.byteLength))),
  );
  await repository.close();
  await home.close();
  const sample = sampleOf(snapshots);
  const raw = await measure(packs, sample, { planes: 4, rounds });
  const archive = openArchive({
    clock: nodeClock(),
    files: nodeFiles(),
    workFolder: () => Promise.resolve(folder),
    ratesPath: join(folder, "rates"),
    machine: "this one",
    freeBytes: () => Promise.resolve(Number.POSITIVE_INFINITY),
  });
  const rows: Row[] = [
    {
      plan: "raw, as saved",
      query: "full",
      storedBytes: rawBytes,
      storedOfRaw: 1,
      storedOfMaterialised: Number.NaN,
      deepest: 0,
      ...raw,
    },
  ];
  for (const { plan, ratio } of plans) {
    const stored = await planAndApply(path, archive, ratio);
    for (const { query, planes } of queries) {
      const times = await measure(packs, sample, { planes, rounds });
      rows.push({
        plan,
        query,
        storedBytes: stored.storedBytes,
        storedOfRaw: stored.storedBytes / rawBytes,
        storedOfMaterialised: Number.NaN,
        deepest: stored.deepest,
        predictedBytes: stored.predictedBytes,
        predictedMs: stored.predictedMs,
        ...times,
      });
    }
  }
  const floor = rows.find(({ plan }) => plan === "materialised")!;
  const ratios = rows.map((row) => ({
    ...row,
    storedOfMaterialised: row.storedBytes / floor.storedBytes,
    readOfRaw: row.readBytes / snapshotBytes,
    independent: row.independentMs / floor.independentMs,
    parallel: row.parallelMs / floor.parallelMs,
    wall: row.wallMs / floor.wallMs,
    reusable: row.reusableMs / floor.reusableMs,
  }));
  return {
    name,
    versions: generated.versions + 1,
    snapshots: snapshots.length,
    tensors: tensors.length,
    rawBytes,
    snapshotBytes,
    rows: ratios,
  };
}

interface Row extends Times {
  readonly plan: string;
  readonly query: string;
  readonly storedBytes: number;
  readonly storedOfRaw: number;
  readonly storedOfMaterialised: number;
  readonly deepest: number;
  readonly predictedBytes?: number;
  readonly predictedMs?: number;
  readonly readOfRaw?: number;
  readonly independent?: number;
  readonly parallel?: number;
  readonly wall?: number;
  readonly reusable?: number;
}

async function benchTimes(folder: string): Promise<void> {
  const results = [];
  for (const [name, generated] of Object.entries(repositories))
    results.push(await benchRepository(name, generated, folder));
  if (options.output === "json")
    process.stdout.write(`${JSON.stringify({ bench: "archive", rounds, results }, undefined, 2)}\n`);
  else
    for (const { name, snapshots, tensors, rawBytes, rows } of results) {
      const cell = (ms: number, ratio: number | undefined): string =>
        `${ms.toFixed(1)} (${(ratio ?? Number.NaN).toFixed(2)})`;
      process.stdout.write(
        `\n${String(name)}: ${String(snapshots)} snapshots, ${String(tensors)} tensors, ${((rawBytes as number) / 1e6).toFixed(0)} MB raw. Mean ms a snapshot (times materialised, full)\n`,
      );
      process.stdout.write(
        `${renderTable(rows, [
          { title: "PLAN", value: (row) => row.plan },
          { title: "QUERY", value: (row) => row.query },
          { title: "STORED OF RAW", value: (row) => row.storedOfRaw.toFixed(3), align: "right" },
          { title: "READ OF RAW", value: (row) => row.readOfRaw!.toFixed(3), align: "right" },
          { title: "INDEPENDENT", value: (row) => cell(row.independentMs, row.independent), align: "right" },
          { title: "PARALLEL", value: (row) => cell(row.parallelMs, row.parallel), align: "right" },
          { title: "WALL", value: (row) => cell(row.wallMs, row.wall), align: "right" },
          { title: "REUSABLE", value: (row) => cell(row.reusableMs, row.reusable), align: "right" },
          { title: "DEEPEST", value: (row) => row.deepest, align: "right" },
        ])}\n`,
      );
    }
}

async function benchAllCommitted(folder: string): Promise<void> {
  const results = [];
  const versions = Number(options.versions);
  if (!Number.isInteger(versions) || versions < 1 || versions > 1000)
    throw new StemmaError("USAGE", "--versions takes a whole number from 1 to 1000.");
  for (const [name, generated] of committedOptions({ isQuick: options.quick, versions }))
    results.push(
      await benchCommitted(name, generated, { folder: join(folder, "committed"), rounds: 4 * rounds }),
    );
  process.stdout.write(
    options.output === "json"
      ? `${JSON.stringify({ bench: "archive", machine: machineLine(), results }, undefined, 2)}\n`
      : `${committedTables(results)}\n${machineLine()}\n`,
  );
}

const folder = await mkdtemp(join(process.env["STEMMA_BENCH_FOLDER"] ?? tmpdir(), "stemma-bench-"));
try {
  if (options.committed) await benchAllCommitted(folder);
  else await benchTimes(folder);
} finally {
  await rm(folder, { recursive: true, force: true });
}
