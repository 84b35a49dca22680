/**
 * Memory stays bounded for an object of any size: no buffer that is read or written is larger than 4 MiB, on
 * every path that a stream takes through a pack store. A damaged stream is found on each of them.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "node:test";
import { openPackStore, type PackStore } from "../../../../shared/objects/pack-store.js";
import type { Files } from "../../../../shared/ports.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { hasCode, streamOf, testTensor } from "../../../helpers/object-stores.js";

const MiB = 1024 * 1024;
const largestBuffer = 4 * MiB;
const objectBytes = 13 * MiB + 1;
const folder = "/home/packs";
const open = (files: Files, seed = "s"): Promise<PackStore> =>
  openPackStore(files, folder, { clock: manualClock(), random: seededRandom(seed) });

/** Files that note the lengths of buffers that are read or written. */
function measured(files: Files): Files & { lengths: number[] } {
  const measuring: Files & { lengths: number[] } = {
    ...files,
    lengths: [],
    async open(path, mode) {
      const file = await files.open(path, mode);
      const note = ({ length }: Uint8Array): void => {
        measuring.lengths.push(length);
      };
      return {
        read: (target, at) => {
          note(target);
          return file.read(target, at);
        },
        write: (bytes, at) => {
          note(bytes);
          return file.write(bytes, at);
        },
        size: () => file.size(),
        truncate: (size) => file.truncate(size),
        sync: () => file.sync(),
        close: () => file.close(),
      };
    },
  };
  return measuring;
}

const bytes = testTensor(1, objectBytes).bytes;

async function written(
  files: Files,
): Promise<{ readonly data: Hash; readonly gone: Hash; readonly pack: string }> {
  const store = await open(files);
  const writer = await store.begin();
  const data = await writer.putStream("data", streamOf(bytes, MiB));
  const gone = await writer.putStream("engine", streamOf(testTensor(2).bytes));
  await writer.commit();
  const pack = store.packs()[0]?.name as string;
  await store.close();
  return { data, gone, pack };
}

async function drain(pieces: AsyncIterable<Uint8Array>): Promise<number> {
  let count = 0;
  for await (const piece of pieces) {
    assert.ok(piece.length <= largestBuffer);
    count += piece.length;
  }
  return count;
}

it("writes, reads, checks, rewrites and rebuilds a large stream with buffers of at most 4 MiB", async () => {
  const memory = memoryFiles();
  const files = measured(memory);
  const { data, gone, pack } = await written(files);
  let store = await open(files);
  assert.equal(await drain(store.openStream("data", data).chunks()), objectBytes);
  assert.equal((await store.openStream("data", data).range(7 * MiB, 100)).length, 100);
  await assert.rejects(
    () => store.openStream("data", data).range(0, largestBuffer + 1),
    hasCode("SIZE_OVER_LIMIT"),
  );
  for await (const error of store.maintenance.verify(pack)) assert.fail(String(error));
  await store.close();
  assert.ok(Math.max(...files.lengths) <= largestBuffer);
  assert.ok(Math.max(...files.lengths) >= MiB, "nothing was measured");
  // Without trailer and index cache the index is rebuilt, for which every object is hashed.
  const path = join(folder, `${pack}.pack`);
  const size = (await memory.stat(path))?.size as number;
  const file = await memory.open(path, "update");
  await file.write(new Uint8Array([1]), size - 64 - 2 * 64 + 8);
  await file.close();
  await memory.remove(join(folder, "index"));
  files.lengths = [];
  store = await open(files);
  assert.equal(store.problems().length, 1);
  // The search for an index reads up to 64 MiB of the file's end once.
  assert.equal(files.lengths.filter((length) => length > largestBuffer).length, 1);
  files.lengths = [];
  assert.ok(store.has(data) || store.has(gone));
  await store.maintenance.repair();
  assert.deepEqual(store.problems(), []);
  const live = new Set([data].filter((id) => store.has(id)));
  await store.collect(await store.planCollection(live), () => live);
  assert.ok(Math.max(...files.lengths) <= largestBuffer);
  await store.close();
});

it("finds a flipped bit of a large stream when it is read, ranged, checked and rewritten", async () => {
  const files = memoryFiles();
  const { data, pack } = await written(files);
  const path = join(folder, `${pack}.pack`);
  const file = await files.open(path, "update");
  await file.write(new Uint8Array([(bytes[8 * MiB] as number) ^ 1]), 32 + 8 * MiB);
  await file.close();
  const mismatch = hasCode("OBJECT_HASH_MISMATCH");
  const store = await open(files);
  await assert.rejects(() => store.openStream("data", data).range(0, 10), mismatch);
  await store.close();
  for (const use of [
    (opened: PackStore) => drain(opened.openStream("data", data).chunks()),
    (opened: PackStore) => opened.read("data", data),
    async (opened: PackStore) =>
      opened.collect(await opened.planCollection(new Set([data])), () => new Set([data])),
  ]) {
    const opened = await open(files);
    await assert.rejects(() => use(opened), mismatch);
    assert.ok(!opened.has(data), "a damaged object is not offered any more");
    await opened.close();
  }
  const checked = await open(files);
  const found: unknown[] = [];
  for await (const error of checked.maintenance.verify(pack)) found.push(error);
  assert.ok(found.length === 1 && mismatch(found[0]));
  // A new copy repairs it.
  const writer = await checked.begin();
  await writer.putStream("data", streamOf(bytes, MiB), data);
  await writer.commit();
  assert.equal(await drain(checked.openStream("data", data).chunks()), objectBytes);
  await checked.close();
});
