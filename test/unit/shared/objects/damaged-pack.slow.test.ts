/**
 * A pack that changed on the disk gives typed errors, never a wrong tensor. Its other tensors stay readable,
 * nothing is collected, and a new copy repairs it.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { restoreAdvice } from "../../../../shared/objects/object-errors.js";
import { openPackStore, type PackStore } from "../../../../shared/objects/pack-store.js";
import type { Files } from "../../../../shared/ports.js";
import { keepHighPlanes } from "../../../../shared/objects/high-planes.js";
import { tensorOfSource, type Hash, type Tensor } from "../../../../shared/tensor/tensor.js";
import { hasCode, saveTensors, testTensor } from "../../../helpers/object-stores.js";
import { codedAgainst, idOfTensor, memberOf, readBack, writePack } from "../../../helpers/coded-tensors.js";
import { weights } from "../../../helpers/related-tensors.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";

const folder = "/home/packs";
const open = (files: Files, seed = "s"): Promise<PackStore> =>
  openPackStore(files, folder, { clock: manualClock(), random: seededRandom(seed) });
const tensors = [testTensor(1, 50), testTensor(2, 60)];

async function written(): Promise<{
  readonly files: Files;
  readonly pack: string;
  readonly ids: readonly Hash[];
  readonly other: Hash;
}> {
  const files = memoryFiles();
  const store = await open(files);
  const ids = await saveTensors(store, ...tensors);
  const writer = await store.begin();
  await writer.put("names", new Uint8Array([1, 2, 3]));
  await writer.commit();
  const pack = join(folder, `${store.packs()[0]?.name}.pack`);
  const [other] = (await saveTensors(store, testTensor(3))) as [Hash];
  await store.close();
  await files.remove(join(folder, "index"));
  return { files, pack, ids, other };
}

async function replace(files: Files, path: string, bytes: Uint8Array): Promise<void> {
  await files.remove(path);
  const file = await files.open(path, "create");
  await file.write(bytes, 0);
  await file.close();
}

it("finds every flipped bit, and never returns a wrong tensor", async () => {
  const { files, pack, ids, other } = await written();
  const original = await files.read(pack);
  let unnoticed = 0;
  for (let at = 0; at < original.length; at++) {
    const bytes = original.slice();
    bytes[at] = (bytes[at] as number) ^ (1 << (at % 8));
    await replace(files, pack, bytes);
    const store = await open(files);
    for (const [i, id] of ids.entries()) {
      try {
        assert.deepEqual(
          (await tensorOfSource(store.openTensor(id))).bytes,
          (tensors[i] as { bytes: Uint8Array }).bytes,
          `byte ${at}`,
        );
      } catch (error) {
        assert.ok(
          isStemmaError(error) && ["OBJECT_MISSING", "OBJECT_HASH_MISMATCH"].includes(error.code),
          `byte ${at}: ${String(error)}`,
        );
      }
    }
    assert.equal((await tensorOfSource(store.openTensor(other))).bytes.length, 100);
    if (store.problems().length === 0) unnoticed++;
    else await assert.rejects(() => store.planCollection(new Set([other])), hasCode("COLLECTION_REFUSED"));
    await store.close();
    await files.remove(join(folder, "index"));
  }
  // The padding zeros of the header are not read.
  assert.equal(unnoticed, 20);
});

it("does not read past the end of a truncated pack", async () => {
  const { files, pack, ids } = await written();
  const original = await files.read(pack);
  for (let length = 0; length < original.length; length++) {
    await replace(files, pack, original.slice(0, length));
    const store = await open(files);
    assert.equal(store.problems().length, 1, `length ${length}`);
    assert.ok(isStemmaError(store.problems()[0]?.error));
    // The index is found as long as only the trailer is cut.
    const [first] = ids as [Hash];
    assert.equal(store.has(first), length >= original.length - 64, `length ${length}`);
    if (store.has(first))
      assert.deepEqual((await tensorOfSource(store.openTensor(first))).bytes, tensors[0]?.bytes);
    await store.close();
  }
});

it("advises what brings a damaged object back: devices do not send engines or evaluations", () => {
  assert.match(restoreAdvice("tensor"), /let a device that has it send it again/);
  assert.match(restoreAdvice("names"), /let a device that has it send it again/);
  assert.match(restoreAdvice("engine"), /replay engine approve/);
  assert.match(restoreAdvice("evaluation"), /evaluate the model again/);
  for (const kind of ["engine", "evaluation", "predictions"] as const)
    assert.doesNotMatch(restoreAdvice(kind), /device/);
});

it("names the kind and the advice of a damaged engine", async () => {
  const files = memoryFiles();
  const store = await open(files);
  const writer = await store.begin();
  const bytes = new Uint8Array(100).fill(7);
  const id = await writer.putStream("engine", {
    async *chunks() {
      yield await Promise.resolve(bytes);
    },
  });
  await writer.commit();
  const pack = join(folder, `${store.packs()[0]?.name}.pack`);
  await store.close();
  const changed = (await files.read(pack)).slice();
  const at = Buffer.from(changed).indexOf(Buffer.from(bytes));
  changed[at + 50] = 8;
  await replace(files, pack, changed);
  const damaged = await open(files);
  await assert.rejects(damaged.read("engine", id), {
    code: "OBJECT_HASH_MISMATCH",
    message: /object \(engine\).*replay engine approve/,
  });
  await damaged.close();
});

it("reports a damaged object as missing, and accepts a new copy", async () => {
  const { files, pack, ids } = await written();
  const bytes = await files.read(pack);
  bytes[40] = (bytes[40] as number) ^ 1;
  await replace(files, pack, bytes);
  const store = await open(files);
  const [first, second] = ids as [Hash, Hash];
  assert.ok(store.has(first));
  await assert.rejects(() => tensorOfSource(store.openTensor(first)), hasCode("OBJECT_HASH_MISMATCH"));
  assert.ok(!store.has(first) && store.has(second));
  await assert.rejects(
    () => store.commitReferences([first], () => Promise.resolve()),
    hasCode("REFERENCE_MISSING"),
  );
  assert.deepEqual(await saveTensors(store, tensors[0] as (typeof tensors)[0] & object), [first]);
  assert.deepEqual((await tensorOfSource(store.openTensor(first))).bytes, tensors[0]?.bytes);
  assert.deepEqual(store.problems(), []);
  // The next collection removes the damaged copy.
  const live = new Set([...store.list()].map(({ id }) => id));
  const plan = await store.planCollection(live);
  assert.equal(plan.dead.length, 0);
  assert.equal(plan.repackPacks.length, 1);
  const { freedBytes } = await store.collect(plan, () => live);
  assert.equal(freedBytes, plan.bytesBefore - plan.bytesAfter);
  for (const [i, id] of ids.entries())
    assert.deepEqual((await tensorOfSource(store.openTensor(id))).bytes, tensors[i]?.bytes);
  await store.close();
});

it("does not carry damage into a new pack", async () => {
  const { files, pack, ids, other } = await written();
  const bytes = await files.read(pack);
  bytes[40] = (bytes[40] as number) ^ 1;
  await replace(files, pack, bytes);
  const store = await open(files);
  const live = new Set([ids[0] as Hash, other]);
  const before = await files.list(folder);
  await assert.rejects(
    async () => store.collect(await store.planCollection(live), () => live),
    hasCode("OBJECT_HASH_MISMATCH"),
  );
  // Packs without live objects may be gone; nothing was written, and the damaged pack stays as it is.
  const after = await files.list(folder);
  assert.deepEqual(
    after.filter((file) => !before.includes(file)),
    [],
  );
  assert.deepEqual(await files.read(pack), bytes);
  await store.close();
  const reopened = await open(files);
  assert.ok(reopened.has(ids[1] as Hash));
  await reopened.close();
});

it("opens with a missing, torn, garbled or older index cache", async () => {
  const { files, ids } = await written();
  const first = await open(files);
  await saveTensors(first, testTensor(9));
  await first.close();
  const cache = await files.read(join(folder, "index"));
  for (const bytes of [
    cache,
    cache.slice(0, -1),
    cache.slice(0, 50),
    new Uint8Array(0),
    new Uint8Array(500).fill(7),
    cache.map((byte, i) => (i === 200 ? byte ^ 1 : byte)),
  ]) {
    await replace(files, join(folder, "index"), bytes);
    const store = await open(files);
    assert.equal([...store.list()].length, 5);
    assert.deepEqual(store.problems(), []);
    assert.equal((await tensorOfSource(store.openTensor(ids[0] as Hash))).bytes.length, 50);
    await store.close();
  }
});

it("removes what a crash left, and reports foreign files", async () => {
  const { files } = await written();
  await replace(files, join(folder, "0011.tmp"), new Uint8Array(10));
  await replace(files, join(folder, "holiday.pack"), new Uint8Array(10));
  const store = await open(files);
  assert.deepEqual(
    store.problems().map(({ pack, error }) => [pack, error.code]),
    [["holiday", "PACK_CORRUPT"]],
  );
  assert.ok(!(await files.list(folder)).includes("0011.tmp"));
  await store.close();
});

it("finds every flipped bit of coded tensors too, and names the damaged tensor, not those coded against it", async () => {
  const files = memoryFiles();
  const store = await open(files);
  const [base, child, grandchild] = [0, 1, 2].map((member) => memberOf(1, member, [4, 12])) as [
    Tensor,
    Tensor,
    Tensor,
  ];
  await writePack(store, [codedAgainst(base)]);
  const basePack = store.packs()[0]!.path;
  await writePack(store, [
    codedAgainst(child, base, undefined, "planes"),
    codedAgainst(grandchild, child, base),
  ]);
  const childPack = store.packs()[1]!.path;
  const inBase = store.stat(idOfTensor(base))!.storedBytes;
  const inPlanes = store.stat(idOfTensor(child))!.storedBytes;
  const inChild = inPlanes + store.stat(idOfTensor(grandchild))!.storedBytes;
  await store.close();
  for (const [path, length, atFault] of [
    [basePack, inBase, () => base],
    [childPack, inChild, (at: number) => (at < inPlanes ? child : grandchild)],
  ] as const) {
    const original = await files.read(path);
    for (let at = 0; at < length; at++) {
      await replace(
        files,
        path,
        original.map((byte, i) => (i === 32 + at ? byte ^ (1 << (at % 8)) : byte)),
      );
      const damaged = await open(files);
      const faulty = idOfTensor(atFault(at));
      let unread = 0;
      for (const tensor of [grandchild, child, base, grandchild]) {
        const id = idOfTensor(tensor);
        try {
          assert.deepEqual(await readBack(damaged, id), tensor.bytes);
          assert.ok(damaged.has(id));
        } catch (error) {
          assert.ok(
            isStemmaError(error) && ["OBJECT_HASH_MISMATCH", "PACK_CORRUPT"].includes(error.code),
            `byte ${at}: ${String(error)}`,
          );
          assert.ok(
            error.message.includes(faulty) && !damaged.has(id) && damaged.encodingOf(id) === undefined,
            error.message,
          );
          unread++;
        }
      }
      // A bit that no decoder reads changes nothing. Otherwise the damaged tensor is named once, and nothing is
      // collected.
      if (unread > 0)
        assert.deepEqual(
          damaged.problems().map(({ id }) => id),
          [faulty],
        );
      if (unread > 0)
        await assert.rejects(() => damaged.planCollection(new Set()), hasCode("COLLECTION_REFUSED"));
      for (const planes of [1, 2, 3])
        await damaged.readHighPlanes(idOfTensor(child), planes).then(
          ({ bytes }) => {
            assert.deepEqual(bytes, keepHighPlanes(child.bytes, 4, planes));
          },
          (error: unknown) => {
            assert.ok(isStemmaError(error), String(error));
          },
        );
      await damaged.close();
    }
    await replace(files, path, original);
  }
});

it("finds every flipped bit of the bytes that fixed planes are read from", async () => {
  const files = memoryFiles();
  const store = await open(files);
  const kernel = weights([12, 10], 31);
  const id = idOfTensor(kernel);
  await writePack(store, [codedAgainst(kernel, undefined, undefined, "fixed")]);
  const { path } = store.packs()[0]!;
  const { storedBytes } = store.stat(id)!;
  const original = await files.read(path);
  const levels = await Promise.all([1, 2, 3].map((planes) => store.readFixedPlanes(id, planes)));
  await store.close();
  let read = 0;
  for (let at = 0; at < storedBytes; at++) {
    await replace(
      files,
      path,
      original.map((byte, i) => (i === 32 + at ? byte ^ (1 << (at % 8)) : byte)),
    );
    const damaged = await open(files);
    for (const planes of [1, 2, 3]) {
      await damaged.readFixedPlanes(id, planes).then(
        (found) => {
          assert.deepEqual(found, levels[planes - 1]);
          read++;
        },
        (error: unknown) => {
          assert.ok(
            isStemmaError(error) && ["OBJECT_HASH_MISMATCH", "PACK_CORRUPT"].includes(error.code),
            String(error),
          );
        },
      );
    }
    await assert.rejects(readBack(damaged, id), (error) => isStemmaError(error));
    await damaged.close();
  }
  // Damage after the requested planes does not affect them.
  assert.ok(read > 0 && read < 2 * storedBytes, `${read} of ${3 * storedBytes}`);
});

it("reads tensors coded against a damaged one again after a new copy of it, raw or coded, also after reopening", async () => {
  for (const healing of [(tensor: Tensor) => tensor, (tensor: Tensor) => codedAgainst(tensor)]) {
    const files = memoryFiles();
    const store = await open(files);
    const [base, child] = [memberOf(1, 0), memberOf(1, 1)];
    await writePack(store, [base]);
    const { path } = store.packs()[0]!;
    await writePack(store, [codedAgainst(child, base)]);
    await replace(
      files,
      path,
      (await files.read(path)).map((byte, i) => (i === 50 ? byte ^ 1 : byte)),
    );
    await store.close();
    const damaged = await open(files);
    await assert.rejects(() => readBack(damaged, child), hasCode("OBJECT_HASH_MISMATCH"));
    await assert.rejects(
      () => writePack(damaged, [codedAgainst(memberOf(1, 2), child)]),
      hasCode("REFERENCE_MISSING"),
    );
    await writePack(damaged, [healing(base)]);
    assert.deepEqual(damaged.problems(), []);
    assert.deepEqual(await readBack(damaged, child), child.bytes);
    await damaged.close();
    // The damaged copy is still there; the other one is read, whichever pack is found first.
    const again = await open(files);
    for (const tensor of [base, child]) assert.deepEqual(await readBack(again, tensor), tensor.bytes);
    await again.close();
  }
});

it("names the missing tensor when the pack with a base of others is gone", async () => {
  const files = memoryFiles();
  const store = await open(files);
  const [base, child] = [memberOf(1, 0), memberOf(1, 1)];
  await writePack(store, [base]);
  const { path } = store.packs()[0]!;
  await writePack(store, [codedAgainst(child, base)]);
  await store.close();
  await files.remove(path);
  const left = await open(files);
  const id = idOfTensor(child);
  assert.ok(!left.has(id));
  assert.throws(
    () => left.openTensor(id),
    (error) => hasCode("OBJECT_MISSING")(error) && (error as Error).message.includes(idOfTensor(base)),
  );
  await assert.rejects(
    () => left.planCollection(new Set([id])),
    (error) => hasCode("COLLECTION_REFUSED")(error) && (error as Error).message.includes(idOfTensor(base)),
  );
  // Saved again raw, it no longer needs the other one.
  await writePack(left, [child]);
  assert.deepEqual(await readBack(left, child), child.bytes);
  await left.close();
});

it("reads the disk for a verification, whatever is cached", async () => {
  const files = memoryFiles();
  const store = await open(files);
  const [base, child] = [memberOf(1, 0), memberOf(1, 1)];
  const id = idOfTensor(base);
  await writePack(store, [codedAgainst(base)]);
  const { path } = store.packs()[0]!;
  await writePack(store, [codedAgainst(child, base)]);
  assert.deepEqual(await readBack(store, child), child.bytes);
  // The pack is damaged while the store has it open and has cached what it decoded.
  const file = await files.open(path, "update");
  const stored = store.stat(id)!.storedBytes;
  const byte = new Uint8Array(1);
  await file.read(byte, 32 + stored - 30);
  await file.write(Uint8Array.of(byte[0]! ^ 16), 32 + stored - 30);
  await file.close();
  assert.deepEqual(await readBack(store, base), base.bytes);
  await assert.rejects(
    () => tensorOfSource(store.openTensor(id, { fromDisk: true })),
    (error) => isStemmaError(error) && ["OBJECT_HASH_MISMATCH", "PACK_CORRUPT"].includes(error.code),
  );
  assert.ok(!store.has(id) && !store.has(idOfTensor(child)));
  await store.close();
});
