/**
 * Which objects a store has and in which pack each lies, in memory, and the plan of a collection over
 * it. Pure data: knows no files, no clock. Several packs may hold a copy of an object (two saves at
 * once, a recoding, a collection cut short by a crash); one of them is the one that is read, and it is
 * the same one after reopening: that of the highest epoch, and of these one that needs no other object.
 */
import { StemmaError } from "../errors.js";
import { sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { Chains, isFault, linked, withClosure, type ChainState, type Links } from "./chains.js";
import type { CollectionPlan, StoredObject } from "./object-store.js";
import { packBytes, type PackEntry, type PackIndex } from "./pack-format.js";

export interface Located {
  readonly pack: PackIndex;
  readonly entry: PackEntry;
}

/** A rewritten pack holds at most this many bytes of objects (a larger object gets a pack of its own). */
export const repackBytes = 1024 * 1024 * 1024;

/** Cuts what is kept of the repacked packs into new packs. The plan and its execution both go by this. */
export function groupForRepack<T extends { readonly entry: PackEntry }>(kept: readonly T[]): T[][] {
  const groups: T[][] = [];
  let bytes = 0;
  for (const located of kept) {
    const group = groups[groups.length - 1];
    if (group === undefined || bytes + located.entry.storedBytes > repackBytes) {
      groups.push([located]);
      bytes = located.entry.storedBytes;
    } else {
      group.push(located);
      bytes += located.entry.storedBytes;
    }
  }
  return groups;
}

/** Whether a copy is read instead of one that is known. Equal copies: the known one stays. */
function wins(entry: PackEntry, known: PackEntry): boolean {
  if (entry.epoch !== known.epoch) return entry.epoch > known.epoch;
  return entry.base === undefined && known.base !== undefined;
}

export class ObjectIndex {
  readonly #packs = new Map<string, PackIndex>();
  readonly #locations = new Map<Hash, Located>();
  /** Objects whose bytes were found wrong, until another copy is read. */
  readonly #damaged = new Map<Hash, StemmaError>();
  #generation = 0;
  #epoch = 0;
  /** How many of the copies that are read refer to an object. */
  readonly #referring = new Map<Hash, number>();
  /** Forgotten when what it knows may have changed. */
  #chains: Chains | undefined;

  get packs(): ReadonlyMap<string, PackIndex> {
    return this.#packs;
  }
  /**
   * Changes with every collection, and is the same again after reopening an unchanged store. Saves do not
   * change it: they take nothing away.
   */
  get generation(): number {
    return this.#generation;
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

  /** Tensors that are coded against others. */
  *coded(): Iterable<Hash> {
    for (const [id, { entry }] of this.#locations) if (entry.base !== undefined) yield id;
  }

  /** What the copy that is read was coded against; undefined for what is not here or is damaged. */
  linksOf(id: Hash): Links | undefined {
    return this.#damaged.has(id) ? undefined : this.#locations.get(id)?.entry;
  }

  get chains(): Chains {
    return (this.#chains ??= new Chains((id) => this.linksOf(id)));
  }

  /** Depth of an object's chain, or what keeps it from being read. */
  state(id: Hash): ChainState {
    const links = this.linksOf(id);
    if (links === undefined) return { why: "missing", id };
    return links.base === undefined ? 0 : this.chains.state(id);
  }

  /** Whether an object is here with everything that it needs, as far as is known. */
  isUsable(id: Hash): boolean {
    return !isFault(this.state(id));
  }

  /** Whether anything that is read was coded against this tensor. */
  isReferred(id: Hash): boolean {
    return this.#referring.has(id);
  }

  /** An epoch above all that were ever seen here. */
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

  /** The copy that is read from now on; none when absent. */
  #locate(id: Hash, located: Located | undefined): void {
    for (const next of linked(this.#locations.get(id)?.entry ?? {})) {
      const count = (this.#referring.get(next) ?? 0) - 1;
      if (count > 0) this.#referring.set(next, count);
      else this.#referring.delete(next);
    }
    if (located === undefined) {
      this.#locations.delete(id);
      return;
    }
    this.#locations.set(id, located);
    for (const next of linked(located.entry)) this.#referring.set(next, (this.#referring.get(next) ?? 0) + 1);
  }

  /** Adds a pack. An object that was damaged is well again where this pack's copy is the one that is read. */
  add(pack: PackIndex): void {
    if (this.#packs.has(pack.name)) return;
    this.#packs.set(pack.name, pack);
    let replaces = false;
    for (const entry of pack.entries) {
      this.#epoch = Math.max(this.#epoch, entry.epoch);
      const known = this.#locations.get(entry.id);
      if (known !== undefined && !wins(entry, known.entry) && !this.#damaged.has(entry.id)) continue;
      this.#locate(entry.id, { pack, entry });
      this.#damaged.delete(entry.id);
      replaces ||= known !== undefined;
    }
    // What is only added changes no chain but those that lacked it.
    if (replaces || this.#chains?.hasFaults === true) this.#chains = undefined;
  }

  /** Call once all packs of an opened store are added. */
  settle(): void {
    this.#generation = Number.parseInt(sha256([...this.#packs.keys()].sort().join("\n")).slice(0, 12), 16);
  }

  /** What of a pack stays when `dead` goes: the copies that are read, less the dead. */
  kept(pack: PackIndex, dead: ReadonlySet<Hash>): Located[] {
    return pack.entries.flatMap((entry) => {
      const located = this.#locations.get(entry.id);
      return located?.entry === entry && !dead.has(entry.id) ? [located] : [];
    });
  }

  /**
   * What collection would do if exactly `stays` remained. @throws COLLECTION_REFUSED when something of `live`
   * is missing
   */
  plan(live: ReadonlySet<Hash>, pinned: ReadonlySet<Hash>): CollectionPlan {
    this.refuseMissing(live);
    const stays = withClosure([...live, ...pinned], (id) => this.linksOf(id));
    const dead = new Map<Hash, number>();
    for (const [id, { entry }] of this.#locations) if (!stays.has(id)) dead.set(id, entry.storedBytes);
    const deadIds = new Set(dead.keys());
    const deletePacks: string[] = [];
    const repackPacks: string[] = [];
    const rewritten: Located[] = [];
    let touchedBytes = 0;
    for (const pack of this.#packs.values()) {
      const kept = this.kept(pack, deadIds);
      // All of it stays, and nothing lies between.
      if (kept.length === pack.entries.length && packBytes(pack.entries) === pack.bytes) continue;
      touchedBytes += pack.bytes;
      if (kept.length === 0) deletePacks.push(pack.name);
      else {
        repackPacks.push(pack.name);
        rewritten.push(...kept);
      }
    }
    const newBytes = groupForRepack(rewritten).reduce(
      (sum, group) => sum + packBytes(group.map(({ entry }) => entry)),
      0,
    );
    const bytesBefore = this.bytes;
    return {
      format: 1,
      generation: this.#generation,
      live: this.#locations.size - dead.size,
      dead: [...dead].map(([id, storedBytes]) => ({ id, storedBytes })),
      deletePacks,
      repackPacks,
      bytesBefore,
      bytesAfter: bytesBefore - touchedBytes + newBytes,
    };
  }

  /**
   * @throws COLLECTION_REFUSED when an object that must stay is missing, or cannot be read for want of what
   * it is coded against
   */
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
        `${missing.size} objects that are still needed are missing here, the first is ${first}. Nothing was collected: find out why with a check before anything is deleted.`,
        { missing: [...missing].slice(0, 100), count: missing.size },
      );
  }

  /**
   * The switch of a collection: `removed` packs go with everything dead in them, what was kept of them is
   * found in `added` from now on.
   */
  switch(removed: readonly PackIndex[], added: readonly PackIndex[], dead: ReadonlySet<Hash>): void {
    for (const pack of removed) {
      this.#packs.delete(pack.name);
      for (const entry of pack.entries)
        if (this.#locations.get(entry.id)?.entry === entry) this.#locate(entry.id, undefined);
    }
    for (const id of dead) this.#locate(id, undefined);
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
    ...(entry.header === undefined ? {} : { header: entry.header }),
  };
}
