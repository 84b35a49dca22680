/**
 * A file of sorted rows that never changes once it has its name. Rows stand in blocks, each with a checksum; the first
 * key of every block is kept in memory, so that a lookup reads one block, and a filter of all keys, so that hardly any
 * lookup of an absent key reads one.
 *
 * Format 2: "STEMROWS", format u32; blocks; first keys; filter; the end.
 * A block: for each row its head (row-head.ts), the bytes of its key that the one before does not share, its value; at
 * the end the CRC-32 of all these.
 * First keys: for each block its offset u64, bytes u32, CRC-32, bytes of its first key u16, that key; then the CRC-32
 * of all these, which therefore follows from every byte of every row.
 * The filter: as many bytes as the end states, of which each key sets 7 bits (key-filter.ts); their CRC-32.
 * The end, 48 bytes: offset of the first keys u64, their bytes u64, number of blocks u64, of rows u64, bytes of the
 * filter u64, the CRC-32 of these, "STEM". Numbers are little-endian.
 */
import { crc32 } from "node:zlib";
import { LRUCache } from "lru-cache";
import { nextTurn } from "../concurrency/in-steps.js";
import { replaceDurably } from "../files/durable-write.js";
import type { Files, FilesToReadNow, FileToReadNow, OpenFile } from "../ports.js";
import { addToFilter, emptyFilter, mayHave } from "./key-filter.js";
import { encodeRowHead, RowHead } from "./row-head.js";
import { DamagedTables, maxKeyBytes, maxValueBytes, type Row } from "./row.js";

const magic = Buffer.from("STEMROWS");
const head = Buffer.concat([magic, Buffer.of(2, 0, 0, 0)]);
const tail = Buffer.from("STEM");
const endBytes = 48;
const checkBytes = 4;
const firstKeyHeadBytes = 18;
/** A block ends with the row that makes it this large. */
const blockBytes = 8 * 1024;
const writeBytes = 256 * 1024;
const keptBlocks = 128;
/** Blocks whose rows are kept: who goes through rows by pages, or looks up neighbours, asks for the same ones again. */
const keptDecoded = 16;

/** The rows of a file, and a checksum that follows from every byte of them. */
export interface RunContent {
  readonly rows: number;
  readonly check: number;
}

/**
 * Writes rows, which come in the order of their keys, each key once, into a new file. Gives the event loop its turn
 * with every 256 KiB.
 * @param mostRows the rows are not more than these
 * @throws FILE_FAILED, DISK_FULL; then there is no file
 */
export async function writeRun(
  files: Files,
  path: string,
  rows: Iterable<Row> | AsyncIterable<Row>,
  mostRows: number,
): Promise<RunContent> {
  let written: RunContent = { rows: 0, check: 0 };
  await replaceDurably(files, path, async (file) => {
    written = await new RunWriter(file, mostRows).write(rows);
  });
  return written;
}

class RunWriter {
  #parts: Buffer[] = [head];
  #partBytes = head.length;
  #writtenBytes = 0;
  readonly #firstKeys: Buffer[] = [];
  #block: Buffer[] = [];
  #blockBytes = 0;
  #blockOffset = head.length;
  #firstKey: Buffer = Buffer.alloc(0);
  #lastKey: Buffer | undefined;
  #rows = 0;
  readonly #filter: Buffer;

  constructor(
    private readonly file: OpenFile,
    mostRows: number,
  ) {
    this.#filter = emptyFilter(mostRows);
  }

  async write(rows: Iterable<Row> | AsyncIterable<Row>): Promise<RunContent> {
    for await (const row of rows) {
      this.#add(row);
      if (this.#partBytes >= writeBytes) await this.#flush();
    }
    this.#endBlock();
    const firstKeysAt = this.#blockOffset;
    const firstKeys = Buffer.concat(this.#firstKeys);
    const filter = this.#filter;
    this.#push(firstKeys, checkOf(firstKeys), filter, checkOf(filter));
    const end = Buffer.alloc(endBytes - checkBytes - tail.length);
    end.writeBigUInt64LE(BigInt(firstKeysAt), 0);
    end.writeBigUInt64LE(BigInt(firstKeys.length), 8);
    end.writeBigUInt64LE(BigInt(this.#firstKeys.length), 16);
    end.writeBigUInt64LE(BigInt(this.#rows), 24);
    end.writeBigUInt64LE(BigInt(filter.length), 32);
    this.#push(end, checkOf(end), tail);
    await this.#flush();
    return { rows: this.#rows, check: crc32(firstKeys) };
  }

  #add({ key, value }: Row): void {
    if (key.length > maxKeyBytes || value.length > maxValueBytes)
      throw new RangeError(`a row of ${key.length} and ${value.length} bytes is too large for a table`);
    const last = this.#lastKey;
    if (last !== undefined && last.compare(key) >= 0) throw new RangeError("rows are not in order");
    this.#lastKey = key;
    if (this.#block.length === 0) this.#firstKey = key;
    const shared = this.#block.length === 0 || last === undefined ? 0 : sharedBytes(last, key);
    const rowHead = encodeRowHead(shared, key.length - shared, value.length);
    this.#block.push(rowHead, key.subarray(shared), value);
    this.#blockBytes += rowHead.length + key.length - shared + value.length;
    this.#rows++;
    addToFilter(this.#filter, key);
    if (this.#blockBytes >= blockBytes) this.#endBlock();
  }

  #endBlock(): void {
    if (this.#block.length === 0) return;
    const block = Buffer.concat(this.#block);
    const check = checkOf(block);
    this.#push(block, check);
    const first = Buffer.allocUnsafe(firstKeyHeadBytes);
    first.writeBigUInt64LE(BigInt(this.#blockOffset), 0);
    first.writeUInt32LE(block.length + checkBytes, 8);
    check.copy(first, 12);
    first.writeUInt16LE(this.#firstKey.length, 16);
    this.#firstKeys.push(Buffer.concat([first, this.#firstKey]));
    this.#blockOffset += block.length + checkBytes;
    this.#block = [];
    this.#blockBytes = 0;
  }

  #push(...parts: readonly Buffer[]): void {
    for (const part of parts) {
      this.#parts.push(part);
      this.#partBytes += part.length;
    }
  }

  async #flush(): Promise<void> {
    const bytes = Buffer.concat(this.#parts);
    this.#parts = [];
    this.#partBytes = 0;
    await this.file.write(bytes, this.#writtenBytes);
    this.#writtenBytes += bytes.length;
  }
}

function checkOf(bytes: Uint8Array): Buffer {
  const check = Buffer.allocUnsafe(checkBytes);
  check.writeUInt32LE(crc32(bytes), 0);
  return check;
}

function sharedBytes(a: Buffer, b: Buffer): number {
  const most = Math.min(a.length, b.length);
  let shared = 0;
  while (shared < most && a[shared] === b[shared]) shared++;
  return shared;
}

/** The place of a block in the file. */
interface BlockPlace {
  readonly offset: number;
  readonly bytes: number;
}

/** An opened file of rows. */
export class TableRun implements RunContent {
  readonly rows: number;
  readonly check: number;
  readonly #path: string;
  readonly #file: FileToReadNow;
  readonly #firstKeys: readonly Buffer[];
  readonly #places: readonly BlockPlace[];
  readonly #filter: Buffer;
  /** Blocks that were read and compared with their checksums. */
  readonly #blocks = new LRUCache<number, Buffer>({ max: keptBlocks });
  readonly #decoded = new LRUCache<number, readonly Row[]>({ max: keptDecoded });

  private constructor(
    path: string,
    file: FileToReadNow,
    { rows, check, firstKeys, places, filter }: RunContent & FirstKeys & { readonly filter: Buffer },
  ) {
    this.#path = path;
    this.#file = file;
    this.rows = rows;
    this.check = check;
    this.#firstKeys = firstKeys;
    this.#places = places;
    this.#filter = filter;
  }

  /** @throws DamagedTables, FILE_MISSING, FILE_FAILED */
  static open(files: FilesToReadNow, path: string): TableRun {
    const file = files.openNow(path);
    try {
      const size = file.size();
      const end = readBytes(file, path, { offset: Math.max(0, size - endBytes), bytes: endBytes });
      const start = readBytes(file, path, { offset: 0, bytes: head.length });
      if (start.subarray(0, magic.length).equals(magic) && !start.equals(head))
        throw new DamagedTables(path, "is in a format of another release");
      if (!start.equals(head) || !end.subarray(-tail.length).equals(tail))
        throw new DamagedTables(path, "is not a complete file of rows");
      requireCheck(path, end.subarray(0, -tail.length));
      const offset = Number(end.readBigUInt64LE(0));
      const bytes = Number(end.readBigUInt64LE(8));
      const count = Number(end.readBigUInt64LE(16));
      const filterBytes = Number(end.readBigUInt64LE(32));
      const filterAt = offset + bytes + checkBytes;
      if (filterAt + filterBytes + checkBytes + endBytes !== size)
        throw new DamagedTables(path, "does not have the length that it states");
      const filter = readBytes(file, path, { offset: filterAt, bytes: filterBytes + checkBytes });
      requireCheck(path, filter);
      const firstKeys = readBytes(file, path, { offset, bytes: bytes + checkBytes });
      requireCheck(path, firstKeys);
      return new TableRun(path, file, {
        rows: Number(end.readBigUInt64LE(24)),
        check: firstKeys.readUInt32LE(bytes),
        filter: filter.subarray(0, filterBytes),
        ...decodeFirstKeys(firstKeys.subarray(0, -checkBytes), count),
      });
    } catch (error) {
      file.close();
      throw error;
    }
  }

  get(key: Buffer): Buffer | undefined {
    if (!mayHave(this.#filter, key)) return undefined;
    const block = lastAtMost(this.#firstKeys, key);
    return block === -1 ? undefined : valueIn(this.#block(block), key);
  }

  /** The rows from `from` on. */
  *ascending(from: Buffer): Generator<Row, void, undefined> {
    const first = Math.max(0, lastAtMost(this.#firstKeys, from));
    for (let block = first; block < this.#places.length; block++) {
      const rows = this.#rowsOf(block);
      for (let at = firstAtLeast(rows, from); at < rows.length; at++) yield rows[at] as Row;
    }
  }

  /** The rows before `until`, the last one first. */
  *descending(until: Buffer): Generator<Row, void, undefined> {
    for (let block = lastAtMost(this.#firstKeys, until); block >= 0; block--) {
      const rows = this.#rowsOf(block);
      for (let at = firstAtLeast(rows, until) - 1; at >= 0; at--) yield rows[at] as Row;
    }
  }

  /** All rows, through a file of its own. Leaves the blocks in memory as they are. */
  async *all(files: Pick<Files, "open">): AsyncGenerator<Row, void, undefined> {
    const file = await files.open(this.#path, "read");
    try {
      yield* this.#allIn(file);
    } finally {
      await file.close();
    }
  }

  async *#allIn(file: OpenFile): AsyncGenerator<Row, void, undefined> {
    for (let first = 0; first < this.#places.length;) {
      const from = this.#places[first] as BlockPlace;
      let next = first;
      let bytes = 0;
      while (next < this.#places.length && bytes < writeBytes)
        bytes += (this.#places[next++] as BlockPlace).bytes;
      const read = Buffer.allocUnsafe(bytes);
      if ((await file.read(read, from.offset)) !== bytes) throw new DamagedTables(this.#path, "was cut off");
      for (let block = first; block < next; block++) {
        const { offset, bytes: length } = this.#places[block] as BlockPlace;
        yield* rowsIn(this.#checked(read.subarray(offset - from.offset, offset - from.offset + length)));
      }
      first = next;
    }
  }

  /** Compares every block with its checksum, in steps. @throws DamagedTables */
  async verify(): Promise<void> {
    let bytes = 0;
    for (const place of this.#places) {
      this.#checked(readBytes(this.#file, this.#path, place));
      bytes += place.bytes;
      if (bytes < writeBytes) continue;
      bytes = 0;
      await nextTurn();
    }
  }

  close(): void {
    this.#blocks.clear();
    this.#decoded.clear();
    this.#file.close();
  }

  #block(block: number): Buffer {
    const known = this.#blocks.get(block);
    if (known !== undefined) return known;
    const checked = this.#checked(readBytes(this.#file, this.#path, this.#places[block] as BlockPlace));
    this.#blocks.set(block, checked);
    return checked;
  }

  #rowsOf(block: number): readonly Row[] {
    const known = this.#decoded.get(block);
    if (known !== undefined) return known;
    const rows = rowsIn(this.#block(block));
    this.#decoded.set(block, rows);
    return rows;
  }

  #checked(block: Buffer): Buffer {
    requireCheck(this.#path, block);
    return block.subarray(0, -checkBytes);
  }
}

/** Finds a row's value in a block without decoding the rows before it. */
function valueIn(block: Buffer, key: Buffer): Buffer | undefined {
  /** Bytes at which all keys so far are equal to `key`; the next byte of the last one is lower. */
  let equal = 0;
  const head = new RowHead(block);
  for (let at = 0; at < block.length;) {
    const keyAt = head.read(at);
    const { shared, own } = head;
    const valueAt = keyAt + own;
    const next = valueAt + head.valueBytes;
    // A key that shares more with the one before is lower, too; one that shares less is higher.
    if (shared < equal) return undefined;
    if (shared === equal) {
      let same = 0;
      while (same < own && shared + same < key.length && block[keyAt + same] === key[shared + same]) same++;
      equal = shared + same;
      if (same === own && equal === key.length) return block.subarray(valueAt, next);
      const isHigher =
        equal === key.length || (same < own && (block[keyAt + same] as number) > (key[equal] as number));
      if (isHigher) return undefined;
    }
    at = next;
  }
  return undefined;
}

function rowsIn(block: Buffer): readonly Row[] {
  const rows: Row[] = [];
  const head = new RowHead(block);
  let last: Buffer = Buffer.alloc(0);
  for (let at = 0; at < block.length;) {
    const keyAt = head.read(at);
    const valueAt = keyAt + head.own;
    const next = valueAt + head.valueBytes;
    const own = block.subarray(keyAt, valueAt);
    const key = head.shared === 0 ? own : Buffer.concat([last.subarray(0, head.shared), own]);
    rows.push({ key, value: block.subarray(valueAt, next) });
    last = key;
    at = next;
  }
  return rows;
}

interface FirstKeys {
  readonly firstKeys: readonly Buffer[];
  readonly places: readonly BlockPlace[];
}

function decodeFirstKeys(bytes: Buffer, count: number): FirstKeys {
  const firstKeys: Buffer[] = [];
  const places: BlockPlace[] = [];
  for (let at = 0; places.length < count;) {
    const keyAt = at + firstKeyHeadBytes;
    const next = keyAt + bytes.readUInt16LE(at + 16);
    places.push({ offset: Number(bytes.readBigUInt64LE(at)), bytes: bytes.readUInt32LE(at + 8) });
    firstKeys.push(bytes.subarray(keyAt, next));
    at = next;
  }
  return { firstKeys, places };
}

/** @throws DamagedTables where the last four bytes are not the CRC-32 of those before */
function requireCheck(path: string, bytes: Buffer): void {
  const end = bytes.length - checkBytes;
  if (end < 0 || bytes.readUInt32LE(end) !== crc32(bytes.subarray(0, end)))
    throw new DamagedTables(path, "has a checksum that is wrong");
}

function readBytes(file: FileToReadNow, path: string, { offset, bytes }: BlockPlace): Buffer {
  const target = Buffer.allocUnsafe(bytes);
  if (file.read(target, offset) !== bytes) throw new DamagedTables(path, "was cut off");
  return target;
}

/** The place of the first of sorted rows whose key is not before `key`. */
function firstAtLeast(rows: readonly Row[], key: Buffer): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((rows[middle] as Row).key.compare(key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The last of sorted keys that is not after `key`; -1: there is none. */
function lastAtMost(keys: readonly Buffer[], key: Buffer): number {
  let [low, high] = [0, keys.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] as Buffer).compare(key) <= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
