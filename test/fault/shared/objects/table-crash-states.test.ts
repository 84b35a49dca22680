/**
 * The table of objects is kept beside saves, recodings, merges, repairs and collections: in every crash state, and
 * whatever pack is lost with it, a start by the table gives what a start by the packs alone gives.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { loadPacks } from "../../../../shared/objects/load-packs.js";
import { PackFiles } from "../../../../shared/objects/pack-files.js";
import { openPackStore, type PackStore } from "../../../../shared/objects/pack-store.js";
import type { Files } from "../../../../shared/ports.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import { codedAgainst, idOfTensor, memberOf, readBack, writePack } from "../../../helpers/coded-tensors.js";
import { checkCrashStates, crashStateCount } from "../../../helpers/crash-states.js";
import { manualClock, seededNumbers, seededRandom } from "../../../helpers/manual-clock.js";
import { loading, saveTensors, testTensor } from "../../../helpers/object-stores.js";

const folder = "/packs";
const writer = { assertHeld: () => Promise.resolve(), identityOf: () => Promise.resolve(undefined) };
let stores = 0;

const open = (files: Files): Promise<PackStore> =>
  openPackStore({ ...files, writer }, folder, {
    clock: manualClock(),
    random: seededRandom(`crashed table ${stores++}`),
    leastTableObjects: 1,
    mostRowsInMemory: 20,
  });

async function indexOf(files: Files, options = {}) {
  const parts = { ...loading, ...options };
  const { index, namesSinceTable } = await loadPacks(files, folder, new PackFiles(files, folder), parts);
  const objects = [...index.list()]
    .map((object) => ({
      ...object,
      epoch: index.locate(object.id)?.entry.epoch,
      state: index.state(object.id),
      isReferenced: index.isReferenced(object.id),
    }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
  return {
    objects,
    size: index.size,
    generation: index.generation,
    epoch: index.nextEpoch(),
    namesSinceTable,
  };
}

const members = (family: number): readonly Tensor[] => [0, 1, 2, 3].map((each) => memberOf(family, each));

/** Makes a random step. */
async function step(store: PackStore, number: number, random: () => number, liveShare = 0.8): Promise<void> {
  const family = members(Math.floor(random() * 5));
  const one = Math.floor(random() * 4);
  const tensor = family[one] as Tensor;
  const base = family[one - 1];
  const isCoded = base !== undefined && store.has(idOfTensor(base));
  const drawn = random();
  if (drawn < 0.3) await saveTensors(store, tensor, testTensor(number, 10));
  else if (drawn < 0.55) await writePack(store, [codedAgainst(tensor, isCoded ? base : undefined)]);
  else if (drawn < 0.75)
    await writePack(store, [codedAgainst(tensor, isCoded ? base : undefined)], { recode: true }).catch(
      (error: unknown) => {
        if (!/CHAIN/u.test(String((error as { code?: string }).code))) throw error;
      },
    );
  else if (drawn < 0.85) await store.merging.merge({ minPacks: 3, keepFreeBytes: 0 });
  else if (drawn < 0.95) {
    const live = new Set(
      [...store.list()].map(({ id }) => id).filter((id) => random() < liveShare && store.has(id)),
    );
    await store.collect(await store.planCollection(live), () => live);
  }
}

/** Rows go to a file after each step, and indexes stay in their packs. */
const inParts = { mostRows: 2, mostIndexBytes: 0 };

/** Compares a start by the table with those by the packs; the table is there afterwards as it was. */
async function compareStarts(files: Files): Promise<number> {
  const path = `${folder}/table`;
  const has = (await files.list(folder)).includes("table");
  const byTable = await indexOf(files);
  if (!has) return 0;
  const bytes = await files.read(path);
  await files.remove(path);
  const byPacks = await indexOf(files);
  const filled = await indexOf({ ...files, writer }, inParts);
  const names = await files.list(folder);
  assert.deepEqual(filled, byPacks);
  assert.deepEqual(
    names.filter((name) => name.endsWith(".tmp")),
    [],
  );
  const file = await files.open(path, "create");
  await file.write(bytes, 0);
  await file.close();
  assert.deepEqual(byTable.objects, byPacks.objects);
  assert.equal(byTable.size, byPacks.size);
  assert.equal(byTable.generation, byPacks.generation);
  // It may have seen packs that are gone.
  assert.ok(byTable.epoch >= byPacks.epoch);
  return byTable.namesSinceTable < Number.POSITIVE_INFINITY ? 1 : 0;
}

async function losePack(files: Files, random: () => number): Promise<void> {
  const packs = (await files.list(folder)).filter((name) => name.endsWith(".pack"));
  const lost = packs[Math.floor(random() * packs.length)];
  if (lost !== undefined) await files.remove(`${folder}/${lost}`);
}

it("gives what the packs give in any crash state, and where a pack is lost", async () => {
  let byTable = 0;
  const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 7);
  await checkCrashStates<number>({
    name: "the table of objects",
    seed,
    states: crashStateCount(),
    run: async (files) => {
      const random = seededNumbers(seed);
      for (let round = 0; round < 8; round++) {
        const store = await open(files);
        for (let each = 0; each < 8; each++) await step(store, 100 * round + each, random);
        await store.close();
      }
    },
    check: async (files) => {
      const random = seededNumbers(seed + byTable);
      byTable += await compareStarts(files);
      await losePack(files, random);
      await compareStarts(files);
      const store = await open(files);
      await store.maintenance.repair();
      for (let each = 0; each < 5; each++) await step(store, 10_000 + each, random);
      await compareStarts(files);
      await store.close();
      await compareStarts(files);
    },
  });
  assert.ok(byTable > 10, `only ${byTable} starts were by the table`);
});

/** Flips a bit in place, as a disk does: who has the file open reads it. */
async function flipBit(files: Files, name: string, random: () => number): Promise<void> {
  const bytes = await files.read(`${folder}/${name}`);
  const at = Math.floor(random() * bytes.length);
  const file = await files.open(`${folder}/${name}`, "update");
  await file.write(Uint8Array.of((bytes[at] as number) ^ (1 << Math.floor(random() * 8))), at);
  await file.close();
}

/** Opens the store, flips a bit then or before, and works on. Errors are typed. */
async function workOnDamage(files: Files, random: () => number): Promise<void> {
  const flip = async (): Promise<void> => {
    const names = (await files.list(folder)).filter((name) => /^(table|index)/u.test(name));
    const name = names[Math.floor(random() * names.length)];
    if (name !== undefined) await flipBit(files, name, random);
  };
  const isBefore = random() < 0.5;
  if (isBefore) await flip();
  const store = await open(files);
  if (!isBefore) await flip();
  for (let each = 0; each < 6; each++)
    try {
      if (random() < 0.5) await step(store, each, random, 1);
      else for (const { id } of store.list()) store.references.change(id, 1);
    } catch (error) {
      if (!isStemmaError(error)) throw error;
    }
  await store.close();
}

it("loses nothing where a bit of the table or of the index cache flips", async () => {
  for (let seed = 0; seed < crashStateCount(); seed++) {
    const random = seededNumbers(seed);
    const files = memoryFiles();
    for (let round = 0; round < 2; round++) {
      const store = await open(files);
      for (let each = 0; each < 6; each++) await step(store, 100 * round + each, random, 1);
      await store.close();
    }
    const store = await open(files);
    const ids = [...store.list()].map(({ id }) => id).filter((id) => store.has(id));
    await store.close();
    await workOnDamage(files, random);
    await compareStarts(files);
    const after = await open(files);
    assert.deepEqual(after.problems(), []);
    for (const id of ids) {
      assert.ok(after.has(id), `seed ${seed}: ${id} is lost`);
      await readBack(after, id);
    }
    await after.close();
  }
});
