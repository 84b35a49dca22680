/**
 * Finds the copy of each object in the indexes of packs: an open-addressing hash table in typed arrays, outside of the
 * heap, 17 to 22 bytes a slot. It keeps positions and no ids: an id is compared with the bytes in its pack's index.
 * Beside each copy it counts the tensors that are coded against it and the references of the store's owner, and keeps
 * the depth of its chain and a mark. Pure.
 */
import { randomInt } from "node:crypto";
import { hashBytes } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import type { CompactPack } from "./compact-pack.js";
import type { ObjectCounts } from "./object-store.js";

const firstSlots = 64;
/** Share of the slots that may be in use, or have been, before the table is made anew. */
const maxLoad = 0.7;
const empty = 0;
const removed = 0xffffffff;
/** Drawn for each process that makes tables, so that nobody can make ids that all fall into the same slots. */
const drawnSpread = (randomInt(2 ** 31) * 2 + 1) >>> 0;

export interface Place {
  readonly pack: CompactPack;
  readonly at: number;
}

/** The parts of a table, for a file. Slots have the number of their pack and one. */
export interface SavedTable {
  readonly spread: number;
  readonly used: number;
  readonly size: number;
  /** Packs by their numbers. */
  readonly packs: readonly CompactPack[];
  readonly packOf: Uint32Array<ArrayBuffer>;
  readonly at: Uint32Array<ArrayBuffer>;
  readonly tag: Uint32Array<ArrayBuffer>;
  readonly count: Uint32Array<ArrayBuffer>;
}

export class ObjectTable {
  #spread = drawnSpread;
  /** Packs by their number; a number is used again once its pack is gone. */
  readonly #packs: (CompactPack | undefined)[] = [];
  readonly #numbers = new Map<CompactPack, number>();
  readonly #freeNumbers: number[] = [];
  /** The pack's number and one; 0: never used. */
  #pack = new Uint32Array(firstSlots);
  #at = new Uint32Array(firstSlots);
  #tag = new Uint32Array(firstSlots);
  #count = new Uint32Array(firstSlots);
  /** The depth of the chain and one; 0: not known. */
  #depth = new Uint8Array(firstSlots);
  /** Counts of the store's owner; empty until the first one. */
  #references = new Uint32Array(0);
  /** 1: marked. Empty where no marking is under way. */
  #marks = new Uint8Array(0);
  #used = 0;
  #size = 0;
  /** Counts of tensors coded against objects that the table does not have. */
  readonly #absentCounts = new Map<Hash, number>();
  readonly #absentReferences = new Map<Hash, number>();

  /** The parts of the table as it is now; undefined where it knows of absent objects. */
  saved(): SavedTable | undefined {
    if (this.#absentCounts.size > 0) return undefined;
    const packs: CompactPack[] = [];
    // Numbers that no pack has any more are not kept.
    const numbers = this.#packs.map((pack) => (pack === undefined ? empty : packs.push(pack)));
    return {
      spread: this.#spread,
      used: this.#used,
      size: this.#size,
      packs,
      packOf: this.#pack.map((number) =>
        number === empty || number === removed ? number : (numbers[number - 1] as number),
      ),
      at: this.#at,
      tag: this.#tag,
      count: this.#count,
    };
  }

  static restored({ spread, used, size, packs, packOf, at, tag, count }: SavedTable): ObjectTable {
    const table = new ObjectTable();
    table.#spread = spread;
    table.#used = used;
    table.#size = size;
    for (const pack of packs) table.addPack(pack);
    table.#pack = packOf;
    table.#at = at;
    table.#tag = tag;
    table.#count = count;
    table.#depth = new Uint8Array(packOf.length);
    return table;
  }

  /** The number of objects. */
  get size(): number {
    return this.#size;
  }

  addPack(pack: CompactPack): void {
    if (this.#numbers.has(pack)) return;
    const number = this.#freeNumbers.pop() ?? this.#packs.length;
    this.#packs[number] = pack;
    this.#numbers.set(pack, number);
  }
  /** Removes a pack to which no object refers any more. */
  removePack(pack: CompactPack): void {
    const number = this.#numbers.get(pack);
    if (number === undefined) return;
    this.#numbers.delete(pack);
    this.#packs[number] = undefined;
    this.#freeNumbers.push(number);
  }

  find(id: Hash): Place | undefined {
    const slot = this.#find(id);
    return slot === -1 ? undefined : this.#placeIn(slot);
  }

  /** The copy of the object of which an entry is. */
  findLike(pack: CompactPack, at: number): Place | undefined {
    const slot = this.#findEntry(pack, at);
    return slot === -1 ? undefined : this.#placeIn(slot);
  }
  /** True if the copy of its object is this entry. */
  isPlace(pack: CompactPack, at: number): boolean {
    const slot = this.#findEntry(pack, at);
    return slot !== -1 && this.#at[slot] === at && this.#packs[(this.#pack[slot] as number) - 1] === pack;
  }

  /** Makes space for this many more objects. */
  reserve(objects: number): void {
    if (this.#used + objects > maxLoad * this.#pack.length) this.#grow(objects);
  }

  /** Sets the copy of an object to this entry of a pack that was added. */
  set(pack: CompactPack, at: number): void {
    const slot = this.#findEntry(pack, at);
    if (slot === -1) this.#insert(pack, at);
    else this.#setSlot(slot, pack, at);
  }
  /** Sets the copy of an object that the table does not have. @returns false where it has one, which stays */
  setNew(pack: CompactPack, at: number): boolean {
    if (this.#findEntry(pack, at) !== -1) return false;
    this.#insert(pack, at);
    return true;
  }

  #insert(pack: CompactPack, at: number): void {
    if (this.#used + 1 > maxLoad * this.#pack.length) this.#grow(1);
    const tag = pack.tagAt(at);
    const slot = this.#freeSlot(tag);
    if (this.#pack[slot] === empty) this.#used++;
    this.#size++;
    this.#tag[slot] = tag;
    this.#count[slot] = 0;
    if (this.#absentCounts.size > 0) {
      const id = pack.idAt(at);
      this.#count[slot] = this.#absentCounts.get(id) ?? 0;
      this.#absentCounts.delete(id);
    }
    if (this.#references.length > 0) this.#references[slot] = this.#takeAbsentReferences(pack, at);
    // What comes while objects are marked counts as marked.
    if (this.#marks.length > 0) this.#marks[slot] = 1;
    this.#setSlot(slot, pack, at);
  }
  #takeAbsentReferences(pack: CompactPack, at: number): number {
    if (this.#absentReferences.size === 0) return 0;
    const id = pack.idAt(at);
    const count = this.#absentReferences.get(id) ?? 0;
    this.#absentReferences.delete(id);
    return count;
  }
  #setSlot(slot: number, pack: CompactPack, at: number): void {
    this.#pack[slot] = (this.#numbers.get(pack) as number) + 1;
    this.#at[slot] = at;
    this.#depth[slot] = 0;
  }

  delete(id: Hash): void {
    const slot = this.#find(id);
    if (slot === -1) return;
    const count = this.#count[slot] as number;
    if (count > 0) this.#absentCounts.set(id, count);
    const references = this.#references[slot] ?? 0;
    if (references > 0) this.#absentReferences.set(id, references);
    this.#pack[slot] = removed;
    this.#count[slot] = 0;
    this.#depth[slot] = 0;
    this.#size--;
  }

  /** One more tensor (1), or one less (-1), is coded against an object. */
  count(id: Hash, by: 1 | -1): void {
    const slot = this.#find(id);
    if (slot === -1) changeCount(this.#absentCounts, id, by);
    else this.#count[slot] = (this.#count[slot] as number) + by;
  }

  /** The counts of the store's owner. */
  readonly references: ObjectCounts = {
    change: (id, by) => {
      if (this.#references.length === 0) this.#references = new Uint32Array(this.#pack.length);
      const slot = this.#find(id);
      if (slot === -1) changeCount(this.#absentReferences, id, by);
      else this.#references[slot] = Math.max(0, (this.#references[slot] as number) + by);
    },
    of: (id) => {
      const slot = this.#find(id);
      return (slot === -1 ? this.#absentReferences.get(id) : this.#references[slot]) ?? 0;
    },
    absent: () => this.#absentReferences.keys(),
  };

  /** Begins a marking, at which no object is marked. One at a time. */
  beginMarks(): void {
    this.#marks = new Uint8Array(this.#pack.length);
  }
  endMarks(): void {
    this.#marks = new Uint8Array(0);
  }
  /** @returns false where the object is marked already, or is not here */
  mark(id: Hash): boolean {
    const slot = this.#find(id);
    if (slot === -1 || this.#marks[slot] === 1) return false;
    this.#marks[slot] = 1;
    return true;
  }
  /** True if the object of this entry is marked. */
  isMarked(pack: CompactPack, at: number): boolean {
    return this.#marks[this.#findEntry(pack, at)] === 1;
  }

  isCounted(id: Hash): boolean {
    const slot = this.#find(id);
    return slot === -1 ? this.#absentCounts.has(id) : (this.#count[slot] as number) > 0;
  }

  /** The depth that was set, or undefined. */
  depth(id: Hash): number | undefined {
    const slot = this.#find(id);
    const depth = slot === -1 ? 0 : (this.#depth[slot] as number);
    return depth === 0 ? undefined : depth - 1;
  }
  setDepth(id: Hash, depth: number): void {
    const slot = this.#find(id);
    if (slot !== -1) this.#depth[slot] = depth + 1;
  }
  forgetDepths(): void {
    this.#depth.fill(0);
  }

  #startOf(tag: number): number {
    const mixed = Math.imul(tag, this.#spread);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  }

  #placeIn(slot: number): Place {
    return {
      pack: this.#packs[(this.#pack[slot] as number) - 1] as CompactPack,
      at: this.#at[slot] as number,
    };
  }

  #find(id: Hash): number {
    const bytes = hashBytes(id);
    return this.#findBytes(bytes, 0, tagOf(bytes));
  }

  #findEntry(pack: CompactPack, at: number): number {
    const entry = pack.entryBytes(at);
    return this.#findBytes(entry.bytes, entry.at + 8, entry.bytes.readUInt32BE(entry.at + 8));
  }

  /** The slot of the object whose id is the 32 bytes at `from`; -1: there is none. */
  #findBytes(bytes: Uint8Array, from: number, tag: number): number {
    const mask = this.#pack.length - 1;
    for (let slot = this.#startOf(tag) & mask; ; slot = (slot + 1) & mask) {
      const number = this.#pack[slot] as number;
      if (number === empty) return -1;
      if (number === removed || this.#tag[slot] !== tag) continue;
      if ((this.#packs[number - 1] as CompactPack).isOf(this.#at[slot] as number, bytes, from)) return slot;
    }
  }

  #freeSlot(tag: number): number {
    const mask = this.#pack.length - 1;
    let slot = this.#startOf(tag) & mask;
    while (this.#pack[slot] !== empty && this.#pack[slot] !== removed) slot = (slot + 1) & mask;
    return slot;
  }

  /** Makes the table anew with space for more objects, without slots of those that are gone. */
  #grow(objects: number): void {
    const [packs, ats, tags, counts, depths] = [this.#pack, this.#at, this.#tag, this.#count, this.#depth];
    const [references, marks] = [this.#references, this.#marks];
    let slots = packs.length;
    while (this.#size + objects > 0.9 * maxLoad * slots) slots *= 2;
    this.#pack = new Uint32Array(slots);
    this.#at = new Uint32Array(slots);
    this.#tag = new Uint32Array(slots);
    this.#count = new Uint32Array(slots);
    this.#depth = new Uint8Array(slots);
    if (references.length > 0) this.#references = new Uint32Array(slots);
    if (marks.length > 0) this.#marks = new Uint8Array(slots);
    this.#used = this.#size;
    for (let old = 0; old < packs.length; old++) {
      const number = packs[old] as number;
      if (number === empty || number === removed) continue;
      const slot = this.#freeSlot(tags[old] as number);
      this.#pack[slot] = number;
      this.#at[slot] = ats[old] as number;
      this.#tag[slot] = tags[old] as number;
      this.#count[slot] = counts[old] as number;
      this.#depth[slot] = depths[old] as number;
      if (references.length > 0) this.#references[slot] = references[old] as number;
      if (marks.length > 0) this.#marks[slot] = marks[old] as number;
    }
  }
}

function changeCount(counts: Map<Hash, number>, id: Hash, by: 1 | -1): void {
  const count = (counts.get(id) ?? 0) + by;
  if (count > 0) counts.set(id, count);
  else counts.delete(id);
}

function tagOf(id: Uint8Array): number {
  return (
    (((id[0] as number) << 24) | ((id[1] as number) << 16) | ((id[2] as number) << 8) | (id[3] as number)) >>>
    0
  );
}
