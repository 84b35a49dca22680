/**
 * The objects of a store and the pack of each, and the plan of a collection over them. Does not use files or a clock:
 * packs read their indexes where these are not in memory. Several packs may hold a copy of an object (concurrent saves,
 * a recoding, a collection interrupted by a crash). Reads use the copy with the highest epoch and, among equal epochs,
 * one that is complete in its pack, then one that is not coded against another object; so they use the same copy after
 * reopening.
 */
import type { StemmaError } from "../errors.js";
import { sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { CompactPack, type Located } from "./compact-pack.js";
import { neededMissing } from "./object-errors.js";
import { ObjectTable, type Place } from "./object-table.js";
import { Chains, isFault, linked, withClosure, type ChainState, type Links } from "./chains.js";
import type { CollectionPlan, StoredObject } from "./object-store.js";
import { bytesInPack, type PackEntry } from "./pack-entry.js";
import { packBytes, type PackIndex } from "./pack-format.js";

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

/** True if a copy is read instead of the known one. Between equal copies the known one stays. */
function wins({ pack, at }: Place, known: Place): boolean {
  const [epoch, knownEpoch] = [pack.epochAt(at), known.pack.epochAt(known.at)];
  if (epoch !== knownEpoch) return epoch > knownEpoch;
  // A copy that is complete in its pack: a move of low-order bytes that was cut short leaves both.
  const [hasLow, knownHasLow] = [pack.hasLowAt(at), known.pack.hasLowAt(known.at)];
  if (hasLow !== knownHasLow) return !hasLow;
  return !pack.isCodedAt(at) && known.pack.isCodedAt(known.at);
}

export class ObjectIndex {
  readonly #packs = new Map<string, CompactPack>();
  readonly #table = new ObjectTable();
  /** Objects found damaged, until another copy replaces the damaged one. */
  readonly #damaged = new Map<Hash, StemmaError>();
  /** Names of the packs when packs were last removed, or at opening. */
  #settledPacks: readonly string[] = [];
  /** Computed from `#settledPacks` when it is first needed. */
  #generation: number | undefined;
  #epoch = 0;
  /** Objects whose low-order bytes are in a low file. */
  #lowCount = 0;
  /** Discarded when the links that it was computed from may have changed. */
  #chains: Chains | undefined;

  get packs(): ReadonlyMap<string, CompactPack> {
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
    const place = this.#table.find(id);
    return place && locatedAt(place);
  }

  *list(): Iterable<StoredObject> {
    for (const entry of this.entries()) yield storedObject(entry);
  }

  /** The entries of the copies that reads use. */
  *entries(): Iterable<PackEntry> {
    for (const { pack, at } of this.#places()) yield pack.entryAt(at);
  }

  /** True if the low-order bytes of some object are in a low file. */
  get hasLowParts(): boolean {
    return this.#lowCount > 0;
  }

  /** The tensors that are coded against others. */
  *coded(): Iterable<Hash> {
    for (const { pack, at } of this.#places()) if (pack.isCodedAt(at)) yield pack.idAt(at);
  }

  /** The copies that reads use, pack by pack. */
  *#places(): Iterable<Place> {
    for (const pack of this.#packs.values())
      for (const at of pack.positions()) if (this.#table.isPlace(pack, at)) yield { pack, at };
  }

  /**
   * Returns the tensors that the copy that is read is coded against; undefined for an object that is missing
   * or damaged.
   */
  linksOf(id: Hash): Links | undefined {
    if (this.#damaged.has(id)) return undefined;
    const place = this.#table.find(id);
    if (place === undefined) return undefined;
    return place.pack.isCodedAt(place.at) ? place.pack.entryAt(place.at) : noLinks;
  }

  get chains(): Chains {
    const table = this.#table;
    return (this.#chains ??= new Chains((id) => this.linksOf(id), {
      get: (id) => table.depth(id),
      set: (id, depth) => {
        table.setDepth(id, depth);
      },
    }));
  }

  /** Links have changed: what is known of chains is computed again. */
  #forgetChains(): void {
    if (this.#chains === undefined) return;
    this.#chains = undefined;
    this.#table.forgetDepths();
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
    return this.#table.isCounted(id);
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
    this.#forgetChains();
  }

  /** The copy that was found damaged can be read again. */
  dropDamage(id: Hash): void {
    if (this.#damaged.delete(id)) this.#forgetChains();
  }

  /** True if decoding an object needs low-order bytes that are not in a pack: its own, or those of its chain. */
  needsLowFile(id: Hash): boolean {
    if (this.#lowCount === 0) return false;
    for (const each of withClosure([id], (next) => this.linksOf(next)))
      if (this.locate(each)?.entry.low !== undefined) return true;
    return false;
  }

  /** Names of the low files that some pack has a part in, whether reads use that copy or not. */
  lowFiles(): ReadonlySet<string> {
    const names = new Set<string>();
    for (const pack of this.#packs.values())
      for (const { low } of pack.lowEntries()) if (low !== undefined) names.add(low.file);
    return names;
  }

  /** Counts what a copy that reads use, or no longer use, is coded against. */
  #countLinks(place: Place, by: 1 | -1): void {
    const { pack, at } = place;
    const isCoded = pack.isCodedAt(at);
    if (!isCoded && pack.format !== 3) return;
    const entry = pack.entryAt(at);
    if (entry.low !== undefined) this.#lowCount += by;
    for (const next of linked(entry)) this.#table.count(next, by);
  }

  /** Reads use the copy at this position of a pack from now on. */
  #setPlace(place: Place): void {
    const before = this.#table.findLike(place.pack, place.at);
    if (before !== undefined) this.#countLinks(before, -1);
    this.#table.set(place.pack, place.at);
    this.#countLinks(place, 1);
  }

  #removePlace(id: Hash): void {
    const before = this.#table.find(id);
    if (before === undefined) return;
    this.#countLinks(before, -1);
    this.#table.delete(id);
  }

  /** Adds a pack. A damaged object becomes readable again where reads now use this pack's copy of it. */
  add(given: PackIndex): void {
    if (this.#packs.has(given.name)) return;
    const pack = CompactPack.of(given);
    this.#packs.set(pack.name, pack);
    this.#table.addPack(pack);
    let replaces = false;
    for (const at of pack.positions()) {
      this.#epoch = Math.max(this.#epoch, pack.epochAt(at));
      if (this.#table.setNew(pack, at)) this.#countLinks({ pack, at }, 1);
      else {
        const known = this.#table.findLike(pack, at);
        if (known !== undefined && !wins({ pack, at }, known) && !this.#isDamaged(pack, at)) continue;
        this.#setPlace({ pack, at });
        replaces = true;
      }
      if (this.#damaged.size > 0) this.#damaged.delete(pack.idAt(at));
    }
    // New objects only change chains that lacked them.
    if (replaces || this.#chains?.hasFaults === true) this.#forgetChains();
  }

  #isDamaged(pack: CompactPack, at: number): boolean {
    return this.#damaged.size > 0 && this.#damaged.has(pack.idAt(at));
  }

  /** Makes space before packs with this many objects are added. */
  reserve(objects: number): void {
    this.#table.reserve(objects);
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
  liveObjects({ name }: Pick<PackIndex, "name">, dead: ReadonlySet<Hash>): Located[] {
    const live: Located[] = [];
    const pack = this.#packs.get(name);
    for (const at of pack?.positions() ?? [])
      if (pack !== undefined && this.#table.isPlace(pack, at) && !(dead.size > 0 && dead.has(pack.idAt(at))))
        live.push(locatedAt({ pack, at }));
    return live;
  }

  /**
   * Plans a collection after which only the objects of `live` and `pinned`, and those they are coded against, stay.
   * @throws COLLECTION_REFUSED when an object of `live` is missing
   */
  plan(live: ReadonlySet<Hash>, pinned: ReadonlySet<Hash>): CollectionPlan {
    this.refuseMissing(live);
    const stays = withClosure([...live, ...pinned], (id) => this.linksOf(id));
    const dead = new Map<Hash, number>();
    for (const { pack, at } of this.#places())
      if (!stays.has(pack.idAt(at))) dead.set(pack.idAt(at), pack.entryAt(at).storedBytes);
    const deadIds = new Set(dead.keys());
    const deletePacks: string[] = [];
    const repacked: PackIndex[] = [];
    let touchedBytes = 0;
    for (const pack of this.#packs.values()) {
      const kept = this.liveObjects(pack, deadIds);
      // All objects of the pack stay, and there are no gaps between them.
      if (kept.length === pack.count && packBytes(kept.map(({ entry }) => entry)) === pack.bytes) continue;
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
      live: this.#table.size - dead.size,
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
    if (first !== undefined) throw neededMissing(missing, first);
  }

  /**
   * Applies a collection: removes the packs `removed` and the dead objects. The objects kept from those packs
   * are in `added`.
   */
  switch(removed: readonly PackIndex[], added: readonly PackIndex[], dead: ReadonlySet<Hash>): void {
    this.#takeOut(removed);
    for (const id of dead) this.#removePlace(id);
    this.#forgetChains();
    for (const pack of added) this.add(pack);
    this.settle();
  }

  /**
   * Replaces packs that are damaged or missing. Objects that are in none of `added` are read from other packs
   * that have a copy; the others are no longer in the store.
   */
  replace(removed: readonly PackIndex[], added: readonly PackIndex[]): void {
    const orphans = this.#takeOut(removed);
    for (const id of orphans) this.#damaged.delete(id);
    if (orphans.size > 0)
      for (const pack of this.#packs.values())
        for (const at of pack.positions()) {
          if (!orphans.has(pack.idAt(at))) continue;
          const known = this.#table.findLike(pack, at);
          if (known === undefined || wins({ pack, at }, known)) this.#setPlace({ pack, at });
        }
    this.#forgetChains();
    for (const pack of added) this.add(pack);
    this.settle();
  }

  /** Removes packs. @returns the objects whose copy that reads used was in one of them */
  #takeOut(removed: readonly PackIndex[]): ReadonlySet<Hash> {
    const orphans = new Set<Hash>();
    for (const { name } of removed) {
      const pack = this.#packs.get(name);
      if (pack === undefined) continue;
      this.#packs.delete(name);
      for (const at of pack.positions())
        if (this.#table.isPlace(pack, at)) {
          const id = pack.idAt(at);
          this.#removePlace(id);
          orphans.add(id);
        }
      this.#table.removePack(pack);
    }
    return orphans;
  }
}

const noLinks: Links = {};

function locatedAt({ pack, at }: Place): Located {
  return { pack, entry: pack.entryAt(at) };
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
