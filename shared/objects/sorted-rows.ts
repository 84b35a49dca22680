/**
 * Rows of a table of objects in a file, in the order of their tags, 16 bytes each: tag, number of the pack, position,
 * count, u32 each. They stand in pages of 4 KiB with a checksum, of which a lookup reads one; the first tag of each
 * page is in memory, and so are some pages that were read last. What the file has never changes.
 *
 * A page: 255 rows, those that are missing in the last one as zeros; the page's number u32; its rows u32; zero u32;
 * the CRC-32 of these. Numbers are little-endian.
 */
import { crc32 } from "node:zlib";
import { nextTurn } from "../concurrency/in-steps.js";
import type { FileToReadNow } from "../ports.js";
import type { RowContent } from "./object-rows.js";

export const pageBytes = 4096;
export const rowsPerPage = 255;
const rowBytes = 16;
const numberAt = rowsPerPage * rowBytes;
const checkAt = pageBytes - 4;
/** Pages that are kept unless another number is given: 16 MiB, those of a million objects. */
const defaultKeptPages = 4096;
/** Pages that who reads all of them reads at once. */
const pagesAtOnce = 64;

/** The place of the pages, and the first tag of each. */
export interface SortedPages {
  /** The offset of the first page. */
  readonly from: number;
  readonly rows: number;
  readonly firstTags: Uint32Array<ArrayBuffer>;
}

/** A page of the table is not what was written. */
export class DamagedTable extends Error {
  override readonly name = "DamagedTable";
}

export class SortedRows {
  readonly size: number;
  readonly #kept: (Buffer | undefined)[] = [];
  readonly #keptNumbers: Int32Array<ArrayBuffer>;

  /** @param onDamage makes the error that is thrown where a page is damaged */
  constructor(
    private readonly file: FileToReadNow,
    private readonly pages: SortedPages,
    private readonly onDamage: (cause: DamagedTable) => Error = (cause) => cause,
    private readonly keptPages = defaultKeptPages,
  ) {
    this.size = pages.rows;
    this.#keptNumbers = new Int32Array(keptPages).fill(-1);
  }

  /** The first row with this tag; -1: there is none. */
  firstOf(tag: number): number {
    const { firstTags } = this.pages;
    // The page before the first one that begins with this tag or a higher one.
    let [low, high] = rangeAround(firstTags, tag);
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((firstTags[middle] as number) < tag) low = middle + 1;
      else high = middle;
    }
    const number = Math.max(0, low - 1);
    return this.#ifOfTag(number * rowsPerPage + this.#before(number, tag), tag);
  }
  nextOf(row: number, tag: number): number {
    return this.#ifOfTag(row + 1, tag);
  }
  #ifOfTag(row: number, tag: number): number {
    return row < this.size && this.tagOf(row) === tag ? row : -1;
  }

  /** The number of rows of a page whose tags are lower. */
  #before(number: number, tag: number): number {
    if (number >= this.pages.firstTags.length) return 0;
    const page = this.#page(number);
    const rows = Math.min(rowsPerPage, this.size - number * rowsPerPage);
    const first = this.pages.firstTags[number] as number;
    const next = this.pages.firstTags[number + 1] ?? 2 ** 32;
    // Tags are parts of hashes, which are spread evenly: a few steps lead from where it should be to where it is.
    let row = Math.min(rows, Math.max(0, Math.floor(((tag - first) / (next - first)) * rows)) || 0);
    while (row > 0 && page.readUInt32LE((row - 1) * rowBytes) >= tag) row--;
    while (row < rows && page.readUInt32LE(row * rowBytes) < tag) row++;
    return row;
  }

  tagOf(row: number): number {
    return this.#number(row, 0);
  }
  packOf(row: number): number {
    return this.#number(row, 4);
  }
  atOf(row: number): number {
    return this.#number(row, 8);
  }
  countOf(row: number): number {
    return this.#number(row, 12);
  }
  #number(row: number, offset: number): number {
    const number = Math.floor(row / rowsPerPage);
    return this.#page(number).readUInt32LE((row - number * rowsPerPage) * rowBytes + offset);
  }

  #page(number: number): Buffer {
    const slot = number % this.keptPages;
    const kept = this.#kept[slot];
    if (kept !== undefined && this.#keptNumbers[slot] === number) return kept;
    const page = kept ?? Buffer.alloc(pageBytes);
    // What is read into it may be cut short, or be another page's.
    this.#keptNumbers[slot] = -1;
    this.#read(page, number);
    this.#kept[slot] = page;
    this.#keptNumbers[slot] = number;
    return page;
  }
  /** Reads pages from this one on. */
  #read(target: Buffer, first: number): void {
    const read = this.file.read(target, this.pages.from + first * pageBytes);
    for (let at = 0; at < target.length; at += pageBytes) {
      const page = target.subarray(at, at + pageBytes);
      const number = first + at / pageBytes;
      if (
        read < at + pageBytes ||
        page.readUInt32LE(checkAt) !== crc32(page.subarray(0, checkAt)) ||
        page.readUInt32LE(numberAt) !== number ||
        page.readUInt32LE(numberAt + 4) !== Math.min(rowsPerPage, this.size - number * rowsPerPage)
      )
        throw this.onDamage(new DamagedTable(`Page ${number} of the table of objects is damaged.`));
    }
  }

  /** All rows in their order, page by page. */
  *pagesOfRows(): Iterable<readonly [first: number, rows: readonly RowContent[]]> {
    for (const [firstPage, pages] of this.#batches())
      for (let at = 0; at < pages.length; at += pageBytes) {
        const first = (firstPage + at / pageBytes) * rowsPerPage;
        const rows = Math.min(rowsPerPage, this.size - first);
        yield [first, Array.from({ length: rows }, (_, row) => rowAt(pages, at + row * rowBytes))];
      }
  }

  /** Reads all pages, beside other work. Throws where one is damaged. */
  async verify(): Promise<void> {
    for (const _pages of this.#batches()) await nextTurn();
  }
  /** All pages, some at once. The bytes are used again. */
  *#batches(): Iterable<readonly [first: number, pages: Buffer]> {
    const { length } = this.pages.firstTags;
    const target = Buffer.alloc(pagesAtOnce * pageBytes);
    for (let first = 0; first < length; first += pagesAtOnce) {
      const pages = target.subarray(0, Math.min(pagesAtOnce, length - first) * pageBytes);
      this.#read(pages, first);
      yield [first, pages];
    }
  }

  close(): void {
    this.#keptNumbers.fill(-1);
    this.file.close();
  }
}

/** The range around a tag's place among sorted tags that are spread evenly; it has the first that is not below it. */
function rangeAround(tags: Uint32Array, tag: number): [low: number, high: number] {
  const guess = Math.floor((tag / 2 ** 32) * tags.length);
  let [below, above] = [4, 4];
  while (below < guess && (tags[guess - below - 1] as number) >= tag) below *= 4;
  while (guess + above < tags.length && (tags[guess + above] as number) < tag) above *= 4;
  return [Math.max(0, guess - below), Math.min(tags.length, guess + above)];
}

function rowAt(bytes: Buffer, at: number): RowContent {
  return {
    tag: bytes.readUInt32LE(at),
    pack: bytes.readUInt32LE(at + 4),
    at: bytes.readUInt32LE(at + 8),
    count: bytes.readUInt32LE(at + 12),
  };
}

/** Makes pages of rows that come in the order of their tags. */
export class PageWriter {
  readonly #firstTags: number[] = [];
  #page = Buffer.alloc(pageBytes);
  #inPage = 0;
  #rows = 0;

  /** @returns the page that this row fills */
  add({ tag, pack, at, count }: RowContent): Buffer | undefined {
    if (this.#inPage === 0) this.#firstTags.push(tag);
    const to = this.#inPage * rowBytes;
    this.#page.writeUInt32LE(tag, to);
    this.#page.writeUInt32LE(pack, to + 4);
    this.#page.writeUInt32LE(at, to + 8);
    this.#page.writeUInt32LE(count, to + 12);
    this.#rows++;
    return ++this.#inPage === rowsPerPage ? this.end() : undefined;
  }
  /** The last page, where one has begun. */
  end(): Buffer | undefined {
    if (this.#inPage === 0) return undefined;
    const page = this.#page;
    page.writeUInt32LE(this.#firstTags.length - 1, numberAt);
    page.writeUInt32LE(this.#inPage, numberAt + 4);
    page.writeUInt32LE(crc32(page.subarray(0, checkAt)), checkAt);
    this.#page = Buffer.alloc(pageBytes);
    this.#inPage = 0;
    return page;
  }
  get rows(): number {
    return this.#rows;
  }
  get firstTags(): Uint32Array<ArrayBuffer> {
    return Uint32Array.from(this.#firstTags);
  }
}
