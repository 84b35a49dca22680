/** The table of objects in a file: what it gives is what the packs' indexes give, and it holds only beside these. */
import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { StemmaError } from "../../../../shared/errors.js";
import { loadPacks } from "../../../../shared/objects/load-packs.js";
import { PackFiles } from "../../../../shared/objects/pack-files.js";
import { openPackStore, type PackStore } from "../../../../shared/objects/pack-store.js";
import { writeTable } from "../../../../shared/objects/table-file.js";
import type { Files, FilesToReadNow } from "../../../../shared/ports.js";
import { codedAgainst, idOfTensor, memberOf } from "../../../helpers/coded-tensors.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { pollUntil } from "../../../helpers/poll-until.js";
import { loading, saveTensors, testTensor } from "../../../helpers/object-stores.js";

const folder = "/packs";
const tablePath = `${folder}/table`;
const writer = { assertHeld: () => Promise.resolve(), identityOf: () => Promise.resolve(undefined) };

let stores = 0;
const open = (files: Files): Promise<PackStore> =>
  openPackStore(files, folder, {
    clock: manualClock(),
    random: seededRandom(`table ${stores++}`),
    leastTableObjects: 1,
  });

const base = memberOf(0, 0);
const child = memberOf(0, 1);

/** Packs of a few tensors, one of which is coded against another; the table was kept when the store was closed. */
async function filled(): Promise<Files> {
  const files = memoryFiles();
  const store = await open(files);
  await saveTensors(store, base);
  for (let n = 0; n < 9; n++) await saveTensors(store, testTensor(10 * n, 400), testTensor(500 + n));
  const pack = await store.begin();
  await pack.putCoded(codedAgainst(child, base));
  await pack.commit();
  await store.close();
  return files;
}

/** Opens the packs; `read` are the names of the files that were read for it. */
async function load(files: Files) {
  const read: string[] = [];
  const watched: Files = {
    ...files,
    read: (path) => {
      read.push(path.slice(folder.length + 1));
      return files.read(path);
    },
    open: (path, mode) => {
      read.push(path.slice(folder.length + 1));
      return files.open(path, mode);
    },
  };
  const opened = await loadPacks(watched, folder, new PackFiles(watched, folder), loading);
  const { index } = opened;
  const objects = [...index.list()].map((object) => ({
    ...object,
    state: index.state(object.id),
    isReferenced: index.isReferenced(object.id),
    pack: index.locate(object.id)?.pack.name,
  }));
  const byId = objects.sort((a, b) => (a.id < b.id ? -1 : 1));
  return { ...opened, read, objects: byId, epoch: index.nextEpoch() };
}

const withoutTable = async (files: Files) => {
  const bytes = await files.read(tablePath);
  await files.remove(tablePath);
  const loaded = await load(files);
  await writeDurably(files, tablePath, bytes);
  return loaded;
};

describe("the table of objects in a file", () => {
  it("gives what the packs' indexes give, and reads none of them", async () => {
    const files = await filled();
    const plain = await withoutTable(files);
    assert.ok(plain.read.includes("index"));
    assert.equal(plain.namesSinceTable, Number.POSITIVE_INFINITY);
    const loaded = await load(files);
    assert.equal(loaded.namesSinceTable, 0);
    assert.deepEqual(loaded.read, []);
    assert.deepEqual(loaded.objects, plain.objects);
    assert.equal(loaded.epoch, plain.epoch);
    assert.equal(loaded.index.generation, plain.index.generation);
    assert.ok(loaded.index.isReferenced(idOfTensor(base)));
  });

  it("takes packs that came since, and is kept again with them", async () => {
    const files = await filled();
    const killed = await open(files);
    await saveTensors(killed, testTensor(900), testTensor(10, 400), testTensor(901));
    const plain = await withoutTable(files);
    const loaded = await load(files);
    assert.equal(loaded.read.filter((name) => name.endsWith(".pack")).length, 1);
    assert.equal(loaded.namesSinceTable, 1);
    assert.deepEqual(loaded.objects, plain.objects);
    await (await open({ ...files, writer })).close();
    assert.deepEqual((await load(files)).read, []);
  });

  it("is kept after packs were merged and collected", async () => {
    const files = await filled();
    const store = await open(files);
    await store.merging.merge({ minPacks: 3, keepFreeBytes: 0 });
    const live = new Set([idOfTensor(child), idOfTensor(testTensor(20, 400))]);
    await store.collect(await store.planCollection(live), () => live);
    await saveTensors(store, testTensor(70, 30));
    await store.close();
    const plain = await withoutTable(files);
    const loaded = await load(files);
    assert.deepEqual(loaded.read, []);
    assert.deepEqual(loaded.objects, plain.objects);
    assert.equal(loaded.objects.length, 4);
  });

  it("does not hold where it was changed, cut, or is of other files", async () => {
    const files = await filled();
    const { objects } = await load(files);
    const bytes = Buffer.from(await files.read(tablePath));
    const step = Math.max(1, Math.floor(bytes.length / 200));
    for (let at = 0; at < bytes.length; at += step) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] as number) ^ 4;
      await writeDurably(files, tablePath, at % 2 === 0 ? changed : bytes.subarray(0, at));
      const loaded = await load(files);
      if (at < 4096 ? at < 12 : true)
        assert.equal(loaded.namesSinceTable, Number.POSITIVE_INFINITY, `byte ${at}`);
      assert.deepEqual(loaded.objects, objects);
    }
    const other = memoryFiles();
    const store = await open(other);
    await saveTensors(store, testTensor(3), testTensor(4));
    await store.close();
    await writeDurably(files, tablePath, await other.read(tablePath));
    assert.deepEqual((await load(files)).objects, objects);
  });

  it("gives what is there where a pack or a file of the index cache is gone or another one", async () => {
    for (const change of [
      async (files: Files) => {
        const [name] = (await files.list(folder)).filter((each) => each.endsWith(".pack"));
        await files.remove(`${folder}/${name as string}`);
      },
      (files: Files) => files.remove(`${folder}/index`),
      async (files: Files) => {
        await writeDurably(files, `${folder}/index`, (await files.read(`${folder}/index`)).slice(1));
      },
      (files: Files) => writeDurably(files, `${folder}/index-1`, new Uint8Array(100)),
    ]) {
      const files = await filled();
      await change(files);
      const plain = await withoutTable(files);
      const loaded = await load(files);
      assert.deepEqual(loaded.objects, plain.objects);
    }
  });

  it("is left alone by who only reads, and is not kept of a store with damage", async () => {
    const files = await filled();
    await files.remove(tablePath);
    await open(files);
    assert.ok(!(await files.list(folder)).includes("table"));
    const [pack] = (await files.list(folder)).filter((name) => name.endsWith(".pack"));
    await writeDurably(files, `${folder}/${pack as string}`, new Uint8Array(64));
    await files.remove(`${folder}/index`);
    await (await open({ ...files, writer })).close();
    assert.ok(!(await files.list(folder)).includes("table"));
  });
});

/** Many packs are written, merged and collected, while places leave the memory; the process ends without a word. */
async function usedAndKilled(files: Files): Promise<PackStore> {
  const store = await openPackStore({ ...files, writer }, folder, {
    clock: manualClock(),
    random: seededRandom(`used ${stores++}`),
    leastTableObjects: 1,
    mostRowsInMemory: 200,
  });
  for (let n = 0; n < 600; n++) {
    await saveTensors(store, testTensor(10_000 + n, 4));
    if (n % 100 === 99) await store.merging.merge({ minPacks: 3, keepFreeBytes: 0 });
  }
  return store;
}

describe("the table of objects while a store is used", () => {
  it("is written with what came, and holds after a kill, also where packs were merged since", async () => {
    const files = await filled();
    const before = Buffer.from(await files.read(tablePath));
    const store = await usedAndKilled(files);
    assert.notDeepEqual(Buffer.from(await files.read(tablePath)), before);
    // Not between the files of the index cache and the table: there it is made anew.
    await pollUntil("a table", async () => (await load(files)).namesSinceTable < Number.POSITIVE_INFINITY);
    const plain = await withoutTable(files);
    const loaded = await load(files);
    assert.ok(loaded.namesSinceTable > 0 && loaded.namesSinceTable < 1000, String(loaded.namesSinceTable));
    assert.deepEqual(loaded.objects, plain.objects);
    assert.equal(loaded.index.generation, plain.index.generation);
    // Its places are in the file, and it is used on.
    const live = new Set([idOfTensor(child), idOfTensor(testTensor(10_007, 4))]);
    await store.collect(await store.planCollection(live), () => live);
    await store.close();
    assert.equal((await load(files)).objects.length, 3);
    assert.deepEqual((await load(files)).objects, (await withoutTable(files)).objects);
  });

  it("is as the store is after it was closed, also where it was first written while the store was used", async () => {
    const files = memoryFiles();
    const store = await usedAndKilled(files);
    await pollUntil("a table", async () => (await load(files)).namesSinceTable < Number.POSITIVE_INFINITY);
    for (let n = 0; n < 100; n++) await saveTensors(store, testTensor(20_000 + n, 4));
    await store.close();
    assert.equal((await load(files)).namesSinceTable, 0);
  });

  it("is written after a few packs of very many objects", async () => {
    const files = memoryFiles();
    const store = await openPackStore({ ...files, writer }, folder, {
      clock: manualClock(),
      random: seededRandom("many objects"),
      mostRowsInMemory: 5000,
    });
    for (let pack = 0; pack < 2; pack++)
      await saveTensors(store, ...Array.from({ length: 3000 }, (_, n) => testTensor(3000 * pack + n, 4)));
    await saveTensors(store, testTensor(0, 5));
    // A load would remove the file under its temporary name.
    await pollUntil("a table", async () => (await files.list(folder)).includes("table"));
    await store.close();
    assert.deepEqual((await load(files)).objects, (await withoutTable(files)).objects);
  });

  it("is made anew by the next start where a page is found damaged", async () => {
    const files = await filled();
    const { objects } = await load(files);
    const store = await open({ ...files, writer });
    const bytes = Buffer.from(await files.read(tablePath));
    bytes[4100] = (bytes[4100] as number) ^ 1;
    // In place, as a disk does: who has the file open reads it.
    const file = await files.open(tablePath, "update");
    await file.write(bytes, 0);
    await file.close();
    const id = idOfTensor(base);
    assert.throws(() => store.has(id), {
      code: "STORE_FAILED",
      message: /start again, and it is made anew/u,
    });
    assert.equal((await store.failed).code, "STORE_FAILED");
    await assert.rejects(saveTensors(store, testTensor(77)), { code: "STORE_FAILED" });
    assert.ok(!(await files.list(folder)).includes("table"));
    const next = await open({ ...files, writer });
    assert.ok(next.has(id));
    await next.close();
    assert.deepEqual((await load(files)).objects, objects);
  });

  it("is not begun by who only reads, or has no space for a file", async () => {
    const files = (await filled()) as FilesToReadNow;
    await files.remove(tablePath);
    const index = (await load(files)).index;
    const begin = mock.method(index, "beginKeeping");
    const refusing = { ...files, open: () => Promise.reject(new StemmaError("DISK_FULL", "Make space.")) };
    await assert.rejects(
      writeTable(refusing, folder, index, { cacheFiles: [], onDamage: (cause) => cause }),
      { code: "DISK_FULL" },
    );
    assert.equal(begin.mock.callCount(), 0);
    await writeTable(files, folder, index, { cacheFiles: [], onDamage: (cause) => cause });
    assert.equal(begin.mock.callCount(), 1);
  });

  it("stays in memory on a full disk, and nothing is lost", async () => {
    const files = await filled();
    const full: Files = {
      ...files,
      rename: (from, to) =>
        to === tablePath
          ? Promise.reject(new StemmaError("DISK_FULL", "The disk is full. Make space."))
          : files.rename(from, to),
    };
    const before = Buffer.from(await files.read(tablePath));
    const store = await usedAndKilled(full);
    await store.close();
    assert.deepEqual(Buffer.from(await files.read(tablePath)), before);
    const loaded = await load(files);
    assert.deepEqual(loaded.objects, (await withoutTable(files)).objects);
    assert.ok(loaded.objects.length > 600);
  });
});
