/** A collection on a full disk: what needs no space first, then pack by pack, each making space for the next. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "node:test";
import { StemmaError } from "../../../../shared/errors.js";
import { collectPlanned } from "../../../../shared/objects/collector.js";
import { Leases } from "../../../../shared/objects/leases.js";
import { ObjectIndex } from "../../../../shared/objects/object-index.js";
import { planCollection } from "../../../../shared/objects/plan-collection.js";
import type { PackEntry } from "../../../../shared/objects/pack-entry.js";
import { packBytes, type PackIndex } from "../../../../shared/objects/pack-format.js";
import { openPackStore, type PackStore } from "../../../../shared/objects/pack-store.js";
import { ReferenceLock } from "../../../../shared/objects/reference-lock.js";
import type { Files } from "../../../../shared/ports.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash, Tensor } from "../../../../shared/tensor/tensor.js";
import { idOfTensor, readBack } from "../../../helpers/coded-tensors.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { hasCode, saveTensors, testTensor } from "../../../helpers/object-stores.js";

const folder = "/home/packs";

/** A disk with room for so many bytes of packs beyond what it has when `limit` is called. */
function smallDisk(): { readonly files: Files; readonly limit: (freeBytes: number) => Promise<void> } {
  const inner = memoryFiles();
  let capacity = Number.POSITIVE_INFINITY;
  const used = async (): Promise<number> => {
    let bytes = 0;
    for (const name of await inner.list(folder)) bytes += (await inner.stat(join(folder, name)))?.size ?? 0;
    return bytes;
  };
  const files: Files = {
    ...inner,
    async open(path, mode) {
      const file = await inner.open(path, mode);
      if (mode !== "create") return file;
      return {
        read: (target, at) => file.read(target, at),
        size: () => file.size(),
        truncate: (size) => file.truncate(size),
        sync: () => file.sync(),
        close: () => file.close(),
        async write(bytes, at) {
          if ((await used()) + bytes.length > capacity)
            throw new StemmaError("DISK_FULL", "The disk is full. Free some space.");
          await file.write(bytes, at);
        },
      };
    },
  };
  return {
    files,
    limit: async (freeBytes) => {
      capacity = (await used()) + freeBytes;
    },
  };
}

const open = (files: Files, seed = "s"): Promise<PackStore> =>
  openPackStore(files, folder, { clock: manualClock(), random: seededRandom(seed) });

/** Packs of one tensor that stays and one that goes; the first ones keep the most. */
async function filled(
  store: PackStore,
): Promise<{ readonly kept: readonly Tensor[]; readonly live: Set<Hash> }> {
  const kept: Tensor[] = [];
  for (let pack = 0; pack < 6; pack++) {
    const stays = testTensor(pack, 20_000 - 3000 * pack);
    await saveTensors(store, stays, testTensor(100 + pack, 9000));
    kept.push(stays);
  }
  return { kept, live: new Set(kept.map(idOfTensor)) };
}

it("rewrites pack by pack where space is short, and frees as much as was planned", async () => {
  const { files, limit } = smallDisk();
  const store = await open(files);
  const { kept, live } = await filled(store);
  // The pack that keeps the least, 5,000 bytes, fits; each replaced pack then frees 9,000.
  await limit(6000);
  const plan = await store.planCollection(live);
  assert.equal(plan.repackPacks.length, 6);
  const { freedBytes } = await store.collect(plan, () => live);
  assert.ok(freedBytes > 6 * 9000, `${freedBytes}`);
  assert.deepEqual((await store.planCollection(live)).dead, []);
  for (const current of [store, await open(files, "again")])
    for (const tensor of kept) assert.deepEqual(await readBack(current, tensor), tensor.bytes);
});

it("deletes packs without live objects before it needs space for others", async () => {
  const { files, limit } = smallDisk();
  const store = await open(files);
  const { live } = await filled(store);
  await saveTensors(store, testTensor(500, 25_000));
  await limit(0);
  const { freedBytes } = await store.collect(await store.planCollection(live), () => live);
  assert.ok(freedBytes > 25_000 + 6 * 9000, `${freedBytes}`);
});

it("ends early where the space ends, and the next collection continues", async () => {
  const { files, limit } = smallDisk();
  const store = await open(files);
  const large = testTensor(700, 90_000);
  const dead = [testTensor(701, 90), testTensor(702, 3000)];
  await saveTensors(store, large, dead[0] as Tensor);
  await saveTensors(store, dead[1] as Tensor);
  const live = new Set([idOfTensor(large)]);
  await limit(0);
  const first = await store.collect(await store.planCollection(live), () => live);
  assert.ok(first.freedBytes >= 3000 && first.freedBytes < 4000);
  // A save of what was forgotten is a new copy, which the next collection keeps.
  await limit(1_000_000);
  await saveTensors(store, dead[0] as Tensor);
  live.add(idOfTensor(dead[0] as Tensor));
  await store.collect(await store.planCollection(live), () => live);
  assert.deepEqual(await readBack(store, dead[0] as Tensor), dead[0]?.bytes);
  assert.deepEqual(await readBack(store, large), large.bytes);
});

it("changes nothing where not even the first step fits", async () => {
  const { files, limit } = smallDisk();
  const store = await open(files);
  const { live } = await filled(store);
  await limit(100);
  const plan = await store.planCollection(live);
  await assert.rejects(
    store.collect(plan, () => live),
    hasCode("DISK_FULL"),
  );
  await limit(1_000_000);
  // The same plan is still valid.
  assert.ok((await store.collect(plan, () => live)).freedBytes > 6 * 9000);
});

it("predicts what it frees also where it takes several steps", async () => {
  const index = new ObjectIndex();
  const stored = 150_000_000;
  const entry = (n: number): PackEntry => ({
    id: sha256(`${n}`),
    kind: "data",
    encodingCode: 0,
    epoch: 0,
    offset: 32,
    storedBytes: stored,
    byteLength: stored,
  });
  const packOf = (name: string, entries: readonly PackEntry[]): PackIndex => ({
    name,
    entries,
    bytes: packBytes(entries),
  });
  // Two packs do not fit into one step, so each gives a pack of its own.
  for (const n of [0, 1, 2]) index.add(packOf(`p${n}`, [entry(n), entry(10 + n)]));
  index.settle();
  const live = new Set([0, 1, 2].map((n) => entry(n).id));
  const plan = await planCollection(index, live, () => new Set());
  const before = index.bytes;
  let made = 0;
  const { freedBytes } = await collectPlanned(
    {
      index,
      leases: new Leases(manualClock(), seededRandom("s")),
      lock: new ReferenceLock(),
      rewriter: {
        rewrite: (kept) =>
          Promise.resolve(
            packOf(
              `n${made++}`,
              kept.map(({ entry: own }) => ({ ...own, epoch: 0 })),
            ),
          ),
        remove: () => Promise.resolve(),
      },
    },
    plan,
    () => live,
  );
  assert.equal(made, 3);
  assert.equal(freedBytes, plan.bytesBefore - plan.bytesAfter);
  assert.equal(index.bytes, before - freedBytes);
});

it("plans in steps beside other work; what is saved meanwhile is no part of the plan", async () => {
  const store = await open(memoryFiles());
  const many = Array.from({ length: 2500 }, (_, n) => testTensor(n, 4));
  await saveTensors(store, ...many);
  const live = new Set(many.slice(0, 10).map(idOfTensor));
  let turns = 0;
  const onTurn = (): void => {
    turns++;
    waiting = setImmediate(onTurn);
  };
  let waiting = setImmediate(onTurn);
  const planning = store.planCollection(live);
  const late = testTensor(9000, 4);
  await saveTensors(store, late);
  const plan = await planning;
  clearImmediate(waiting);
  assert.ok(turns >= 4, `${turns} turns of the event loop`);
  assert.equal(plan.dead.length, many.length - 10);
  assert.ok(!plan.dead.some(({ id }) => id === idOfTensor(late)));
  assert.equal(plan.live, 11);
  assert.deepEqual((await store.unneeded(live)).size, many.length - 10 + 1);
});
