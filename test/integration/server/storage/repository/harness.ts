/** Homes, clocks and small models for the repository's tests. */
import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import type { ModelSource, SaveRecord, UnhashedModel } from "../../../../../shared/model/model.js";
import { streamedObjectsOf } from "../../../../../shared/model/record-objects.js";
import type { LiveObjects } from "../../../../../shared/objects/object-store.js";
import type { Files, Random } from "../../../../../shared/ports.js";
import { manualClock, type ManualClock } from "../../../../helpers/manual-clock.js";
import { streamOf, streamedBytes } from "../../../../helpers/object-stores.js";
import type { SaveUses } from "../../../../../shared/save/save-uses.js";
import { opaqueModelSource, unhashedOpaqueModel } from "../../../../../shared/save/model-source.js";
import { tensorOfSource, type Hash, type Tensor } from "../../../../../shared/tensor/tensor.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { openHome, type Home, type HomePorts } from "../../../../../server/storage/repository/home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";

/** The live objects without some of them, as if nothing needed these. */
export function withoutObjects(live: LiveObjects, lost: ReadonlySet<Hash | undefined>): LiveObjects {
  return {
    has: (id) => !lost.has(id) && live.has(id),
    keys: () => [...live.keys()].filter((id) => !lost.has(id)),
  };
}

/** Bytes that a seed gives, the same on every machine. */
export function seededBytes(seed: string, count: number): Uint8Array {
  const bytes = new Uint8Array(count);
  for (let at = 0, block = 0; at < count; at += 32, block++)
    bytes.set(
      createHash("sha256")
        .update(`${seed}/${block}`)
        .digest()
        .subarray(0, count - at),
      at,
    );
  return bytes;
}

export function seededRandom(seed: string): Random {
  let calls = 0;
  return { bytes: (count) => seededBytes(`${seed}/${calls++}`, count) };
}

/** Integers below a limit, in a fixed sequence for each seed. */
export function seededDraw(seed: string): (below: number) => number {
  const random = seededRandom(seed);
  return (below) => Buffer.from(random.bytes(6)).readUIntBE(0, 6) % below;
}

export type NamedTensor = Tensor & { readonly name: string };

/** `layers` layers of a kernel and a bias each, drawn from the seed. */
export function tensorsOf(seed: string, layers = 4, width = 16): readonly NamedTensor[] {
  return Array.from({ length: layers }, (_, layer) => [
    {
      name: `layer${String(layer).padStart(3, "0")}.kernel`,
      dtype: "F32" as const,
      shape: [width, width],
      bytes: seededBytes(`${seed}/${layer}/k`, 4 * width * width),
    },
    {
      name: `layer${String(layer).padStart(3, "0")}.bias`,
      dtype: "F32" as const,
      shape: [width],
      bytes: seededBytes(`${seed}/${layer}/b`, 4 * width),
    },
  ]).flat();
}

/** The same model with new random last layers: a partial fine-tune. */
export function fineTuned(
  tensors: readonly NamedTensor[],
  seed: string,
  lastTensors = 2,
): readonly NamedTensor[] {
  return tensors.map((tensor, index) =>
    index < tensors.length - lastTensors
      ? tensor
      : { ...tensor, bytes: seededBytes(`${seed}/${tensor.name}`, tensor.bytes.length) },
  );
}

export function modelOf(tensors: readonly NamedTensor[]): ModelSource {
  return opaqueModelSource(tensors, { format: "pt" });
}

/** The same model; its tensors are hashed while they are saved. */
export function unhashedModelOf(tensors: readonly NamedTensor[]): UnhashedModel {
  return unhashedOpaqueModel(tensors, { format: "pt" });
}

/** Name and bytes of every tensor that a version recovers to, in the order of the file it came from. */
export async function recoveredTensors(
  repository: FleetRepository,
  versionId: Hash,
): Promise<readonly { readonly name: string; readonly bytes: Uint8Array }[]> {
  const model = await repository.recover(versionId);
  const order = model.names.fileOrder ?? model.leaves.map((_, leaf) => leaf);
  return await Promise.all(
    order.map(async (leaf) => ({
      name: model.names.leaves[leaf]!,
      bytes: (await tensorOfSource(model.sources[leaf]!)).bytes,
    })),
  );
}

export async function sameTensors(
  repository: FleetRepository,
  versionId: Hash,
  tensors: readonly NamedTensor[],
): Promise<boolean> {
  const actual = await recoveredTensors(repository, versionId);
  return (
    actual.length === tensors.length &&
    tensors.every(
      ({ name, bytes }, index) =>
        actual[index]!.name === name && Buffer.compare(actual[index]!.bytes, bytes) === 0,
    )
  );
}

/**
 * An engine and data that all seeds share, data of its own, a checkpoint after three iterations and an optimizer's
 * state, all drawn from the seed.
 */
export function usesOfSeed(seed: string): SaveUses {
  return {
    engine: { source: streamOf(seededBytes("engine", 300)) },
    recipe: { source: streamOf(seededBytes(`recipe/${seed}`, 40)) },
    data: [
      { source: streamOf(seededBytes("data", 700)) },
      { source: streamOf(seededBytes(`data/${seed}`, 60)) },
    ],
    optimizer: modelOf(tensorsOf(`optimizer/${seed}`, 1, 4)),
    checkpoints: [{ iteration: 3, model: modelOf(tensorsOf(`checkpoint/${seed}`, 1, 4)) }],
  };
}

/** Whether a version that was saved with `usesOfSeed` has all of it, bit for bit. @throws what recovery throws */
export async function hasUsesOfSeed(
  repository: FleetRepository,
  versionId: Hash,
  seed: string,
): Promise<boolean> {
  const { optimizer, checkpoints = [] } = usesOfSeed(seed);
  for (const [part, expected] of [
    ["optimizer", optimizer],
    [{ checkpoint: 3 }, checkpoints[0]?.model],
  ] as const) {
    const { leaves } = await repository.recover(versionId, { part });
    if (leaves.some(({ tensor }, i) => tensor !== expected?.leaves[i]?.tensor)) return false;
  }
  for (const { kind, id } of streamedObjectsOf(repository.get(versionId)?.record as SaveRecord))
    await streamedBytes(repository.objects, kind, id);
  return true;
}

export interface TestHome {
  readonly home: Home;
  readonly ports: HomePorts & { readonly clock: ManualClock };
  readonly files: Files;
  readonly path: string;
  readonly reopen: () => Promise<Home>;
}

async function testHome(files: Files, path: string, indexEveryFacts = 5): Promise<TestHome> {
  const ports = {
    files,
    clock: manualClock(),
    random: seededRandom(path),
    environment: { backend: "none", stemma: "test" },
    indexEveryFacts,
    journalBlockLevel: 3,
  };
  return { home: await openHome(path, ports), ports, files, path, reopen: () => openHome(path, ports) };
}

/** @param indexEveryFacts how often the index of a fleet is written: often, so that tests meet it */
export function memoryHome(indexEveryFacts?: number): Promise<TestHome> {
  return testHome(memoryFiles(), "/home", indexEveryFacts);
}

/** A folder that is removed when the test ends. */
export async function temporaryFolder(context: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-test-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export async function diskHome(context: TestContext): Promise<TestHome> {
  return await testHome(nodeFiles(), join(await temporaryFolder(context), "home"));
}

/** Runs the same test in memory and on disk. */
export const places = [
  ["memory", (_context: TestContext): Promise<TestHome> => memoryHome()],
  ["disk", diskHome],
] as const;

export { openRepository };
