/** Low-order bytes in a tier: moved, read only where they are needed, brought back; absent, damaged and old tiers. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { StemmaError } from "../../../../../shared/errors.js";
import { openPackStore, type PackStore } from "../../../../../shared/objects/pack-store.js";
import type { Files } from "../../../../../shared/ports.js";
import type { Hash, Tensor } from "../../../../../shared/tensor/tensor.js";
import {
  assertReadable,
  codedAgainst,
  idOfTensor,
  memberOf,
  readBack,
  writePack,
} from "../../../../helpers/coded-tensors.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";
import { hasCode } from "../../../../helpers/object-stores.js";
import { testTier, type TestTier } from "../../../../helpers/test-tier.js";

const [first, second, third, newest] = [0, 1, 2, 3].map((member) => memberOf(1, member, [40, 60])) as [
  Tensor,
  Tensor,
  Tensor,
  Tensor,
];
const old = [second, third];
const oldIds = new Set(old.map(idOfTensor));
const all = [first, second, third, newest];
const live = new Set(all.map(idOfTensor));

const open = (files: Files, tiers: readonly TestTier[], seed = "tiers"): Promise<PackStore> =>
  openPackStore(files, "/packs", {
    clock: manualClock(),
    random: seededRandom(seed),
    decodedCacheBytes: 0,
    tiers: () => tiers,
  });

/** A raw tensor, two old ones in planes (the second coded against the first), and a new one in planes. */
async function filled(): Promise<{
  files: ReturnType<typeof memoryFiles>;
  store: PackStore;
  tier: TestTier;
}> {
  const files = memoryFiles();
  const tier = testTier(files, "/cold");
  const store = await open(files, [tier]);
  await writePack(store, [first]);
  await writePack(store, [
    codedAgainst(second, undefined, undefined, "planes"),
    codedAgainst(third, second, undefined, "planes"),
    codedAgainst(newest, undefined, undefined, "planes"),
  ]);
  return { files, store, tier };
}

const collect = async (
  store: PackStore,
  needed: ReadonlySet<Hash> = live,
): Promise<{ readonly freedBytes: number }> =>
  store.collect(await store.planCollection(needed), () => needed);

it("moves low-order bytes, reads them only where they are needed, and brings them back", async () => {
  const { files, store, tier } = await filled();
  const before = store.packs().reduce((sum, { bytes }) => sum + bytes, 0);
  const moved = await store.lowBytes.move(oldIds, tier);
  assert.equal(moved.tensors, 2);
  assert.ok(moved.bytes > 0.4 * 2 * second.bytes.length, `${moved.bytes} bytes moved`);
  const after = store.packs().reduce((sum, { bytes }) => sum + bytes, 0);
  assert.ok(after < before - moved.bytes + 1000, `${before} → ${after}`);
  assert.deepEqual(store.lowBytes.totals(), { ...moved, files: 1 });

  const reads = tier.counts.read;
  for (const tensor of all) {
    const { bytes } = await store.readHighPlanes(idOfTensor(tensor), 2);
    assert.deepEqual(bytes[3], tensor.bytes[3]);
  }
  await assertReadable(store, first, newest);
  assert.equal(tier.counts.read, reads, "the high-order bytes needed the tier");
  await assertReadable(store, ...old);
  assert.ok(tier.counts.read > reads);
  assert.deepEqual(
    all.map((tensor) => store.lowBytes.needsLowFile(idOfTensor(tensor))),
    [false, true, true, false],
  );

  await store.close();
  const reopened = await open(files, [tier]);
  await assertReadable(reopened, ...all);
  const back = await reopened.lowBytes.bringBack(tier);
  assert.deepEqual(back, moved);
  assert.deepEqual(await tier.files.list(), []);
  const readsThen = tier.counts.read;
  await assertReadable(reopened, ...all);
  assert.equal(tier.counts.read, readsThen);
  assert.equal(reopened.lowBytes.totals().tensors, 0);
  await reopened.close();
});

it("serves, saves, merges and collects while a tier is absent, and calls nothing damaged", async () => {
  const { store, tier } = await filled();
  await store.lowBytes.move(oldIds, tier);
  tier.isAbsent = true;
  for (const tensor of old) await assert.rejects(readBack(store, tensor), hasCode("TIER_UNREACHABLE"));
  await assertReadable(store, first, newest);
  assert.ok(old.every((tensor) => store.has(idOfTensor(tensor))));
  assert.deepEqual(store.problems(), []);
  const gone = memberOf(2, 0);
  await writePack(store, [gone]);
  const dead = memberOf(3, 0);
  await writePack(store, [dead, codedAgainst(memberOf(2, 1), gone)]);
  const needed = new Set([...live, idOfTensor(gone), idOfTensor(memberOf(2, 1))]);
  assert.ok((await collect(store, needed)).freedBytes > 0);
  // The pack of the old tensors is rewritten without its newest one; nothing of the tier is read or removed.
  assert.ok(
    (await collect(store, new Set([...needed].filter((id) => id !== idOfTensor(newest))))).freedBytes > 0,
  );
  assert.deepEqual(
    (await store.lowBytes.removeUnused()).unreachable.map((each) => each.tier),
    ["cold"],
  );
  await store.maintenance.inspect();
  assert.deepEqual(store.problems(), []);
  tier.isAbsent = false;
  await assertReadable(store, ...old);
  assert.equal((await store.lowBytes.removeUnused()).files, 0);
  await store.close();
});

it("leaves a pack alone whose tensors are coded against one in an absent tier", async () => {
  const { store, tier } = await filled();
  await store.lowBytes.move(oldIds, tier);
  const child = memberOf(1, 3, [40, 60]);
  const other = memberOf(5, 0);
  const needed = new Set([...live, idOfTensor(child)]);
  await collect(store, new Set([...oldIds]));
  await writePack(store, [codedAgainst(child, third), other]);
  tier.isAbsent = true;
  const ids = new Set([...oldIds, idOfTensor(child)]);
  assert.ok(needed.size > ids.size);
  assert.equal((await collect(store, ids)).freedBytes, 0);
  tier.isAbsent = false;
  await assertReadable(store, child, ...old);
  assert.ok((await collect(store, ids)).freedBytes > 0);
  await assertReadable(store, child, ...old);
  await store.close();
});

it("names what is damaged or lost in a tier, refuses to collect, and is content again once the tier is right", async () => {
  const { files, store, tier } = await filled();
  await store.lowBytes.move(oldIds, tier);
  const [file] = await tier.files.list();
  const path = `/cold/${file?.name}.low`;
  const bytes = await files.read(path);
  const damages: readonly [string, () => Promise<void>][] = [
    [
      "a flipped bit",
      async () => {
        const changed = bytes.slice();
        changed[2000] = (changed[2000] as number) ^ 1;
        await rewrite(files, path, changed);
      },
    ],
    ["a file cut short", () => rewrite(files, path, bytes.subarray(0, 3000))],
    ["an older copy without the file", () => files.remove(path)],
  ];
  for (const [what, damage] of damages) {
    await damage();
    await assert.rejects(readBack(store, second), hasCode("PACK_CORRUPT"), what);
    assert.equal(store.problems().length, 1, what);
    assert.ok(!store.has(idOfTensor(second)), what);
    await assert.rejects(() => store.planCollection(live), hasCode("COLLECTION_REFUSED"));
    await rewrite(files, path, bytes);
    await store.maintenance.inspect();
    assert.deepEqual(store.problems(), [], what);
    await assertReadable(store, ...old);
  }
  await store.close();
});

async function rewrite(files: Files, path: string, bytes: Uint8Array): Promise<void> {
  await files.remove(path);
  const file = await files.open(path, "create");
  await file.write(bytes, 0);
  await file.close();
}

it("a full tier, one that returns other bytes, or one that is lost in between, leave the store as it was", async () => {
  const { files, store, tier } = await filled();
  const packs = store.packs();
  tier.before = (operation) =>
    operation === "write"
      ? Promise.reject(new StemmaError("DISK_FULL", "The tier is full. Free some space."))
      : Promise.resolve();
  await assert.rejects(store.lowBytes.move(oldIds, tier), hasCode("DISK_FULL"));
  tier.before = async (operation, name) => {
    if (operation === "read" && name !== undefined)
      await rewrite(files, `/cold/${name}.low`, new Uint8Array(100_000));
  };
  await assert.rejects(store.lowBytes.move(oldIds, tier), hasCode("FILE_FAILED"));
  tier.before = (operation) => {
    tier.isAbsent = operation === "read";
    return Promise.resolve();
  };
  await assert.rejects(store.lowBytes.move(oldIds, tier), hasCode("TIER_UNREACHABLE"));
  tier.before = () => Promise.resolve();
  tier.isAbsent = false;
  assert.deepEqual(store.packs(), packs);
  assert.equal((await store.lowBytes.removeUnused()).files, 1, "the file of the move that was cut short");
  assert.deepEqual(await tier.files.list(), []);
  await assertReadable(store, ...all);
  await store.close();
});

it("refuses to bring back more than the disk has room for, and says how much is needed", async () => {
  const files = memoryFiles();
  const tier = testTier(files, "/cold");
  const store = await open({ ...files, freeBytes: () => Promise.resolve(1000) }, [tier]);
  await writePack(store, [codedAgainst(second, undefined, undefined, "planes")]);
  const { bytes } = await store.lowBytes.move(oldIds, tier);
  await assert.rejects(
    store.lowBytes.bringBack(tier),
    (error: StemmaError) => error.code === "DISK_FULL" && Number(error.details["needed"]) > bytes,
  );
  await assertReadable(store, second);
  await store.close();
});

it("reads what a restore put next to the packs, and moves it to a tier with the next move", async () => {
  const { files, store, tier } = await filled();
  await store.lowBytes.move(oldIds, tier);
  const [file] = await tier.files.list();
  await store.close();
  await rewrite(files, `/packs/${file?.name}.low`, await files.read(`/cold/${file?.name}.low`));
  await files.remove("/cold");
  const restored = await open(files, []);
  await assertReadable(restored, ...all);
  assert.equal((await restored.lowBytes.removeUnused()).files, 0);
  const other = testTier(files, "/other", "other");
  assert.equal((await restored.lowBytes.move(new Set(), other)).tensors, 2);
  assert.equal(await files.stat(`/packs/${file?.name}.low`), undefined);
  await assert.rejects(readBack(restored, second), hasCode("TIER_UNREACHABLE"));
  await restored.close();
  const reopened = await open(files, [tier, other]);
  await assertReadable(reopened, ...all);
  await reopened.close();
});

it("removes low files once no tensor in them is needed, also half written ones", async () => {
  const { files, store, tier } = await filled();
  await store.lowBytes.move(oldIds, tier);
  const [file] = await tier.files.list();
  await rewrite(files, `/cold/${file?.name}.low.tmp`, new Uint8Array(10));
  assert.equal((await store.lowBytes.removeUnused()).files, 0);
  assert.equal(await files.stat(`/cold/${file?.name}.low.tmp`), undefined);
  const needed = new Set([idOfTensor(first), idOfTensor(newest)]);
  const dead = new Set((await store.planCollection(needed)).dead.map(({ id }) => id));
  const predicted = await store.lowBytes.forecastUnused(dead);
  await collect(store, needed);
  const place = { files: 1, bytes: file?.bytes, rewrittenBytes: 0 };
  const removed = await store.lowBytes.removeUnused();
  assert.deepEqual(removed, { ...place, places: [{ tier: "cold", ...place }], unreachable: [] });
  assert.deepEqual(predicted, removed);
  await store.close();
});

it("rewrites a low file of which less than half is needed, and removes it", async () => {
  const { store, tier } = await filled();
  const members = [4, 5, 6, 7].map((member) => memberOf(1, member, [40, 60]));
  await writePack(
    store,
    members.map((tensor) => codedAgainst(tensor, undefined, undefined, "planes")),
  );
  await store.lowBytes.move(new Set(members.map(idOfTensor)), tier);
  const [before] = await tier.files.list();
  const most = new Set([...live, ...members.slice(0, 3).map(idOfTensor)]);
  await collect(store, most);
  const kept = await store.lowBytes.removeUnused();
  assert.deepEqual([kept.files, kept.rewrittenBytes], [0, 0], "most of it is needed");

  const one = new Set([...live, idOfTensor(members[0]!)]);
  const dead = new Set((await store.planCollection(one)).dead.map(({ id }) => id));
  const predicted = await store.lowBytes.forecastUnused(dead);
  await collect(store, one);
  tier.before = (operation) =>
    operation === "write" ? Promise.reject(new StemmaError("DISK_FULL", "full")) : Promise.resolve();
  assert.equal((await store.lowBytes.removeUnused()).files, 0, "a full tier keeps the old file");
  tier.before = () => Promise.resolve();
  const removed = await store.lowBytes.removeUnused();
  const { files, bytes, rewrittenBytes } = removed;
  assert.deepEqual(predicted, removed);
  const [after] = await tier.files.list();
  assert.deepEqual([files, bytes], [1, before?.bytes]);
  assert.equal(after?.bytes, rewrittenBytes + 16);
  assert.ok(rewrittenBytes < 0.3 * before!.bytes, `${rewrittenBytes} of ${before?.bytes}`);
  await assertReadable(store, ...all, members[0]!);

  const { write } = tier.counts;
  assert.equal((await store.lowBytes.removeUnused()).files, 0);
  assert.equal(tier.counts.write, write, "a file that is needed is not written again");
  const collected = await collect(store, live);
  assert.ok(collected.freedBytes > 0);
  await store.lowBytes.removeUnused();
  assert.deepEqual(await tier.files.list(), []);
  await store.close();
});

it("leaves a low file with a damaged part as it is", async () => {
  const { files, store, tier } = await filled();
  await store.lowBytes.move(oldIds, tier);
  const [file] = await tier.files.list();
  await collect(store, new Set([idOfTensor(first), idOfTensor(second)]));
  const path = `/cold/${file!.name}.low`;
  const bytes = (await files.read(path)).slice();
  bytes.fill(0xff, 16);
  await rewrite(files, path, bytes);
  assert.equal((await store.lowBytes.removeUnused()).files, 0);
  assert.deepEqual(await tier.files.list(), [file]);
  await store.close();
});
