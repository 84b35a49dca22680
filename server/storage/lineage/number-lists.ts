/**
 * Many growing lists of whole numbers below 2^32, each named by a number. Lists share pages by the power of two that
 * holds them, so a list of one number takes 4 bytes and 13 to find it, where an array takes over 100.
 */
import { grown } from "./grown.js";

const pageNumbers = 65_536;
/** Lists that hold more have a page of their own. */
const maxShared = 4_096;

export class NumberLists {
  readonly #pages: Uint32Array[] = [];
  readonly #freePages: number[] = [];
  /** Blocks that were released, by power of two, as page · 65,536 + start. */
  readonly #freeBlocks: number[][] = [];
  /** The next block of the newest page by power of two; at a multiple of 65,536 there is none. */
  readonly #nextBlocks: number[] = [];
  #page = new Uint32Array(256);
  #start = new Uint32Array(256);
  #length = new Uint32Array(256);
  /** Power of two that a list may hold, plus 1; 0: it has no block. */
  #room = new Uint8Array(256);

  length(list: number): number {
    return list < this.#length.length ? (this.#length[list] as number) : 0;
  }

  get(list: number, at: number): number {
    const page = this.#pages[this.#page[list] as number] as Uint32Array;
    return page[(this.#start[list] as number) + at] as number;
  }

  set(list: number, at: number, value: number): void {
    const page = this.#pages[this.#page[list] as number] as Uint32Array;
    page[(this.#start[list] as number) + at] = value;
  }

  /** All numbers of a list, until it changes. */
  read(list: number): Uint32Array {
    const start = this.#start[list] as number;
    return (this.#pages[this.#page[list] as number] as Uint32Array).subarray(
      start,
      start + this.length(list),
    );
  }

  push(list: number, value: number): void {
    if (list >= this.#length.length) this.#growTo(list + 1);
    const length = this.#length[list] as number;
    const room = this.#room[list] as number;
    if (room === 0 || length === 2 ** (room - 1)) this.#enlarge(list);
    this.#length[list] = length + 1;
    this.set(list, length, value);
  }

  /** Removes the last number and returns it. The list must have one. */
  pop(list: number): number {
    const length = (this.#length[list] as number) - 1;
    const last = this.get(list, length);
    this.#length[list] = length;
    if (length === 0) this.#release(list);
    return last;
  }

  #growTo(lists: number): void {
    this.#page = grown(this.#page, lists);
    this.#start = grown(this.#start, lists);
    this.#length = grown(this.#length, lists);
    this.#room = grown(this.#room, lists);
  }

  #enlarge(list: number): void {
    const length = this.#length[list] as number;
    const power = this.#room[list] as number;
    const block = this.#allocate(power);
    const page = Math.floor(block / pageNumbers);
    const start = block % pageNumbers;
    if (length > 0) {
      const from = this.#start[list] as number;
      const old = this.#pages[this.#page[list] as number] as Uint32Array;
      (this.#pages[page] as Uint32Array).set(old.subarray(from, from + length), start);
    }
    this.#release(list);
    this.#page[list] = page;
    this.#start[list] = start;
    this.#room[list] = power + 1;
  }

  #release(list: number): void {
    const room = this.#room[list] as number;
    if (room === 0) return;
    const page = this.#page[list] as number;
    if (2 ** (room - 1) > maxShared) {
      this.#pages[page] = new Uint32Array();
      this.#freePages.push(page);
    } else (this.#freeBlocks[room - 1] ??= []).push(page * pageNumbers + (this.#start[list] as number));
    this.#room[list] = 0;
  }

  #allocate(power: number): number {
    const size = 2 ** power;
    if (size > maxShared) return this.#newPage(size) * pageNumbers;
    const released = this.#freeBlocks[power]?.pop();
    if (released !== undefined) return released;
    const next = this.#nextBlocks[power] ?? 0;
    const block = next % pageNumbers === 0 ? this.#newPage(pageNumbers) * pageNumbers : next;
    this.#nextBlocks[power] = block + size;
    return block;
  }

  #newPage(size: number): number {
    const page = this.#freePages.pop() ?? this.#pages.length;
    this.#pages[page] = new Uint32Array(size);
    return page;
  }
}
