/**
 * Damage in a pack's header, trailer or index, and missing packs: found by reading, read around as far as
 * anything is left, reported, and repaired without deleting anything.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "node:test";
import { openPackStore, type PackStore } from "../../../../shared/objects/pack-store.js";
import type { Files } from "../../../../shared/ports.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import { codedAgainst, idOfTensor, memberOf, readBack, writePack } from "../../../helpers/coded-tensors.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { hasCode, testTensor } from "../../../helpers/object-stores.js";

const folder = "/home/packs";
const indexCache = join(folder, "index");
const open = (files: Files, seed = "s"): Promise<PackStore> =>
  openPackStore(files, folder, { clock: manualClock(), random: seededRandom(seed) });

interface Written {
  readonly files: Files;
  /** Path of the pack that is damaged, and its bytes. */
  readonly path: string;
  readonly bytes: Uint8Array;
  /** Where the objects of the pack end and its index begins. */
  readonly indexOffset: number;
  readonly tensors: readonly Tensor[];
}

const [base, child] = [memberOf(1, 0, [4, 9]), memberOf(1, 1, [4, 9])];

/** A store with a pack of raw tensors (format 1), or of raw and coded ones (format 2), and another pack. */
async function written(format: 1 | 2): Promise<Written> {
  const files = memoryFiles();
  const store = await open(files);
  await writePack(store, [base]);
  const raw = [testTensor(1, 50), testTensor(2, 60)];
  const { pack } = await writePack(store, format === 1 ? raw : [...raw, codedAgainst(child, base)]);
  await store.close();
  const path = join(folder, `${pack}.pack`);
  const bytes = await files.read(path);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const tensors = format === 1 ? raw : [...raw, child];
  assert.equal(view.getUint32(8, true), format);
  return { files, path, bytes, indexOffset: Number(view.getBigUint64(bytes.length - 64, true)), tensors };
}

async function replace(files: Files, path: string, bytes: Uint8Array): Promise<void> {
  await files.remove(path);
  const file = await files.open(path, "create");
  await file.write(bytes, 0);
  await file.close();
}

function flipped(bytes: Uint8Array, at: number, bit: number): Uint8Array {
  const copy = bytes.slice();
  copy[at] = (copy[at] as number) ^ (1 << bit);
  return copy;
}

async function assertAllRead(store: PackStore, tensors: readonly Tensor[], why: string): Promise<void> {
  for (const tensor of tensors) assert.deepEqual(await readBack(store, tensor), tensor.bytes, why);
}

for (const format of [1, 2] as const)
  it(`format ${format}: any flipped bit of header, trailer or index is reported, and everything is read`, async () => {
    const { files, path, bytes, indexOffset, tensors } = await written(format);
    // The padding zeros of the header are not read.
    const outside = [...Array.from({ length: 12 }, (_, at) => at)];
    for (let at = indexOffset; at < bytes.length; at += 3) outside.push(at);
    for (const at of outside) {
      await files.remove(indexCache);
      await replace(files, path, flipped(bytes, at, (at * 5) % 8));
      const store = await open(files);
      await assertAllRead(store, tensors, `byte ${at}`);
      assert.equal(store.problems().length, 1, `byte ${at}`);
      await store.close();
    }
  });

it("finds damage that the index cache or memory hides, once the packs are inspected", async () => {
  const { files, path, bytes, tensors } = await written(1);
  await files.remove(indexCache);
  await (await open(files)).close();
  const running = await open(files);
  await files.remove(indexCache);
  for (const at of [0, bytes.length - 1, bytes.length - 40, bytes.length - 70]) {
    await replace(files, path, flipped(bytes, at, 3));
    await running.maintenance.inspect();
    assert.deepEqual(
      running.problems().map(({ error }) => error.code),
      ["PACK_CORRUPT"],
      `byte ${at}`,
    );
    await assertAllRead(running, tensors, `byte ${at}`);
  }
  await replace(files, path, bytes);
  await running.maintenance.inspect();
  assert.deepEqual(running.problems(), []);
  await running.close();
});

it("finds an index without its trailer, and keeps what it can of an index with several damaged entries", async () => {
  const { files, path, bytes, indexOffset, tensors } = await written(1);
  for (const cut of [1, 30, 64]) {
    await files.remove(indexCache);
    await replace(files, path, bytes.slice(0, bytes.length - cut));
    const store = await open(files);
    await assertAllRead(store, tensors, `${cut} bytes cut off`);
    assert.equal(store.problems().length, 1);
    await store.close();
  }
  await files.remove(indexCache);
  // Two bits of the first entry's id: its tensor cannot be named any more, the second one can.
  await replace(files, path, flipped(flipped(bytes, indexOffset + 8, 0), indexOffset + 9, 0));
  for (let opened = 0; opened < 2; opened++) {
    const store = await open(files);
    const [first, second] = tensors as [Tensor, Tensor];
    assert.deepEqual(await readBack(store, second), second.bytes);
    assert.ok(!store.has(idOfTensor(first)));
    assert.throws(() => store.openTensor(idOfTensor(first)), hasCode("OBJECT_MISSING"));
    assert.equal(store.problems().length, 1);
    // The incomplete index is not kept as if it were the pack's.
    await store.close();
  }
});

it("forgets the objects of a pack that is missing, and knows them again when it is put back", async () => {
  const { files, path, bytes, tensors } = await written(2);
  const store = await open(files);
  await files.remove(path);
  await store.maintenance.inspect();
  assert.deepEqual(
    store.problems().map(({ error }) => error.code),
    ["FILE_MISSING"],
  );
  for (const tensor of tensors) assert.ok(!store.has(idOfTensor(tensor)));
  await assert.rejects(() => store.planCollection(new Set()), hasCode("COLLECTION_REFUSED"));
  await replace(files, path, bytes);
  await store.maintenance.inspect();
  assert.deepEqual(store.problems(), []);
  await assertAllRead(store, tensors, "put back");
  await store.close();
});

it("a repair rewrites what is whole, sets the damaged file aside, and allows collections again", async () => {
  for (const at of ["header", "object"] as const) {
    const { files, path, bytes, tensors } = await written(2);
    await files.remove(indexCache);
    const damaged = flipped(bytes, at === "header" ? 1 : 40, 2);
    await replace(files, path, damaged);
    const store = await open(files);
    const [first, ...others] = tensors as [Tensor, ...Tensor[]];
    if (at === "object") await assert.rejects(readBack(store, first), hasCode("OBJECT_HASH_MISMATCH"));
    const [repaired, ...none] = await store.maintenance.repair();
    assert.equal(none.length, 0);
    assert.deepEqual(repaired?.lost, at === "header" ? [] : [idOfTensor(first)]);
    assert.equal(repaired?.kept, at === "header" ? 3 : 2);
    assert.deepEqual(await files.read(repaired?.setAside as string), damaged);
    assert.deepEqual(store.problems(), []);
    assert.equal(store.has(idOfTensor(first)), at === "header");
    await store.planCollection(new Set(others.map(idOfTensor)));
    await store.close();
    const again = await open(files);
    await assertAllRead(again, at === "header" ? tensors : others, at);
    await again.maintenance.inspect();
    assert.deepEqual(again.problems(), []);
    await again.close();
  }
});

it("reads another copy of an object whose pack is replaced or missing", async () => {
  const files = memoryFiles();
  const store = await open(files);
  const tensor = testTensor(5, 80);
  await writePack(store, [tensor]);
  const { pack } = await writePack(store, [codedAgainst(tensor)], { recode: true });
  await files.remove(join(folder, `${pack}.pack`));
  await store.maintenance.inspect();
  await assertAllRead(store, [tensor], "the older copy");
  assert.equal(store.encodingOf(idOfTensor(tensor))?.code, 0);
  await store.close();
});
