/** The index cache in several files: what is new is added, what is mostly gone is written again, all of it is read. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { CompactPack } from "../../../../shared/objects/compact-pack.js";
import {
  decodeIndexCache,
  encodeIndexCache,
  type CacheFile,
} from "../../../../shared/objects/index-cache.js";
import { loadPacks, writeCache } from "../../../../shared/objects/load-packs.js";
import { PackFiles } from "../../../../shared/objects/pack-files.js";
import { openPackStore } from "../../../../shared/objects/pack-store.js";
import type { Files } from "../../../../shared/ports.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { loading, saveTensors, testTensor } from "../../../helpers/object-stores.js";

const folder = "/packs";
const limits = { fileBytes: 1200, smallBytes: 600 };

function openStore(files: Files) {
  return openPackStore(files, folder, { clock: manualClock(), random: seededRandom(1) });
}

/** Opens the packs, and counts those that were read because no cache file has them. */
async function load(files: Files) {
  let read = 0;
  const counting: Files = {
    ...files,
    open: (path, mode) => {
      if (path.endsWith(".pack")) read++;
      return files.open(path, mode);
    },
  };
  const opened = await loadPacks(counting, folder, new PackFiles(counting, folder), loading);
  return { ...opened, read };
}

async function write(files: Files, present: readonly CacheFile[]): Promise<readonly CacheFile[]> {
  const { index, problems: damaged } = await load(files);
  return writeCache(files, folder, index, { damaged, present, ...limits });
}

test("packs are in several cache files, and each start reads only what is new", async () => {
  const files = memoryFiles();
  const store = await openStore(files);
  for (let n = 0; n < 40; n++) await saveTensors(store, testTensor(n));
  await store.close();
  const first = await load(files);
  assert.equal(first.read, 0);
  const written = await write(files, []);
  assert.ok(written.length > 4, `${written.length} files`);
  assert.deepEqual(written.map(({ name }) => name).slice(0, 3), ["index", "index-1", "index-2"]);
  const again = await load(files);
  assert.equal(again.read, 0);
  assert.equal(again.index.packs.size, 40);
  assert.deepEqual([...again.index.list()], [...first.index.list()]);

  // New packs are added, and files that are large enough stay as they are.
  const more = await openStore(files);
  for (let n = 40; n < 46; n++) await saveTensors(more, testTensor(n));
  const before = new Map<string, Uint8Array>();
  for (const { name } of again.cacheFiles) before.set(name, await files.read(`${folder}/${name}`));
  const grown = await write(files, again.cacheFiles);
  const kept = grown.filter(({ name }) => before.has(name));
  assert.ok(kept.length >= again.cacheFiles.length - 1);
  assert.equal((await load(files)).read, 0);

  // A damaged file costs its packs only.
  const [damaged] = grown;
  assert.ok(damaged !== undefined);
  const path = `${folder}/${damaged.name}`;
  await writeDurably(files, path, (await files.read(path)).slice(0, -1));
  const partly = await load(files);
  assert.equal(partly.read, damaged.packs.length);
  assert.equal(partly.index.packs.size, 46);
  assert.deepEqual(partly.problems, []);

  // Packs that are gone take their files with them.
  for (const name of [...partly.index.packs.keys()].slice(0, 44))
    await files.remove(`${folder}/${name}.pack`);
  const few = await write(files, partly.cacheFiles);
  assert.equal(few.flatMap(({ packs }) => packs).length >= 2, true);
  assert.ok(few.length <= 2, `${few.length} files`);
  const left = (await files.list(folder)).filter((name) => name.startsWith("index"));
  assert.deepEqual(left.sort(), few.map(({ name }) => name).sort());
  assert.equal((await load(files)).read, 0);
});

test("a cache has more packs than a call takes arguments", () => {
  const packs = Array.from({ length: 70_000 }, (_, n) =>
    CompactPack.of({
      name: `${n.toString(16).padStart(64, "0")}.${"0".repeat(16)}`,
      bytes: 1000,
      entries: [],
    }),
  );
  const names = new Set(packs.map(({ name }) => name));
  assert.equal(decodeIndexCache(encodeIndexCache(packs), names).size, packs.length);
});
