/** Small packs become few: what is merged when, what stays exact, and what it costs. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "node:test";
import { smallPackBytes } from "../../../../shared/objects/pack-format.js";
import { choosePacks, packsPerMerge } from "../../../../shared/objects/pack-merging.js";
import { openPackStore, type PackStore } from "../../../../shared/objects/pack-store.js";
import type { Files } from "../../../../shared/ports.js";
import { sourceOfTensor, type Tensor } from "../../../../shared/tensor/tensor.js";
import { codedAgainst, idOfTensor, memberOf, readBack, writePack } from "../../../helpers/coded-tensors.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { hasCode, saveTensors, testTensor } from "../../../helpers/object-stores.js";

const folder = "/home/packs";
const clock = manualClock();
const open = (files: Files, seed = "s"): Promise<PackStore> =>
  openPackStore(files, folder, { clock, random: seededRandom(seed) });

async function mergeAll(store: PackStore): Promise<number> {
  let rounds = 0;
  while ((await store.merging.merge()) !== undefined) rounds++;
  return rounds;
}

/** Saves as many small packs as start a round. Returns their tensors. */
async function fillLevel(store: PackStore, firstSeed = 0): Promise<Tensor[]> {
  const tensors = Array.from({ length: packsPerMerge }, (_, i) => testTensor(firstSeed + i, 300));
  for (const tensor of tensors) await saveTensors(store, tensor);
  return tensors;
}

it("writes every byte of 20,000 tiny saves a logarithmic number of times", () => {
  const saves = 20_000;
  const packs = new Map<string, { readonly name: string; readonly bytes: number }>();
  let saved = 0;
  let rewritten = 0;
  let mostPacks = 0;
  for (let save = 0; save < saves; save++) {
    const bytes = 900 + ((save * 7919) % 1200);
    saved += bytes;
    packs.set(`save-${save}`, { name: `save-${save}`, bytes });
    for (;;) {
      const chosen = choosePacks(packs.values(), { minPacks: packsPerMerge, maxBytes: 16 * smallPackBytes });
      if (chosen.length === 0) break;
      const merged = chosen.reduce((sum, pack) => sum + pack.bytes, 0);
      rewritten += merged;
      for (const { name } of chosen) packs.delete(name);
      packs.set(`merged-${rewritten}`, { name: `merged-${rewritten}`, bytes: merged });
    }
    mostPacks = Math.max(mostPacks, packs.size);
  }
  // 16^4 > 20,000.
  assert.ok(rewritten <= 4 * saved, `${rewritten} bytes were rewritten for ${saved}`);
  assert.ok(mostPacks <= 4 * packsPerMerge + saved / smallPackBytes, `${mostPacks} packs`);
});

it("merges a backlog of 20,000 packs in few rounds, each of bounded size", () => {
  const packs = new Map(
    Array.from({ length: 20_000 }, (_, i) => [`p${i}`, { name: `p${i}`, bytes: 1500 + (i % 300) }]),
  );
  let rounds = 0;
  for (;;) {
    const chosen = choosePacks(packs.values(), { minPacks: packsPerMerge, maxBytes: 8 * 1024 * 1024 });
    if (chosen.length === 0) break;
    const bytes = chosen.reduce((sum, pack) => sum + pack.bytes, 0);
    assert.ok(chosen.length <= 1024 && bytes <= 8 * 1024 * 1024);
    for (const { name } of chosen) packs.delete(name);
    packs.set(`round ${rounds}`, { name: `round ${rounds}`, bytes });
    rounds++;
  }
  assert.ok(rounds <= 24 && packs.size < 2 * packsPerMerge, `${rounds} rounds, ${packs.size} packs`);
});

it("leaves few packs of many saves, with every object as it was, also after reopening", async () => {
  const files = memoryFiles();
  const store = await open(files);
  const saved: Tensor[] = [];
  const trees: Uint8Array[] = [];
  let savedBytes = 0;
  for (let save = 0; save < 400; save++) {
    const tensor = testTensor(save, 100 + (save % 50));
    const writer = await store.begin();
    await writer.putTensor(sourceOfTensor(tensor));
    trees.push(new TextEncoder().encode(`tree ${save}`));
    await writer.put("tree", trees[save] as Uint8Array);
    savedBytes += (await writer.commit()).bytes;
    saved.push(tensor);
    await store.merging.merge();
  }
  await mergeAll(store);
  const { rounds, packs, bytes } = store.merging.merged;
  assert.ok(store.packs().length <= 3 * packsPerMerge, `${store.packs().length} packs`);
  assert.equal(store.packs().length, 400 - packs + rounds);
  assert.ok(bytes <= 3 * savedBytes, `${bytes} bytes were merged for ${savedBytes}`);
  assert.equal(store.merging.smallPacks, store.packs().length);
  await store.close();
  const reopened = await open(files, "again");
  assert.deepEqual(
    (await files.list(folder)).filter((name) => name.endsWith(".pack")).length,
    reopened.packs().length,
  );
  for (const tensor of saved) assert.deepEqual(await readBack(reopened, idOfTensor(tensor)), tensor.bytes);
  assert.equal([...reopened.list()].filter(({ kind }) => kind === "tree").length, trees.length);
});

it("carries coded tensors as they are stored, and drops copies that a recoding has superseded", async () => {
  const files = memoryFiles();
  const store = await open(files);
  const family = Array.from({ length: packsPerMerge }, (_, member) => memberOf(3, member, [6, 20]));
  await writePack(store, [family[0] as Tensor]);
  for (const [member, tensor] of family.entries()) if (member > 0) await writePack(store, [tensor]);
  for (const [member, tensor] of family.entries())
    if (member > 0) await writePack(store, [codedAgainst(tensor, family[member - 1])], { recode: true });
  const before = family.map((tensor) => store.encodingOf(idOfTensor(tensor)));
  assert.equal(await store.merging.merge(), undefined, "a recoding was begun just now");
  clock.advance(10 * 60_000);
  await mergeAll(store);
  assert.ok(store.packs().length < packsPerMerge);
  assert.equal(
    store.packs().reduce((sum, { objects }) => sum + objects, 0),
    family.length,
  );
  for (const current of [store, await open(files, "again")]) {
    assert.deepEqual(
      family.map((tensor) => current.encodingOf(idOfTensor(tensor))),
      before,
    );
    for (const tensor of family) assert.deepEqual(await readBack(current, idOfTensor(tensor)), tensor.bytes);
  }
});

it("leaves out a copy that is recoded while the packs are merged", async () => {
  const base = memoryFiles();
  const family = [memberOf(5, 0, [6, 20]), memberOf(5, 1, [6, 20])] as const;
  let recode: (() => Promise<unknown>) | undefined;
  const files: Files = {
    ...base,
    async open(path, mode) {
      // The first pack that is opened to be copied.
      if (mode === "read") {
        const now = recode;
        recode = undefined;
        await now?.();
      }
      return await base.open(path, mode);
    },
  };
  const store = await open(files);
  await writePack(store, [family[0]]);
  await writePack(store, [family[1]]);
  await fillLevel(store, 70);
  const writer = await store.begin({ recode: true });
  await writer.putCoded(codedAgainst(family[1], family[0]));
  clock.advance(10 * 60_000);
  recode = () => writer.commit();
  assert.notEqual(await store.merging.merge(), undefined);
  const expected = store.encodingOf(idOfTensor(family[1]));
  assert.equal(expected?.base, idOfTensor(family[0]));
  assert.equal(
    store.packs().reduce((sum, { objects }) => sum + objects, 0),
    packsPerMerge + family.length,
  );
  for (const current of [store, await open(base, "again")]) {
    assert.deepEqual(current.encodingOf(idOfTensor(family[1])), expected);
    for (const tensor of family) assert.deepEqual(await readBack(current, idOfTensor(tensor)), tensor.bytes);
  }
});

it("does not carry damage: the packs stay, and nothing is merged until it is repaired", async () => {
  const files = memoryFiles();
  const store = await open(files);
  await fillLevel(store);
  const file = await files.open(store.packs()[0]?.path ?? "", "update");
  await file.write(new Uint8Array([1, 2, 3, 4]), 40);
  await file.close();
  await assert.rejects(store.merging.merge(), hasCode("OBJECT_HASH_MISMATCH"));
  assert.equal(store.packs().length, packsPerMerge);
  assert.deepEqual(
    (await files.list(folder)).filter((name) => name.endsWith(".tmp")),
    [],
  );
  assert.equal(await store.merging.merge(), undefined);
  await store.maintenance.repair();
  await fillLevel(store, 100);
  assert.notEqual(await store.merging.merge(), undefined);
});

it("waits while a collection is planned, until that has run", async () => {
  const store = await open(memoryFiles());
  const tensors = await fillLevel(store);
  const live = new Set(tensors.slice(1).map(idOfTensor));
  const plan = await store.planCollection(live);
  assert.equal(await store.merging.merge(), undefined);
  await store.collect(plan, () => live);
  await saveTensors(store, testTensor(500, 300));
  assert.deepEqual((await store.merging.merge())?.packs, packsPerMerge);
});

it("leaves the given space free, and merges nothing where that is not possible", async () => {
  const base = memoryFiles();
  let freeBytes = 64 * 1024 * 1024;
  const store = await open({ ...base, freeBytes: () => Promise.resolve(freeBytes) });
  await fillLevel(store);
  assert.equal(await store.merging.merge(), undefined);
  freeBytes += 1024;
  assert.equal(await store.merging.merge(), undefined);
  assert.notEqual(await store.merging.merge({ keepFreeBytes: 1024 * 1024 }), undefined);
  assert.equal(store.packs().length, 1);
  assert.equal(join(folder, (await base.list(folder)).join()), store.packs()[0]?.path);
});
