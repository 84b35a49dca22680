/**
 * The steps of a garbage collection, the same for every kind of store: check, rewrite what stays, switch the
 * index under the lock, delete last. Small packs are merged by the same steps (pack-merging.ts).
 */
import { isStemmaError, StemmaError } from "../errors.js";
import type { Hash } from "../tensor/tensor.js";
import type { Leases } from "./leases.js";
import type { CompactPack, Located } from "./compact-pack.js";
import type { ObjectIndex } from "./object-index.js";
import type { CollectionPlan, LiveObjects } from "./object-store.js";
import type { PackIndex } from "./pack-format.js";
import {
  bytesOfObjects,
  everyPack,
  forEachLive,
  groupForRepack,
  repackSteps,
  type RewrittenPack,
} from "./plan-collection.js";
import type { ReferenceLock } from "./reference-lock.js";

/** The part of a store that the collector needs. */
export interface PackRewriter {
  /**
   * Writes one new durable pack of these objects, each compared with its id. The pack is not visible yet.
   */
  rewrite(kept: readonly Located[]): Promise<PackIndex>;
  /** Deletes packs that nothing refers to any more. */
  remove(packs: readonly PackIndex[]): Promise<void>;
}

export interface CollectorParts {
  readonly index: ObjectIndex;
  readonly leases: Leases;
  readonly lock: ReferenceLock;
  readonly rewriter: PackRewriter;
}

function stale(why: string): StemmaError {
  return new StemmaError(
    "PLAN_STALE",
    `The store has changed since this collection was planned: ${why} Nothing was deleted; plan again.`,
  );
}

/**
 * Executes a plan, in steps: packs without live objects are deleted first, then those that keep the least are
 * rewritten, so that little space is needed at a time. A crash at any point leaves every live object in at
 * least one durable pack: new packs are durable before the switch, old ones are deleted after it, and a store
 * that is opened in between finds two copies and drops one at the next collection.
 * @throws PLAN_STALE, COLLECTION_REFUSED
 */
export async function collectPlanned(
  parts: CollectorParts,
  plan: CollectionPlan,
  live: () => LiveObjects,
): Promise<{ readonly freedBytes: number }> {
  const { index, leases, lock, rewriter } = parts;
  if (plan.generation !== index.generation) throw stale("packs were removed or rewritten meanwhile.");
  const packsOf = (names: readonly string[]): readonly CompactPack[] =>
    names.map((name) => {
      const pack = index.packs.get(name);
      if (pack === undefined) throw stale(`the pack ${name} is gone.`);
      return pack;
    });
  const deleted = packsOf(plan.deletePacks);
  const repacked = packsOf(plan.repackPacks);
  const dead = new Set(plan.dead.map(({ id }) => id));
  const check = (): void => {
    const [needed, pinned] = [live(), leases.pinned()];
    const found = index.neededOf(dead, (id) => needed.has(id) || pinned.has(id));
    if (found !== undefined) throw stale(`the object ${found} is needed again.`);
  };
  await forEachLive(index, index.packs.values(), live());
  check();
  const rewritten: RewrittenPack[] = [];
  for await (const pack of everyPack(repacked))
    rewritten.push({ pack, bytes: bytesOfObjects(index.liveObjects(pack, dead)) });
  const freedBytes = await replaceInSteps(
    [...(deleted.length === 0 ? [] : [deleted]), ...repackSteps(rewritten)],
    async (packs, isFirst) => {
      // A dead object is not read after the first step; one that was saved again since has another copy.
      const changes = isFirst ? { dead, beforeSwitch: check } : { dead: new Set<Hash>() };
      return bytesOf(packs) - bytesOf(await replacePacks({ index, lock, rewriter }, packs, changes));
    },
  );
  return { freedBytes };
}

/**
 * Runs the steps. One for which the disk has no space is tried again pack by pack: each that is replaced makes
 * space for the next. Returns the bytes that were freed; less than planned where the space ends after the first
 * step. @throws DISK_FULL where nothing could be done; then nothing has changed
 */
async function replaceInSteps(
  steps: readonly (readonly PackIndex[])[],
  replace: (packs: readonly PackIndex[], isFirst: boolean) => Promise<number>,
): Promise<number> {
  const waiting = [...steps];
  let isFirst = true;
  let freedBytes = 0;
  for (let step = waiting.shift(); step !== undefined; step = waiting.shift()) {
    try {
      freedBytes += await replace(step, isFirst);
      isFirst = false;
    } catch (error) {
      // A pack with a tensor that is coded against one in an unreachable tier stays as it is.
      const isTierGone = isStemmaError(error, "TIER_UNREACHABLE");
      if (!isTierGone && (!isStemmaError(error, "DISK_FULL") || (step.length === 1 && isFirst))) throw error;
      if (step.length === 1 && isTierGone) continue;
      if (step.length === 1) break;
      waiting.unshift(...step.map((pack) => [pack]));
    }
  }
  return freedBytes;
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}

export function bytesOf(packs: readonly PackIndex[]): number {
  return sumOf(packs.map(({ bytes }) => bytes));
}

/**
 * Writes the copies that reads use into new packs, without the `dead` objects, switches the index to them under
 * the lock, and deletes the packs `touched` last. Returns the new packs.
 * @param beforeSwitch called under the lock; where it throws, nothing has changed
 */
export async function replacePacks(
  { index, lock, rewriter }: Omit<CollectorParts, "leases">,
  touched: readonly PackIndex[],
  { dead, beforeSwitch }: { readonly dead: ReadonlySet<Hash>; readonly beforeSwitch?: () => void },
): Promise<readonly PackIndex[]> {
  const added: PackIndex[] = [];
  let switched = false;
  try {
    for (const group of groupForRepack(touched.flatMap((pack) => index.liveObjects(pack, dead))))
      added.push(await rewriter.rewrite(group));
    await lock.exclusive(() => {
      beforeSwitch?.();
      index.switch(touched, added, dead);
      switched = true;
      return Promise.resolve();
    });
  } finally {
    if (!switched) await rewriter.remove(added).catch(() => undefined);
  }
  await rewriter.remove(touched);
  return added;
}
