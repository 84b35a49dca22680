/**
 * An index that cannot be read while it is changed, such as at a disk error, may have wrong counts afterwards: the
 * store ends writing until it is opened again, and keeps no table of it.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { StemmaError } from "../../../../shared/errors.js";
import { openPackStore, type PackStore } from "../../../../shared/objects/pack-store.js";
import type { Files, FilesToReadNow } from "../../../../shared/ports.js";
import { codedAgainst, idOfTensor, memberOf, writePack } from "../../../helpers/coded-tensors.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { hasCode, saveTensors, testTensor } from "../../../helpers/object-stores.js";

const folder = "/packs";
const base = memberOf(0, 0);
const child = memberOf(0, 1);

let stores = 0;
const open = (files: Files): Promise<PackStore> =>
  openPackStore(files, folder, {
    clock: manualClock(),
    random: seededRandom(`unreadable ${stores++}`),
    leastTableObjects: 1,
  });

/** A store whose table and indexes are in files, which fail from some read on. */
async function onFailingDisk() {
  const inner = memoryFiles();
  const first = await open(inner);
  await saveTensors(first, base, testTensor(1), testTensor(2));
  await writePack(first, [codedAgainst(child, base)]);
  await first.close();
  let left = Number.POSITIVE_INFINITY;
  const attempt = <T>(work: () => T): T => {
    if (left-- <= 0) throw new StemmaError("FILE_FAILED", "A read failed: EIO. Check the disk.");
    return work();
  };
  const files: FilesToReadNow = {
    ...inner,
    openNow: (path) => {
      const file = attempt(() => inner.openNow(path));
      return { ...file, read: (target, position) => attempt(() => file.read(target, position)) };
    },
  };
  const failAfter = (reads: number): void => {
    left = reads;
  };
  return { inner, store: await open(files), failAfter };
}

const changes: Readonly<Record<string, (store: PackStore) => unknown>> = {
  "a reference is counted": (store) => {
    store.references.change(idOfTensor(base), 1);
  },
  "a save is published": (store) => saveTensors(store, testTensor(3), base, testTensor(1)),
  "a recoding is published": (store) => writePack(store, [codedAgainst(base)], { recode: true }),
  "a collection is run": async (store) => {
    const live = new Set([idOfTensor(base)]);
    await store.collect(await store.planCollection(live), () => live);
  },
};

for (const [what, change] of Object.entries(changes))
  it(`ends writing where a disk error comes while ${what}, at any read`, async () => {
    let failures = 0;
    for (let reads = 0; ; reads++) {
      const { inner, store, failAfter } = await onFailingDisk();
      failAfter(reads);
      const error: unknown = await Promise.resolve()
        .then(() => change(store))
        .then(
          () => undefined,
          (cause: unknown) => cause,
        );
      failAfter(Number.POSITIVE_INFINITY);
      if (error === undefined) {
        await store.close();
        break;
      }
      assert.ok(error instanceof StemmaError);
      failures++;
      const hasFailed = await Promise.race([store.failed, Promise.resolve(undefined)]);
      // Either nothing was changed, or nothing is written on top of it.
      if (hasFailed !== undefined)
        await assert.rejects(saveTensors(store, testTensor(9)), hasCode("STORE_FAILED"));
      await store.close();
      const again = await open(inner);
      for (const id of [base, child, testTensor(1), testTensor(2)].map(idOfTensor))
        if (what !== "a collection is run" || id === idOfTensor(base)) assert.ok(again.has(id), what);
      const isBaseOf = await again.planCollection(new Set([idOfTensor(base)]));
      assert.equal(
        isBaseOf.dead.some(({ id }) => id === idOfTensor(base)),
        false,
      );
      await again.close();
    }
    assert.ok(failures > 0);
  });

it("counts no reference by half", async () => {
  const { store, failAfter } = await onFailingDisk();
  failAfter(0);
  assert.throws(() => {
    store.references.change(idOfTensor(base), 1);
  }, hasCode("FILE_FAILED"));
  failAfter(Number.POSITIVE_INFINITY);
  // Whoever counts takes the object as counted now.
  await assert.rejects(saveTensors(store, testTensor(9)), hasCode("STORE_FAILED"));
  const live = new Set([idOfTensor(testTensor(1))]);
  const plan = await store.planCollection(live);
  await assert.rejects(
    store.collect(plan, () => live),
    hasCode("STORE_FAILED"),
  );
});
