/** An index that is filled from packs in parts, and with damaged packs among them. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { StemmaError } from "../../../../shared/errors.js";
import { isCached } from "../../../../shared/objects/index-cache.js";
import { loadPacks, type LoadOptions } from "../../../../shared/objects/load-packs.js";
import { PackFiles } from "../../../../shared/objects/pack-files.js";
import { openPackStore, type PackStore } from "../../../../shared/objects/pack-store.js";
import type { Files } from "../../../../shared/ports.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { readBack } from "../../../helpers/coded-tensors.js";
import { loading, saveTensors, testTensor } from "../../../helpers/object-stores.js";

const folder = "/packs";
const writer = { assertHeld: () => Promise.resolve(), identityOf: () => Promise.resolve(undefined) };
const open = (files: Files): Promise<PackStore> =>
  openPackStore(files, folder, { clock: manualClock(), random: seededRandom("filled") });

/** Packs of two tensors each, without cache and table. */
async function packsOf(count: number): Promise<Files> {
  const files = memoryFiles();
  const store = await open(files);
  for (let n = 0; n < count; n++) await saveTensors(store, testTensor(n, 20), testTensor(1000 + n, 20));
  await store.close();
  for (const name of await files.list(folder))
    if (!name.endsWith(".pack")) await files.remove(`${folder}/${name}`);
  return files;
}

async function load(files: Files, options: Partial<LoadOptions> = {}) {
  const { index } = await loadPacks(files, folder, new PackFiles(files, folder), { ...loading, ...options });
  const ids = [...index.list()].map(({ id }) => id).sort();
  return { index, ids };
}

describe("an index that is filled in parts", () => {
  it("has in memory what it may have, and finds all", async () => {
    const files = await packsOf(600);
    const { ids: expected } = await load(files);
    assert.equal(expected.length, 1200);
    const { index, ids } = await load({ ...files, writer }, { mostRows: 100, mostIndexBytes: 0 });
    assert.deepEqual(ids, expected);
    assert.ok(index.rowsInMemory <= 100, `${index.rowsInMemory} rows are in memory`);
    assert.ok([...index.packs.values()].every((pack) => !pack.isInMemory));
    assert.equal(index.generation, (await load(files)).index.generation);
  });

  it("tells how many packs it has added, and ends where it is told to", async () => {
    const files = await packsOf(70);
    const told: string[] = [];
    await load(files, { onPacks: ({ read, all }) => told.push(`${read}/${all}`) });
    assert.deepEqual(told, ["32/70", "64/70", "70/70"]);
    const store = await open(files);
    await store.close();
    for (const name of await files.list(folder))
      if (name.includes("table")) await files.remove(`${folder}/${name}`);
    told.length = 0;
    await load(files, { onPacks: ({ read, all }) => told.push(`${read}/${all}`) });
    assert.deepEqual(told, ["70/70"], "those of a cache file are there at once");
    const ended = load(files, {
      onPacks: () => {
        throw new Error("Ctrl-C");
      },
    });
    await assert.rejects(ended, { message: "Ctrl-C" });
  });

  it("keeps its rows in memory where nothing can be written", async () => {
    const files = await packsOf(300);
    const full: Files = {
      ...files,
      writer,
      open: (path, mode) =>
        mode === "create"
          ? Promise.reject(new StemmaError("DISK_FULL", "The disk is full."))
          : files.open(path, mode),
    };
    const { ids: expected } = await load(files);
    for (const each of [full, files]) {
      const { index, ids } = await load(each, { mostRows: 100 });
      assert.deepEqual(ids, expected);
      assert.equal(index.rowsInMemory, 600);
    }
  });

  it("keeps in memory what it made of a large pack whose own index is damaged", async () => {
    const files = memoryFiles();
    const store = await open(files);
    const tensors = Array.from({ length: 4500 }, (_, n) => testTensor(n, 400));
    const ids = await saveTensors(store, ...tensors);
    const [pack] = store.packs();
    await store.close();
    const path = `${folder}/${pack?.name}.pack`;
    const bytes = await files.read(path);
    // Within the index, which is at the end.
    const at = bytes.length - 1000;
    const file = await files.open(path, "update");
    await file.write(Uint8Array.of((bytes[at] as number) ^ 1), at);
    await file.close();
    await files.remove(`${folder}/table`);
    const damaged = await open(files);
    assert.equal(damaged.problems().length, 1);
    const { index } = await load(files);
    assert.deepEqual(
      [...index.packs.values()].map((each) => isCached(each)),
      [false],
    );
    let read = 0;
    for (const id of ids) if (damaged.has(id)) read += (await readBack(damaged, id)).length;
    assert.ok(read >= 400 * 4490, `${read} bytes were read`);
    await damaged.close();
  });
});
