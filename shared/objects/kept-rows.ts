/**
 * The rows of a table of objects that are in a file, and what has changed of them since: rows that are gone, counts of
 * the store's owner, marks, depths. A row whose copy or count changes becomes one in memory, and is gone here.
 */
import type { ObjectRows, RowContent } from "./object-rows.js";
import type { SortedRows } from "./sorted-rows.js";

/** Counts of an owner up to here have a byte each. */
const mostInByte = 254;
/** Depths that are kept; they are computed again where they are forgotten. */
const keptDepths = 64 * 1024;

/** A bit for each row. */
class Bits {
  readonly #words: Uint32Array<ArrayBuffer>;
  constructor(rows: number) {
    this.#words = new Uint32Array(Math.ceil(rows / 32));
  }
  has(row: number): boolean {
    return (((this.#words[row >>> 5] ?? 0) >>> (row & 31)) & 1) === 1;
  }
  add(row: number): void {
    const word = row >>> 5;
    this.#words[word] = (this.#words[word] as number) | (1 << (row & 31));
  }
  *rows(): Iterable<number> {
    for (const [word, bits] of this.#words.entries())
      if (bits !== 0) for (let row = 32 * word; row < 32 * (word + 1); row++) if (this.has(row)) yield row;
  }
}

/** Counts of rows, a byte for each, and more for the few that are high. Needs nothing until the first one. */
export class RowCounts {
  /** 255 for those whose count is in `#high`. */
  #bytes = new Uint8Array(0);
  readonly #high = new Map<number, number>();

  /** @param rows the number of rows */
  constructor(private readonly rows: number) {}

  of(row: number): number {
    const count = this.#bytes[row] ?? 0;
    return count > mostInByte ? (this.#high.get(row) as number) : count;
  }
  set(row: number, count: number): void {
    if (this.#bytes.length === 0) {
      if (count === 0) return;
      this.#bytes = new Uint8Array(this.rows);
    }
    this.#bytes[row] = Math.min(count, mostInByte + 1);
    if (count > mostInByte) this.#high.set(row, count);
    else this.#high.delete(row);
  }
}

export class KeptRows implements ObjectRows {
  #gone: Bits | undefined;
  #goneRows = 0;
  #marks: Bits | undefined;
  readonly #depths = new Map<number, number>();
  /** Rows that were removed, or whose references changed, since they are watched. */
  #touched: Bits | undefined;
  #touchedRows = 0;

  /**
   * @param numbers the number of each pack of the file
   * @param references the counts of the store's owner
   */
  constructor(
    private readonly rows: SortedRows,
    private readonly numbers: ArrayLike<number>,
    private readonly references = new RowCounts(rows.size),
  ) {}

  /** The number of rows that are not gone. */
  get size(): number {
    return this.rows.size - this.#goneRows;
  }

  firstOf(tag: number): number {
    return this.#there(this.rows.firstOf(tag), tag);
  }
  nextOf(row: number, tag: number): number {
    return this.#there(this.rows.nextOf(row, tag), tag);
  }
  #there(found: number, tag: number): number {
    let row = found;
    while (row !== -1 && this.#gone?.has(row) === true) row = this.rows.nextOf(row, tag);
    return row;
  }

  packOf(row: number): number {
    return this.numbers[this.rows.packOf(row)] as number;
  }
  atOf(row: number): number {
    return this.rows.atOf(row);
  }
  countOf(row: number): number {
    return this.rows.countOf(row);
  }
  depthOf(row: number): number | undefined {
    return this.#depths.get(row);
  }
  setDepth(row: number, depth: number): void {
    if (this.#depths.size >= keptDepths) this.#depths.clear();
    this.#depths.set(row, depth);
  }
  forgetDepths(): void {
    this.#depths.clear();
  }
  referencesOf(row: number): number {
    return this.references.of(row);
  }
  setReferences(row: number, count: number): void {
    this.references.set(row, count);
    this.#touch(row);
  }
  beginMarks(): void {
    this.#marks = new Bits(this.rows.size);
  }
  endMarks(): void {
    this.#marks = undefined;
  }
  isMarked(row: number): boolean {
    return this.#marks?.has(row) === true;
  }
  mark(row: number): void {
    this.#marks?.add(row);
  }
  remove(row: number): void {
    (this.#gone ??= new Bits(this.rows.size)).add(row);
    this.#goneRows++;
    this.#touch(row);
  }

  /** Notes from now on which rows change. */
  watch(): void {
    this.#touched = new Bits(this.rows.size);
    this.#touchedRows = 0;
  }
  #touch(row: number): void {
    if (this.#touched === undefined || this.#touched.has(row)) return;
    this.#touched.add(row);
    this.#touchedRows++;
  }
  /** The number of rows that `touched` has. */
  get touchedRows(): number {
    return this.#touchedRows;
  }
  unwatch(): void {
    this.#touched = undefined;
  }
  /** Rows that were removed, or whose references changed, since they are watched. */
  *touched(): Iterable<{ readonly row: number; readonly content: RowContent; readonly isGone: boolean }> {
    for (const row of this.#touched?.rows() ?? [])
      yield { row, content: this.contentOf(row), isGone: this.#gone?.has(row) === true };
  }

  contentOf(row: number): RowContent {
    return {
      tag: this.rows.tagOf(row),
      pack: this.packOf(row),
      at: this.rows.atOf(row),
      count: this.rows.countOf(row),
    };
  }

  /** The rows that were there when they were first watched, in the order of their tags. */
  *watched(): Iterable<readonly [row: number, content: RowContent]> {
    for (const [first, rows] of this.rows.pagesOfRows())
      for (const [each, content] of rows.entries()) {
        const row = first + each;
        const isGone = this.#gone?.has(row) === true && this.#touched?.has(row) !== true;
        if (!isGone) yield [row, { ...content, pack: this.numbers[content.pack] as number }];
      }
  }

  close(): void {
    this.rows.close();
  }
}
