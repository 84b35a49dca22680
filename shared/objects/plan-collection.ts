/**
 * Plans a collection pack by pack, in steps between which other work has its turn: marks what stays, then sums up what
 * else the packs hold. Needs a byte of memory for each object, and what the plan names. Nothing may remove packs
 * meanwhile; new ones may come, and are no part of the plan.
 */
import { inSteps, itemsPerStep, nextTurn } from "../concurrency/in-steps.js";
import type { Hash } from "../tensor/tensor.js";
import { isFault, linked } from "./chains.js";
import type { CompactPack, Located } from "./compact-pack.js";
import { neededMissing } from "./object-errors.js";
import type { ObjectIndex } from "./object-index.js";
import type { CollectionPlan, LiveObjects } from "./object-store.js";
import { bytesInPack, type PackEntry } from "./pack-entry.js";
import { PackSum } from "./pack-format.js";

/** A rewritten pack holds at most this many bytes of objects (a larger object gets a pack of its own). */
export const repackBytes = 1024 * 1024 * 1024;

/** Bytes that one step keeps: as much space is needed until the step's old packs are deleted. */
export const stepBytes = 256 * 1024 * 1024;

/** Groups the kept objects of repacked packs into new packs. Used by the plan and by its execution. */
export function groupForRepack<T extends { readonly entry: PackEntry }>(kept: readonly T[]): T[][] {
  const groups: T[][] = [];
  let bytes = 0;
  for (const located of kept) {
    const group = groups[groups.length - 1];
    if (group === undefined || bytes + bytesInPack(located.entry) > repackBytes) {
      groups.push([located]);
      bytes = bytesInPack(located.entry);
    } else {
      group.push(located);
      bytes += bytesInPack(located.entry);
    }
  }
  return groups;
}

/** A pack that is rewritten, and the bytes of the objects that stay. */
export interface RewrittenPack {
  readonly pack: CompactPack;
  readonly bytes: number;
}

export function bytesOfObjects(located: readonly Located[]): number {
  return located.reduce((sum, { entry }) => sum + bytesInPack(entry), 0);
}

/** Packs that are rewritten together, those first of which the least is kept. Used by the plan and by its execution. */
export function repackSteps(rewritten: readonly RewrittenPack[]): readonly (readonly CompactPack[])[] {
  const steps: CompactPack[][] = [];
  let room = 0;
  for (const { pack, bytes } of rewritten.toSorted((a, b) => a.bytes - b.bytes)) {
    const step = steps.at(-1);
    if (step === undefined || bytes > room) {
      steps.push([pack]);
      room = stepBytes - bytes;
    } else {
      step.push(pack);
      room -= bytes;
    }
  }
  return steps;
}

/**
 * Calls `use` for each live object of these packs.
 * @throws COLLECTION_REFUSED when an object that must stay, or one that it is coded against, is missing
 */
export async function forEachLive(
  index: ObjectIndex,
  packs: Iterable<CompactPack>,
  live: LiveObjects,
  use: (id: Hash) => void = () => undefined,
): Promise<void> {
  const missing = new Set<Hash>();
  const look = (id: Hash): void => {
    const state = index.state(id);
    if (isFault(state)) missing.add(state.id);
  };
  for await (const id of inSteps(live.keys())) look(id);
  for await (const { pack, at } of inSteps(index.placesIn(packs))) {
    const id = pack.idAt(at);
    if (!live.has(id)) continue;
    look(id);
    use(id);
  }
  const [first] = missing;
  if (first !== undefined) throw neededMissing(missing, first);
}

/** Marks an object and all that it is coded against. */
function markWithBases(index: ObjectIndex, id: Hash): void {
  const waiting = [id];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop())
    if (index.marks.add(next)) waiting.push(...linked(index.linksOf(next) ?? {}));
}

async function withMarks<T>(index: ObjectIndex, use: () => Promise<T>): Promise<T> {
  index.marks.begin();
  try {
    return await use();
  } finally {
    index.marks.end();
  }
}

/** The objects that are neither live nor needed to decode a live one, pinned or not; of a damaged store, too. */
export function unneededObjects(index: ObjectIndex, live: LiveObjects): Promise<ReadonlySet<Hash>> {
  const packs = [...index.packs.values()];
  return withMarks(index, async () => {
    for await (const { pack, at } of inSteps(index.placesIn(packs))) {
      const id = pack.idAt(at);
      if (live.has(id)) markWithBases(index, id);
    }
    const unneeded = new Set<Hash>();
    for await (const { pack, at } of inSteps(index.placesIn(packs)))
      if (!index.marks.has(pack, at)) unneeded.add(pack.idAt(at));
    return unneeded;
  });
}

/**
 * Plans a collection after which only live and pinned objects, and those they are coded against, stay.
 * @throws COLLECTION_REFUSED when a live object is missing
 */
export function planCollection(
  index: ObjectIndex,
  live: LiveObjects,
  pinned: () => ReadonlySet<Hash>,
): Promise<CollectionPlan> {
  const packs = [...index.packs.values()];
  return withMarks(index, async () => {
    await forEachLive(index, packs, live, (id) => {
      markWithBases(index, id);
    });
    for (const id of pinned()) markWithBases(index, id);
    return await planMarked(index, packs);
  });
}

async function planMarked(index: ObjectIndex, packs: readonly CompactPack[]): Promise<CollectionPlan> {
  const dead: { readonly id: Hash; readonly storedBytes: number }[] = [];
  const deletePacks: string[] = [];
  const repacked: RewrittenPack[] = [];
  let touchedBytes = 0;
  for await (const pack of everyPack(packs)) {
    const kept = new PackSum();
    for (const { at } of index.placesIn([pack])) {
      if (index.marks.has(pack, at)) {
        kept.add(pack.sizeAt(at));
        continue;
      }
      const { id, storedBytes } = pack.entryAt(at);
      dead.push({ id, storedBytes });
    }
    // All objects of the pack stay, and there are no gaps between them.
    if (kept.count === pack.count && kept.bytes === pack.bytes) continue;
    touchedBytes += pack.bytes;
    if (kept.count === 0) deletePacks.push(pack.name);
    else repacked.push({ pack, bytes: kept.objects });
  }
  const newBytes = await bytesWhenRepacked(index, repacked);
  const bytesBefore = index.bytes;
  return {
    format: 1,
    generation: index.generation,
    live: index.size - dead.length,
    dead,
    deletePacks,
    repackPacks: repacked.map(({ pack }) => pack.name),
    bytesBefore,
    bytesAfter: bytesBefore - touchedBytes + newBytes,
  };
}

/** Packs with turns of other work between them, as many as their objects call for. */
export async function* everyPack(packs: Iterable<CompactPack>): AsyncGenerator<CompactPack, void, undefined> {
  let objects = 0;
  for (const pack of packs) {
    objects += pack.count;
    if (objects >= itemsPerStep) {
      objects = 0;
      await nextTurn();
    }
    yield pack;
  }
}

/** The bytes of the packs that `groupForRepack` makes of what is kept. */
async function bytesWhenRepacked(index: ObjectIndex, repacked: readonly RewrittenPack[]): Promise<number> {
  let bytes = 0;
  for (const step of repackSteps(repacked)) {
    let group = new PackSum();
    for await (const pack of everyPack(step))
      for (const { at } of index.placesIn([pack])) {
        if (!index.marks.has(pack, at)) continue;
        const size = pack.sizeAt(at);
        if (group.count > 0 && group.objects + size.inPack > repackBytes) {
          bytes += group.bytes;
          group = new PackSum();
        }
        group.add(size);
      }
    if (group.count > 0) bytes += group.bytes;
  }
  return bytes;
}
