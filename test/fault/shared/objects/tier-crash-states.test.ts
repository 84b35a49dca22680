/** Low-order bytes are moved to a tier, within it and back: in every crash state they are in a pack or in the tier. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { openPackStore, type PackStore } from "../../../../shared/objects/pack-store.js";
import { folderTierFiles } from "../../../../shared/objects/tiers/folder-tier-files.js";
import type { Tier } from "../../../../shared/objects/tiers/tier-files.js";
import type { Files } from "../../../../shared/ports.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import {
  assertReadable,
  codedAgainst,
  idOfTensor,
  memberOf,
  writePack,
} from "../../../helpers/coded-tensors.js";
import { checkCrashStates, crashStateCount } from "../../../helpers/crash-states.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";

const families = [1, 2];
const chainOf = (family: number): readonly [Tensor, Tensor] => [
  memberOf(family, 0, [30, 40]),
  memberOf(family, 1, [30, 40]),
];

/** Moved with the others, and then needed no more: the rest of their low file is rewritten. */
const dropped = [0, 1].map((member) => memberOf(3, member, [60, 80]));

async function open(
  files: Files,
  folders: { readonly tier: string },
): Promise<{ store: PackStore; tier: Tier }> {
  const tier: Tier = { name: "cold", files: folderTierFiles(files, folders.tier) };
  const store = await openPackStore(files, "/packs", {
    leastTableObjects: 1,
    clock: manualClock(),
    random: seededRandom("tier crashes"),
    tiers: () => [tier],
  });
  return { store, tier };
}

async function work(files: Files, mark: (family: number) => void): Promise<void> {
  const { store, tier } = await open(files, { tier: "/cold" });
  for (const family of families) {
    const [base, child] = chainOf(family);
    await writePack(store, [
      codedAgainst(base, undefined, undefined, "planes"),
      codedAgainst(child, base, undefined, "planes"),
    ]);
    mark(family);
    if (family % 2 === 0) {
      await writePack(
        store,
        dropped.map((tensor) => codedAgainst(tensor, undefined, undefined, "planes")),
      );
      const chosen = new Set([...families.flatMap(chainOf), ...dropped].map(idOfTensor));
      assert.ok((await store.lowBytes.move(chosen, tier)).tensors > 0);
    }
  }
  const live = new Set(families.flatMap(chainOf).map(idOfTensor));
  await store.collect(await store.planCollection(live), () => live);
  assert.ok((await store.lowBytes.removeUnused()).rewrittenBytes > 0);
  assert.equal((await store.lowBytes.bringBack(tier)).tensors, 4);
  await store.close();
}

async function check(files: Files, saved: readonly number[]): Promise<void> {
  const { store, tier } = await open(files, { tier: "/cold" });
  assert.deepEqual(store.problems(), []);
  for (const family of saved) await assertReadable(store, ...chainOf(family));
  // What the crash left is removed, and nothing else.
  const live = new Set([...store.list()].map(({ id }) => id));
  await store.collect(await store.planCollection(live), () => live);
  await store.lowBytes.removeUnused();
  for (const family of saved) await assertReadable(store, ...chainOf(family));
  const { files: count } = store.lowBytes.totals();
  assert.equal((await tier.files.list()).length, count);
  assert.ok((await files.list("/cold")).every((name) => name.endsWith(".low")));
  await store.close();
}

it("loses nothing in any crash state of a move to a tier, a rewrite of its files, and a move back", async () => {
  await checkCrashStates<number>({
    name: "tier",
    run: work,
    check,
    states: Math.ceil(crashStateCount() / 16),
  });
});

it("would notice if packs were replaced before the low file's name is durable", async () => {
  await assert.rejects(
    () =>
      checkCrashStates<number>({
        name: "the tier's folder is not fsynced",
        run: (files, mark) =>
          work(
            {
              ...files,
              syncFolder: (path) => (path === "/cold" ? Promise.resolve() : files.syncFolder(path)),
            },
            mark,
          ),
        check,
        states: 500,
        seed: 3,
      }),
    /crash before event/,
  );
});
