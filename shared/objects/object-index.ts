/**
 * The objects of a store and the pack of each, in memory, and the plan of a collection over them. Pure data:
 * does not use files or a clock. Several packs may hold a copy of an object (concurrent saves, a recoding, a
 * collection interrupted by a crash). Reads use the copy with the highest epoch and, among equal epochs, one
 * that is complete in its pack, then one that is not coded against another object; so they use the same copy
 * after reopening.
 */
import { StemmaError } from "../errors.js";
import { sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { Chains, isFault, linked, withClosure, type ChainState, type Links } from "./chains.js";
import type { CollectionPlan, StoredObject } from "./object-store.js";
import { bytesInPack, type PackEntry } from "./pack-entry.js";
import { packBytes, type PackIndex } from "./pack-format.js";

export interface Located {
  readonly pack: PackIndex;
  readonly entry: PackEntry;
}

/** A rewritten pack holds at most this many bytes of objects (a larger object gets a pack of its own). */
export const repackBytes = 1024 * 1024 * 1024;

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

/** Bytes that one step keeps: as much space is needed until the step's old packs are deleted. */
export const stepBytes = 256 * 1024 * 1024;

/** Packs that are rewritten together, those first of which the least is kept. Used by the plan and by its execution. */
export function repackSteps(
  index: Pick<ObjectIndex, "liveObjects">,
  packs: readonly PackIndex[],
  dead: ReadonlySet<Hash>,
): readonly (readonly PackIndex[])[] {
  const sized = packs
    .map((pack) => ({
      pack,
      bytes: index.liveObjects(pack, dead).reduce((sum, { entry }) => sum + bytesInPack(entry), 0),
    }))
    .toSorted((a, b) => a.bytes - b.bytes);
  const steps: PackIndex[][] = [];
  let room = 0;
  for (const { pack, bytes } of sized) {
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

/** True if `entry` is read instead of the known copy. Between equal copies the known one stays. */
function wins(entry: PackEntry, known: PackEntry): boolean {
  if (entry.epoch !== known.epoch) return entry.epoch > known.epoch;
  // A copy that is complete in its pack: a move of low-order bytes that was cut short leaves both.
  if ((entry.low === undefined) !== (known.low === undefined)) return entry.low === undefined;
  return entry.base === undefined && known.base !== undefined;
}

export class ObjectIndex {
  readonly #packs = new Map<string, PackIndex>();
  readonly #locations = new Map<Hash, Located>();
  /** Objects found damaged, until another copy replaces the damaged one. */
  readonly #damaged = new Map<Hash, StemmaError>();
  /** Names of the packs when packs were last removed, or at opening. */
  #settledPacks: readonly string[] = [];
  /** Computed from `#settledPacks` when it is first needed. */
  #generation: number | undefined;
  #epoch = 0;
  /** Objects whose low-order bytes are in a low file. */
  #lowCount = 0;
  /** The number of copies in use that are coded against each object. */
  readonly #referenceCounts = new Map<Hash, number>();
  /** Discarded when the links that it was computed from may have changed. */
  #chains: Chains | undefined;

  get packs(): ReadonlyMap<string, PackIndex> {
    return this.#packs;
  }
  /**
   * Changes with every collection, and is the same after reopening an unchanged store. Saves do not change
   * it: they remove nothing.
   */
  get generation(): number {
    return (this.#generation ??= Number.parseInt(
      sha256([...this.#settledPacks].sort().join("\n")).slice(0, 12),
      16,
    ));
  }
  get bytes(): number {
    let sum = 0;
    for (const { bytes } of this.#packs.values()) sum += bytes;
    return sum;
  }

  locate(id: Hash): Located | undefined {
    return this.#locations.get(id);
  }

  *list(): Iterable<StoredObject> {
    for (const { entry } of this.#locations.values()) yield storedObject(entry);
  }

  /** The tensors that are coded against others. */
  *coded(): Iterable<Hash> {
    for (const [id, { entry }] of this.#locations) if (entry.base !== undefined) yield id;
  }

  /**
   * Returns the tensors that the copy that is read is coded against; undefined for an object that is missing
   * or damaged.
   */
  linksOf(id: Hash): Links | undefined {
    return this.#damaged.has(id) ? undefined : this.#locations.get(id)?.entry;
  }

  get chains(): Chains {
    return (this.#chains ??= new Chains((id) => this.linksOf(id)));
  }

  /** The depth of an object's chain, or the fault that keeps it from being read. */
  state(id: Hash): ChainState {
    const links = this.linksOf(id);
    if (links === undefined) return { why: "missing", id };
    return links.base === undefined ? 0 : this.chains.state(id);
  }

  /** True if an object is present with everything it is coded against, as far as is known. */
  isUsable(id: Hash): boolean {
    return !isFault(this.state(id));
  }

  /** True if a copy that is read is coded against this tensor. */
  isReferenced(id: Hash): boolean {
    return this.#referenceCounts.has(id);
  }

  /** An epoch above all that this index has seen. */
  nextEpoch(): number {
    return ++this.#epoch;
  }

  damage(id: Hash): StemmaError | undefined {
    return this.#damaged.get(id);
  }
  noteDamage(id: Hash, error: StemmaError): void {
    this.#damaged.set(id, error);
    this.#chains = undefined;
  }

  /** The copy that was found damaged can be read again. */
  dropDamage(id: Hash): void {
    if (this.#damaged.delete(id)) this.#chains = undefined;
  }

  /** True if decoding an object needs low-order bytes that are not in a pack: its own, or those of its chain. */
  needsLowFile(id: Hash): boolean {
    if (this.#lowCount === 0) return false;
    for (const each of withClosure([id], (next) => this.linksOf(next)))
      if (this.#locations.get(each)?.entry.low !== undefined) return true;
    return false;
  }

  /** Names of the low files that some pack has a part in, whether reads use that copy or not. */
  lowFiles(): ReadonlySet<string> {
    const names = new Set<string>();
    for (const { entries } of this.#packs.values())
      for (const { low } of entries) if (low !== undefined) names.add(low.file);
    return names;
  }

  /** Sets the copy that reads use; undefined removes the object. */
  #setLocation(id: Hash, located: Located | undefined): void {
    if (this.#locations.get(id)?.entry.low !== undefined) this.#lowCount--;
    if (located?.entry.low !== undefined) this.#lowCount++;
    for (const next of linked(this.#locations.get(id)?.entry ?? {})) {
      const count = (this.#referenceCounts.get(next) ?? 0) - 1;
      if (count > 0) this.#referenceCounts.set(next, count);
      else this.#referenceCounts.delete(next);
    }
    if (located === undefined) {
      this.#locations.delete(id);
      return;
    }
    this.#locations.set(id, located);
    for (const next of linked(located.entry))
      this.#referenceCounts.set(next, (this.#referenceCounts.get(next) ?? 0) + 1);
  }

  /** Adds a pack. A damaged object becomes readable again where reads now use this pack's copy of it. */
  add(pack: PackIndex): void {
    if (this.#packs.has(pack.name)) return;
    this.#packs.set(pack.name, pack);
    let replaces = false;
    for (const entry of pack.entries) {
      this.#epoch = Math.max(this.#epoch, entry.epoch);
      const known = this.#locations.get(entry.id);
      if (known !== undefined && !wins(entry, known.entry) && !this.#damaged.has(entry.id)) continue;
      this.#setLocation(entry.id, { pack, entry });
      this.#damaged.delete(entry.id);
      replaces ||= known !== undefined;
    }
    // New objects only change chains that lacked them.
    if (replaces || this.#chains?.hasFaults === true) this.#chains = undefined;
  }

  /** Call once all packs of an opened store are added. */
  settle(): void {
    this.#settledPacks = [...this.#packs.keys()];
    this.#generation = undefined;
  }

  /**
   * The objects of a pack that stay when `dead` is removed: the copies that reads use, without the dead
   * objects.
   */
  liveObjects(pack: PackIndex, dead: ReadonlySet<Hash>): Located[] {
    return pack.entries.flatMap((entry) => {
      const located = this.#locations.get(entry.id);
      return located?.entry === entry && !dead.has(entry.id) ? [located] : [];
    });
  }

  /**
   * Plans a collection after which only the objects of `live` and `pinned`, and those they are coded against, stay.
   * @throws COLLECTION_REFUSED when an object of `live` is missing
   */
  plan(live: ReadonlySet<Hash>, pinned: ReadonlySet<Hash>): CollectionPlan {
    this.refuseMissing(live);
    const stays = withClosure([...live, ...pinned], (id) => this.linksOf(id));
    const dead = new Map<Hash, number>();
    for (const [id, { entry }] of this.#locations) if (!stays.has(id)) dead.set(id, entry.storedBytes);
    const deadIds = new Set(dead.keys());
    const deletePacks: string[] = [];
    const repacked: PackIndex[] = [];
    let touchedBytes = 0;
    for (const pack of this.#packs.values()) {
      const kept = this.liveObjects(pack, deadIds);
      // All objects of the pack stay, and there are no gaps between them.
      if (kept.length === pack.entries.length && packBytes(pack.entries) === pack.bytes) continue;
      touchedBytes += pack.bytes;
      if (kept.length === 0) deletePacks.push(pack.name);
      else repacked.push(pack);
    }
    const newBytes = repackSteps(this, repacked, deadIds)
      .flatMap((packs) => groupForRepack(packs.flatMap((pack) => this.liveObjects(pack, deadIds))))
      .reduce((sum, group) => sum + packBytes(group.map(({ entry }) => entry)), 0);
    const bytesBefore = this.bytes;
    return {
      format: 1,
      generation: this.generation,
      live: this.#locations.size - dead.size,
      dead: [...dead].map(([id, storedBytes]) => ({ id, storedBytes })),
      deletePacks,
      repackPacks: repacked.map(({ name }) => name),
      bytesBefore,
      bytesAfter: bytesBefore - touchedBytes + newBytes,
    };
  }

  /** @throws COLLECTION_REFUSED when an object that must stay, or one that it is coded against, is missing */
  refuseMissing(live: ReadonlySet<Hash>): void {
    const missing = new Set<Hash>();
    for (const id of live) {
      const state = this.state(id);
      if (isFault(state)) missing.add(state.id);
    }
    const [first] = missing;
    if (first !== undefined)
      throw new StemmaError(
        "COLLECTION_REFUSED",
        `${missing.size === 1 ? `An object that is still needed is missing: ${first}` : `${missing.size} objects that are still needed are missing; the first is ${first}`}. Nothing was collected. Run a check to find out why before anything is deleted.`,
        { missing: [...missing].slice(0, 100), count: missing.size },
      );
  }

  /**
   * Applies a collection: removes the packs `removed` and the dead objects. The objects kept from those packs
   * are in `added`.
   */
  switch(removed: readonly PackIndex[], added: readonly PackIndex[], dead: ReadonlySet<Hash>): void {
    for (const pack of removed) {
      this.#packs.delete(pack.name);
      for (const entry of pack.entries)
        if (this.#locations.get(entry.id)?.entry === entry) this.#setLocation(entry.id, undefined);
    }
    for (const id of dead) this.#setLocation(id, undefined);
    this.#chains = undefined;
    for (const pack of added) this.add(pack);
    this.settle();
  }

  /**
   * Replaces packs that are damaged or missing. Objects that are in none of `added` are read from other packs
   * that have a copy; the others are no longer in the store.
   */
  replace(removed: readonly PackIndex[], added: readonly PackIndex[]): void {
    const orphans = new Set<Hash>();
    for (const pack of removed) {
      this.#packs.delete(pack.name);
      for (const { id } of pack.entries)
        if (this.#locations.get(id)?.pack === pack) {
          this.#setLocation(id, undefined);
          this.#damaged.delete(id);
          orphans.add(id);
        }
    }
    for (const pack of this.#packs.values())
      for (const entry of pack.entries) {
        const known = this.#locations.get(entry.id);
        if (orphans.has(entry.id) && (known === undefined || wins(entry, known.entry)))
          this.#setLocation(entry.id, { pack, entry });
      }
    this.#chains = undefined;
    for (const pack of added) this.add(pack);
    this.settle();
  }
}

export function storedObject(entry: PackEntry): StoredObject {
  return {
    id: entry.id,
    kind: entry.kind,
    byteLength: entry.byteLength,
    storedBytes: entry.storedBytes,
    header: entry.header,
  };
}
