/**
 * Rows of a table of objects in memory: an open-addressing hash table in typed arrays, outside of the heap, 17 to 22
 * bytes a slot. Pure.
 */
import { randomInt } from "node:crypto";
import type { ObjectRows, RowContent } from "./object-rows.js";

const firstSlots = 64;
/** Share of the slots that may be in use, or have been, before the table is made anew. */
const maxLoad = 0.7;
const empty = 0;
const removed = 0xffffffff;
/** Drawn for each process that makes tables, so that nobody can make ids that all fall into the same slots. */
const spread = (randomInt(2 ** 31) * 2 + 1) >>> 0;

export class SlotRows implements ObjectRows {
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
  /** Packs of rows that were removed, and rows whose references changed, since they are watched. */
  #gone: Map<number, number> | undefined;
  readonly #changed = new Set<number>();

  /** The number of rows. */
  get size(): number {
    return this.#size;
  }

  firstOf(tag: number): number {
    return this.#from(this.#startOf(tag), tag);
  }
  nextOf(row: number, tag: number): number {
    return this.#from(row + 1, tag);
  }
  #from(start: number, tag: number): number {
    const mask = this.#pack.length - 1;
    for (let slot = start & mask; ; slot = (slot + 1) & mask) {
      const pack = this.#pack[slot] as number;
      if (pack === empty) return -1;
      if (pack !== removed && this.#tag[slot] === tag) return slot;
    }
  }
  #startOf(tag: number): number {
    const mixed = Math.imul(tag, spread);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  }

  packOf(row: number): number {
    return (this.#pack[row] as number) - 1;
  }
  atOf(row: number): number {
    return this.#at[row] as number;
  }
  countOf(row: number): number {
    return this.#count[row] as number;
  }
  setCount(row: number, count: number): void {
    this.#count[row] = count;
  }
  depthOf(row: number): number | undefined {
    const depth = this.#depth[row] as number;
    return depth === 0 ? undefined : depth - 1;
  }
  setDepth(row: number, depth: number): void {
    this.#depth[row] = depth + 1;
  }
  forgetDepths(): void {
    this.#depth.fill(0);
  }
  referencesOf(row: number): number {
    return this.#references[row] ?? 0;
  }
  setReferences(row: number, count: number): void {
    if (this.#references.length === 0) {
      if (count === 0) return;
      this.#references = new Uint32Array(this.#pack.length);
    }
    this.#references[row] = count;
    if (this.#gone !== undefined) this.#changed.add(row);
  }
  beginMarks(): void {
    this.#marks = new Uint8Array(this.#pack.length);
  }
  endMarks(): void {
    this.#marks = new Uint8Array(0);
  }
  isMarked(row: number): boolean {
    return this.#marks[row] === 1;
  }
  mark(row: number): void {
    if (this.#marks.length > 0) this.#marks[row] = 1;
  }

  /** Makes space for this many more rows. */
  reserve(rows: number): void {
    if (this.#used + rows > maxLoad * this.#pack.length) this.#grow(rows);
  }
  /** Adds a row. @returns its number, until the next one is added */
  add({ tag, pack, at, count }: RowContent): number {
    this.reserve(1);
    const slot = this.#freeSlot(tag);
    if (this.#pack[slot] === empty) this.#used++;
    this.#size++;
    this.#tag[slot] = tag;
    this.#count[slot] = count;
    if (this.#references.length > 0) this.#references[slot] = 0;
    if (this.#marks.length > 0) this.#marks[slot] = 0;
    this.place(slot, pack, at);
    return slot;
  }
  /** Sets the copy of a row. */
  place(row: number, pack: number, at: number): void {
    this.#pack[row] = pack + 1;
    this.#at[row] = at;
    this.#depth[row] = 0;
  }
  remove(row: number): void {
    this.#gone?.set(row, this.packOf(row));
    this.#pack[row] = removed;
    this.#size--;
    // What a watched row states is still to be written.
    if (this.#gone === undefined) this.#count[row] = 0;
  }

  /** Notes from now on which rows change; none is added any more. */
  watch(): void {
    this.#gone = new Map();
  }
  unwatch(): void {
    this.#gone = undefined;
    this.#changed.clear();
  }
  /** The number of rows that `touched` has, at most. */
  get touchedRows(): number {
    return (this.#gone?.size ?? 0) + this.#changed.size;
  }
  /** Rows that were removed, or whose references changed, since they are watched, as they were then. */
  *touched(): Iterable<{ readonly row: number; readonly content: RowContent; readonly isGone: boolean }> {
    for (const row of this.#gone?.keys() ?? []) yield { row, content: this.contentOf(row), isGone: true };
    for (const row of this.#changed)
      if (this.#gone?.has(row) !== true) yield { row, content: this.contentOf(row), isGone: false };
  }

  /** The content of a row, or of one that is gone since the rows are watched. */
  contentOf(row: number): RowContent {
    return {
      tag: this.#tag[row] as number,
      pack: this.#gone?.get(row) ?? this.packOf(row),
      at: this.atOf(row),
      count: this.countOf(row),
    };
  }

  /** The numbers of all rows. */
  *rows(): Iterable<number> {
    for (const [slot, pack] of this.#pack.entries()) if (pack !== empty && pack !== removed) yield slot;
  }
  /** The numbers of all rows, in the order of their tags. */
  sorted(): Uint32Array<ArrayBuffer> {
    // Little-endian numbers of 64 bits: the row below, the tag above.
    const keys = new BigUint64Array(this.#size);
    const halves = new Uint32Array(keys.buffer);
    let next = 0;
    for (const row of this.rows()) {
      halves[next++] = row;
      halves[next++] = this.#tag[row] as number;
    }
    keys.sort();
    return Uint32Array.from({ length: this.#size }, (_, i) => halves[2 * i] as number);
  }

  #freeSlot(tag: number): number {
    const mask = this.#pack.length - 1;
    let slot = this.#startOf(tag) & mask;
    while (this.#pack[slot] !== empty && this.#pack[slot] !== removed) slot = (slot + 1) & mask;
    return slot;
  }

  /** Makes the table anew with space for more rows, without slots of those that are gone. */
  #grow(rows: number): void {
    const [packs, ats, tags, counts, depths] = [this.#pack, this.#at, this.#tag, this.#count, this.#depth];
    const [references, marks] = [this.#references, this.#marks];
    let slots = packs.length;
    while (this.#size + rows > 0.9 * maxLoad * slots) slots *= 2;
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
