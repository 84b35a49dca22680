/**
 * The objects of a store and the pack of each. Does not use files or a clock: packs read their indexes where these are
 * not in memory. Several packs may hold a copy of an object (concurrent saves, a recoding, a collection interrupted by
 * a crash). Reads use the copy with the highest epoch and, among equal epochs, one that is complete in its pack, then
 * one that is not coded against another object; so they use the same copy after reopening.
 */
import type { StemmaError } from "../errors.js";
import { sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { CompactPack, type Located } from "./compact-pack.js";
import { ObjectTable, type Place, type RowsToKeep } from "./object-table.js";
import type { SortedRows } from "./sorted-rows.js";
import { Chains, isFault, linked, withClosure, type ChainState, type Links } from "./chains.js";
import type { ObjectCounts, StoredObject } from "./object-store.js";
import type { PackEntry } from "./pack-entry.js";
import type { PackIndex } from "./pack-format.js";

/** True if a copy is read instead of the known one. Between equal copies the known one stays. */
function wins({ pack, at }: Place, known: Place): boolean {
  const [epoch, knownEpoch] = [pack.epochAt(at), known.pack.epochAt(known.at)];
  if (epoch !== knownEpoch) return epoch > knownEpoch;
  // A copy that is complete in its pack: a move of low-order bytes that was cut short leaves both.
  const [hasLow, knownHasLow] = [pack.hasLowAt(at), known.pack.hasLowAt(known.at)];
  if (hasLow !== knownHasLow) return !hasLow;
  return !pack.isCodedAt(at) && known.pack.isCodedAt(known.at);
}

/** The parts of an index that a file keeps beside the rows of its table. */
interface KeptBeside {
  readonly packs: readonly CompactPack[];
  readonly epoch: number;
  /** Objects whose low-order bytes are in a low file. */
  readonly lowCount: number;
}

/** An index whose table is in a file. */
export interface SavedIndex extends KeptBeside {
  readonly rows: SortedRows;
}

/** An index for a new file. */
export interface IndexToKeep extends KeptBeside, RowsToKeep {}

export class ObjectIndex {
  readonly #packs = new Map<string, CompactPack>();
  readonly #table: ObjectTable;
  /** Objects found damaged, until another copy replaces the damaged one. */
  readonly #damaged = new Map<Hash, StemmaError>();
  /** Names of the packs when packs were last removed, or at opening. */
  #settledPacks: readonly string[] = [];
  /** Computed from `#settledPacks` when it is first needed. */
  #generation: number | undefined;
  #epoch = 0;
  /** Objects whose low-order bytes are in a low file. */
  #lowCount = 0;
  /** True if objects left the store since its table was kept: other packs may have older copies of them. */
  #hasGone = false;
  /** The same, before the table that is being made was begun. */
  #hadGone = false;
  /** Discarded when the links that it was computed from may have changed. */
  #chains: Chains | undefined;

  #isBroken = false;
  /** Called where a change could not be finished, since the index could not be read: what it states may be wrong. */
  onBroken: (cause: unknown) => void = () => undefined;

  constructor(saved?: SavedIndex) {
    this.#table = saved === undefined ? new ObjectTable() : ObjectTable.restored(saved.rows, saved.packs);
    if (saved === undefined) return;
    for (const pack of saved.packs) this.#packs.set(pack.name, pack);
    this.#epoch = saved.epoch;
    this.#lowCount = saved.lowCount;
  }

  /** Makes a change, which is not undone where the index cannot be read. */
  #change<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      this.#isBroken = true;
      this.onBroken(error);
      throw error;
    }
  }

  /**
   * True if a file may keep the index: all its changes were finished, no object is damaged, and none that is absent is
   * coded against.
   */
  get mayBeKept(): boolean {
    return !this.#isBroken && this.#damaged.size === 0 && this.#table.mayBeKept;
  }
  /** Begins to make a file of the index as it is now, which `keep` or `abandon` ends. Only where it may be kept. */
  beginKeeping(): IndexToKeep {
    this.#hadGone = this.#hasGone;
    this.#hasGone = false;
    return { ...this.#table.beginKeeping(), epoch: this.#epoch, lowCount: this.#lowCount };
  }
  /** Takes what is in the file out of memory. @returns false: it was abandoned */
  keep(rows: SortedRows): boolean {
    const isKept = this.#table.keep(rows);
    if (!isKept) this.#hasGone ||= this.#hadGone;
    return isKept;
  }
  abandon(): void {
    this.#hasGone ||= this.#hadGone;
    this.#table.abandon();
  }
  /** True if objects left the store since its table was kept. A start from that table has to look for other copies. */
  get hasGone(): boolean {
    return this.#hasGone;
  }
  /** Objects whose places are in memory. */
  get rowsInMemory(): number {
    return this.#table.rowsInMemory;
  }
  close(): void {
    this.#table.close();
  }

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
  /** The number of objects. */
  get size(): number {
    return this.#table.size;
  }
  /** Counts that the owner of the store keeps. */
  readonly references: ObjectCounts = {
    change: (id, by) => {
      this.#change(() => {
        this.#table.references.change(id, by);
      });
    },
    of: (id) => this.#table.references.of(id),
    absent: () => this.#table.references.absent(),
  };
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

  #places(): Iterable<Place> {
    return this.placesIn(this.#packs.values());
  }
  /** The copies that reads use, pack by pack. */
  *placesIn(packs: Iterable<CompactPack>): Iterable<Place> {
    for (const pack of packs)
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
    this.#change(() => {
      this.#add(given);
    });
  }
  #add(given: PackIndex): void {
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

  /** Marks of objects, while a collection is planned. */
  readonly marks = {
    begin: (): void => {
      this.#table.beginMarks();
    },
    end: (): void => {
      this.#table.endMarks();
    },
    /** @returns false where the object is marked already, or is not here */
    add: (id: Hash): boolean => this.#table.mark(id),
    /** True for the object of the entry at this position, if it is marked. */
    has: (pack: CompactPack, at: number): boolean => this.#table.isMarked(pack, at),
  };

  /**
   * Finds one of `dead` that stays after all, or against which an object is coded that is not of `dead`; undefined:
   * there is none.
   */
  neededOf(dead: ReadonlySet<Hash>, stays: (id: Hash) => boolean): Hash | undefined {
    for (const id of dead) if (stays(id)) return id;
    return this.#change(() => {
      this.#countLinksOf(dead, -1);
      const needed = [...dead].find((id) => this.#table.isCounted(id));
      this.#countLinksOf(dead, 1);
      return needed;
    });
  }
  #countLinksOf(ids: Iterable<Hash>, by: 1 | -1): void {
    for (const id of ids) {
      const place = this.#table.find(id);
      if (place?.pack.isCodedAt(place.at) !== true) continue;
      for (const next of linked(place.pack.entryAt(place.at))) this.#table.count(next, by);
    }
  }

  /**
   * Applies a collection: removes the packs `removed` and the dead objects. The objects kept from those packs
   * are in `added`.
   */
  switch(removed: readonly PackIndex[], added: readonly PackIndex[], dead: ReadonlySet<Hash>): void {
    this.#change(() => {
      this.#takeOut(removed);
      for (const id of dead) this.#removePlace(id);
    });
    if (dead.size > 0) this.#hasGone = true;
    this.#forgetChains();
    for (const pack of added) this.add(pack);
    this.settle();
  }

  /** Removes packs that were removed before the index was read. @returns the objects whose copy was in one of them */
  removeGone(isThere: (name: string) => boolean): ReadonlySet<Hash> {
    const removed = [...this.#packs.values()].filter(({ name }) => !isThere(name));
    const orphans = this.#change(() => this.#takeOut(removed));
    this.#forgetChains();
    return orphans;
  }

  /** Reads those of these objects that are not in the table from the packs that have a copy, if any has. */
  findCopies(orphans: ReadonlySet<Hash>): void {
    this.#change(() => {
      const missing = new Set([...orphans].filter((id) => this.#table.find(id) === undefined));
      if (missing.size > 0) this.#findCopies(missing);
    });
    this.#forgetChains();
  }
  #findCopies(missing: ReadonlySet<Hash>): void {
    const found = new Set<Hash>();
    for (const pack of this.#packs.values())
      for (const at of pack.positions()) {
        const id = pack.idAt(at);
        if (!missing.has(id)) continue;
        found.add(id);
        const known = this.#table.findLike(pack, at);
        if (known === undefined || wins({ pack, at }, known)) this.#setPlace({ pack, at });
      }
    if (found.size < missing.size) this.#hasGone = true;
  }

  /**
   * Replaces packs that are damaged or missing. Objects that are in none of `added` are read from other packs
   * that have a copy; the others are no longer in the store.
   */
  replace(removed: readonly PackIndex[], added: readonly PackIndex[]): void {
    const orphans = this.#change(() => this.#takeOut(removed));
    for (const id of orphans) this.#damaged.delete(id);
    this.findCopies(orphans);
    for (const pack of added) this.add(pack);
    if (orphans.size > 0) this.#hasGone = true;
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
