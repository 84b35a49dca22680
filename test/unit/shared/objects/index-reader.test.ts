/** Indexes of packs that memory does not keep: read again from the cache or the pack, whichever is as it was. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nextTurn } from "../../../../shared/concurrency/in-steps.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { IndexReader } from "../../../../shared/objects/index-reader.js";
import { loadPacks } from "../../../../shared/objects/load-packs.js";
import { CompactPack } from "../../../../shared/objects/compact-pack.js";
import type { ObjectIndex } from "../../../../shared/objects/object-index.js";
import { PackFiles } from "../../../../shared/objects/pack-files.js";
import { openPackStore } from "../../../../shared/objects/pack-store.js";
import type { Files, FilesToReadNow } from "../../../../shared/ports.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { loading, hasCode, saveTensors, testTensor } from "../../../helpers/object-stores.js";

const folder = "/packs";
const cachePath = `${folder}/index`;

function openStore(files: Files, mostIndexBytes?: number) {
  return openPackStore(files, folder, { clock: manualClock(), random: seededRandom(1), mostIndexBytes });
}

/** Packs whose indexes were taken out of memory, beside what they held. */
async function withoutIndexes(count = 12, tensorsOfEach = 2) {
  const files = memoryFiles() as FilesToReadNow;
  const store = await openStore(files);
  for (let n = 0; n < count; n++) {
    const seeds = Array.from({ length: tensorsOfEach }, (_, i) => n + 1000 * i);
    await saveTensors(store, ...seeds.map((seed) => testTensor(seed, 8)));
  }
  await store.close();
  const { index, cacheFiles } = await loadPacks(files, folder, new PackFiles(files, folder), loading);
  const objects = [...index.list()];
  new IndexReader(files, folder).leave(index.packs, cacheFiles);
  assert.ok([...index.packs.values()].every(({ isInMemory }) => !isInMemory));
  return { files, index, objects };
}

async function until(isSo: () => boolean): Promise<void> {
  for (let turn = 0; turn < 1000 && !isSo(); turn++) await nextTurn();
  assert.ok(isSo());
}

async function flip(files: Files, path: string): Promise<void> {
  const bytes = Buffer.from(await files.read(path));
  // In place, as a disk does: who has the file open reads it.
  const file = await files.open(path, "update");
  await file.write(
    bytes.map((byte) => byte ^ 1),
    0,
  );
  await file.close();
}

describe("indexes of packs that are not in memory", () => {
  it("hold what they held", async () => {
    const { index, objects } = await withoutIndexes();
    assert.deepEqual([...index.list()], objects);
    for (const { id } of objects) assert.equal(index.locate(id)?.entry.id, id);
    assert.equal(index.locate(sha256("none")), undefined);
  });

  it("are read in parts, each entry whole, where they are long", async () => {
    const { files, index, objects } = await withoutIndexes(2, 2500);
    const [pack] = index.packs.values();
    assert.ok(pack !== undefined && pack.indexBytes > 150_000);
    assert.deepEqual([...index.list()], objects);
    for (const { id } of objects.toReversed()) assert.equal(index.locate(id)?.entry.id, id);
    await flip(files, cachePath);
    assert.deepEqual(CompactPack.of(pack).entries.length, 2500);
  });

  it("are read from the packs where the cache was damaged, replaced or removed", async () => {
    for (const damage of [
      (files: Files) => flip(files, cachePath),
      (files: Files) => writeDurably(files, cachePath, new Uint8Array(50)),
      (files: Files) => files.remove(cachePath),
    ]) {
      const { files, index, objects } = await withoutIndexes();
      await damage(files);
      assert.deepEqual([...index.list()], objects);
    }
  });

  it("are read from the cache where the packs were removed, and else say so", async () => {
    const { files, index, objects } = await withoutIndexes();
    for (const name of index.packs.keys()) await files.remove(`${folder}/${name}.pack`);
    assert.deepEqual([...index.list()], objects);
    const both = await withoutIndexes();
    await flip(both.files, cachePath);
    for (const name of both.index.packs.keys()) await flip(both.files, `${folder}/${name}.pack`);
    assert.throws(() => [...both.index.list()], hasCode("PACK_CORRUPT"));
  });

  it("leave the memory of a store that stays open, and stay right through collections", async () => {
    const files = memoryFiles();
    const store = await openStore(files, 10_000);
    const saved = [];
    for (let n = 0; n < 520; n++) saved.push(...(await saveTensors(store, testTensor(n))));
    const { packs } = (store as unknown as { readonly index: ObjectIndex }).index;
    const bytesInMemory = (): number =>
      [...packs.values()].reduce((sum, { isInMemory, indexBytes }) => sum + (isInMemory ? indexBytes : 0), 0);
    await until(() => bytesInMemory() < 20_000);
    const live = new Set(saved.slice(0, 100));
    await store.collect(await store.planCollection(live), () => live);
    for (const id of live) assert.ok(store.has(id));
    for (const id of saved.slice(100)) assert.ok(!store.has(id));
    await store.close();
    const again = await openStore(files);
    assert.deepEqual(new Set(Array.from(again.list(), ({ id }) => id)), live);
    await again.close();
  });
});
