/**
 * Repositories with parameters like ModelHub's SD and RD (MH11), scaled down, kept as a modeller keeps them: `stemma
 * add` and `commit` make one version of each training, with its snapshots as checkpoints; `stemma archive` applies
 * three plans in byte planes, and after each of them `stemma model recover` gives every snapshot back, whose bytes are
 * compared with the committed file's. The commands run in this process, in the repository's folder.
 */
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { StorageApplied } from "../../server/interface/api/stores/planning-schemas.js";
import type { ArchivePlan } from "../../server/storage/archive/archive-plan.js";
import { shortestPathTree } from "../../server/storage/planner/shortest-path-tree.js";
import { StorageTree } from "../../server/storage/planner/storage-tree.js";
import { StemmaError } from "../../shared/errors.js";
import { safetensorsChunks } from "../../shared/tensor/safetensors.js";
import { sourceOfTensor, type Hash } from "../../shared/tensor/tensor.js";
import { collectBytes } from "../helpers/agent-fixtures.js";
import { generateModels, type GeneratedModel } from "../helpers/generated-models.js";
import {
  generateRepository,
  rdLike,
  sdLike,
  type RepositoryOptions,
} from "../helpers/generated-repository.js";
import { planStorage } from "../helpers/plan-storage.js";
import { runStemmaWith } from "../helpers/run-stemma-here.js";
import {
  bytesOfPaths,
  measure,
  readBytesPerSecond,
  sampleOf,
  sum,
  type Snapshot,
} from "./retrieval-times.js";

/** The budgets of MST and of the paper's plan, after that of SPT, which the others are compared with. */
const budgets = { materialised: "1x", leastStorage: "none", planned: "1.6x" } as const;
type Plan = keyof typeof budgets;

interface Archived {
  /** Bytes of all tensors, equal ones once. */
  readonly storedBytes: number;
  /** Stored bytes from which all snapshots are decoded, every tensor's path in turn: equal tensors each time. */
  readonly readBytes: number;
  /** Mean processor times of a snapshot, of several over the history. */
  readonly independentMs: number;
  readonly parallelMs: number;
}
export interface CommittedRepository extends Readonly<Record<Plan, Archived>> {
  readonly name: string;
  readonly versions: number;
  readonly snapshots: number;
  /** Bytes of all snapshots, in memory. */
  readonly rawBytes: number;
  /** Stored bytes by the storage graph of the same options, as multiples of its SPT. */
  readonly graph: { readonly leastStorage: number; readonly planned: number };
}

/**
 * SD with fewer versions and small tensors, RD with 12 of 54 of its versions (but at least 2). Each version has as many
 * snapshots as in full: with fewer the steps between them would be larger, and the differences with them.
 * @param versions of SD, besides the imported one
 */
export function committedOptions({
  isQuick,
  versions,
}: {
  readonly isQuick: boolean;
  readonly versions: number;
}): ReadonlyMap<string, RepositoryOptions> {
  const small = (options: RepositoryOptions): RepositoryOptions => ({
    ...options,
    ...(isQuick
      ? { versions: 2, checkpoints: Math.min(3, options.checkpoints), snapshotBytes: 100e3 }
      : { snapshotBytes: 200e3 }),
  });
  const share = 12 / sdLike.versions;
  // "slow decoding" has SD's parameters: only its modelled rates differ, and rates are measured here.
  const rd = Object.entries(rdLike).filter(([name]) => name !== "slow decoding");
  return new Map([
    ["like SD", small({ ...sdLike, versions })],
    ...rd.map(
      ([name, each]) =>
        [name, small({ ...each, versions: Math.max(2, Math.round(each.versions * share)) })] as const,
    ),
  ]);
}

/** A snapshot by how commands name it, and the file that was committed. */
interface CommittedSnapshot {
  readonly model: string;
  /** Undefined: the model itself, which is the last snapshot of its version. */
  readonly checkpoint: number | undefined;
  /** Bytes of its tensors, without the file's header. */
  readonly byteLength: number;
  readonly sha256: string;
}

/** @throws INTERNAL where a command fails, or a snapshot comes back with other bytes */
export async function benchCommitted(
  name: string,
  options: RepositoryOptions,
  { folder, rounds }: { readonly folder: string; readonly rounds: number },
): Promise<CommittedRepository> {
  const before = process.cwd();
  await mkdir(folder);
  process.chdir(folder);
  try {
    const committed = await commitAll(options);
    const archived = async (plan: Plan): Promise<Archived> => {
      const { made, applied } = await archive(plan);
      requireAll(committed, made, applied);
      for (const snapshot of committed) await recover(snapshot);
      const packs = join(folder, ".stemma/fleets/local/packs");
      const snapshots = snapshotsOf(made);
      const times = await measure(packs, sampleOf(snapshots), { planes: 4, rounds });
      return {
        storedBytes: applied.report.bytesReached,
        readBytes: await bytesOfPaths(packs, snapshots),
        independentMs: times.independentMs,
        parallelMs: times.parallelMs,
      };
    };
    return {
      name,
      versions: options.versions + 1,
      snapshots: committed.length,
      rawBytes: sum(committed.map(({ byteLength }) => byteLength)),
      graph: storageByGraph(options),
      materialised: await archived("materialised"),
      leastStorage: await archived("leastStorage"),
      planned: await archived("planned"),
    };
  } finally {
    process.chdir(before);
    await rm(folder, { recursive: true, force: true });
  }
}

function storageByGraph(options: RepositoryOptions): CommittedRepository["graph"] {
  const graph = generateRepository(options);
  const materialised = new StorageTree(graph, shortestPathTree(graph)).storageCost;
  const planned = planStorage(graph, { ratio: 1.6 }, { scheme: "independent", effort: 4e6 });
  return {
    leastStorage: planned.leastStorageCost / materialised,
    planned: planned.storageCost / materialised,
  };
}

/** Commits every version, each from the version that its training started from. */
async function commitAll(options: RepositoryOptions): Promise<readonly CommittedSnapshot[]> {
  await run("init");
  const committed: CommittedSnapshot[] = [];
  for (const { name, parent, snapshots } of trainings(options)) {
    const files: string[] = [];
    for (const [at, { tensors }] of snapshots.entries()) {
      const checkpoint = at === snapshots.length - 1 ? undefined : at + 1;
      const file = checkpoint === undefined ? "model.safetensors" : `checkpoint-${checkpoint}.safetensors`;
      const bytes = await collectBytes(
        safetensorsChunks(tensors.map((tensor) => ({ name: tensor.name, source: sourceOfTensor(tensor) }))),
      );
      await writeFile(file, bytes);
      files.push(file);
      const byteLength = sum(tensors.map((tensor) => tensor.bytes.length));
      committed.push({ model: name, checkpoint, byteLength, sha256: sha256(bytes) });
    }
    await run("add", ...files);
    // Forced: where few layers kept their shape, a commit asks whether this parent is meant.
    const from = parent === undefined ? ["--orphan"] : ["--parent", parent, "--force"];
    await run("commit", "-m", `training ${name}`, "--name", name, ...from);
  }
  return committed;
}

interface Training {
  readonly name: string;
  readonly parent: string | undefined;
  readonly snapshots: readonly GeneratedModel[];
}

/** The generated snapshots by version. */
function* trainings(options: RepositoryOptions): Generator<Training> {
  let training: { name: string; parent: string | undefined; snapshots: GeneratedModel[] } | undefined;
  for (const model of generateModels(options)) {
    const name = versionOf(model.id);
    if (training?.name === name) training.snapshots.push(model);
    else {
      if (training !== undefined) yield training;
      const parent = model.base === undefined ? undefined : versionOf(model.base);
      training = { name, parent, snapshots: [model] };
    }
  }
  if (training !== undefined) yield training;
}

function versionOf(snapshot: string): string {
  return snapshot.split("/")[0]!;
}

async function archive(
  plan: Plan,
): Promise<{ readonly made: ArchivePlan; readonly applied: StorageApplied }> {
  const file = "plan.json";
  const rate = ["--read-rate", String(readBytesPerSecond)];
  const how = ["--budget", budgets[plan], "--layout", "planes", ...rate];
  await run("storage", "plan", ...how, "--out", file, "--home", ".stemma", "--fleet", "local");
  return {
    made: JSON.parse(await readFile(file, "utf8")) as ArchivePlan,
    applied: JSON.parse(await run("archive", "--plan", file, "-o", "json")) as StorageApplied,
  };
}

/** @throws INTERNAL where the plan leaves snapshots out, or was not carried out */
function requireAll(
  { length }: readonly CommittedSnapshot[],
  { members }: ArchivePlan,
  { report: { stopped, failed, left } }: StorageApplied,
): void {
  if (members.length !== length || stopped !== null || failed.length + left > 0)
    throw new StemmaError(
      "INTERNAL",
      `The plan has ${members.length} of ${length} snapshots; of its tensors ${left} were left, ${failed.length} failed.`,
    );
}

function snapshotsOf({ members, plan }: ArchivePlan): readonly Snapshot[] {
  return members.map((tensors) => [...new Set(tensors)].map((at) => plan.vertices[at]!.vertex as Hash));
}

/** @throws INTERNAL where the file differs from the one that was committed */
async function recover({ model, checkpoint, sha256: committed }: CommittedSnapshot): Promise<void> {
  const file = "recovered.safetensors";
  const part = checkpoint === undefined ? [] : ["--checkpoint", String(checkpoint)];
  await run(
    "model",
    "recover",
    model,
    ...part,
    "--file",
    file,
    "--force",
    "--home",
    ".stemma",
    "--fleet",
    "local",
  );
  if (sha256(await readFile(file)) !== committed)
    throw new StemmaError("INTERNAL", `${model} ${part.join(" ")} was recovered with other bytes.`);
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Returns what the command wrote to stdout. @throws INTERNAL where it fails */
async function run(...args: readonly string[]): Promise<string> {
  const environment = { STEMMA_HOME: undefined, STEMMA_SERVER: undefined, STEMMA_CONTEXT: undefined };
  const { status, stdout, stderr } = await runStemmaWith(args, environment);
  if (status !== 0)
    throw new StemmaError("INTERNAL", `stemma ${args.join(" ")} ended with ${status}: ${stderr}`);
  return stdout;
}
