/**
 * The directory of a ZIP archive whose entries are stored without compression, as PyTorch and Keras write them (APPNOTE
 * 6.3.10, 4.3 and 4.5.3 for ZIP64). Only what their files need: an entry is a range of the file, so that nothing is
 * unpacked and no archive is larger than it looks.
 */
import { readFully } from "../tensor/safetensors-reader.js";
import type { OpenedPart } from "./form.js";

/** An entry that is stored as it is; `start` is found by `dataStart`. */
export interface ZipEntry {
  readonly name: string;
  readonly crc32: number;
  readonly byteLength: number;
  /** 0 is stored. */
  readonly method: number;
  readonly isEncrypted: boolean;
  readonly headerAt: number;
}

export interface ZipDirectory {
  readonly entries: ReadonlyMap<string, ZipEntry>;
  /** The directory's first byte: all entries' bytes come before it. */
  readonly start: number;
}

type Fail = (reason: string) => never;

const maxDirectoryBytes = 64 * 1024 * 1024;
const maxEntries = 500_000;
/** The end record has 22 bytes and a comment of at most 65,535. */
const endBytes = 22;
const maxCommentBytes = 0xffff;

interface End {
  readonly entries: number;
  readonly byteLength: number;
  readonly start: number;
}

/** Reads and checks the directory. @param fail throws the caller's error */
export async function readZipDirectory({ file, size }: OpenedPart, fail: Fail): Promise<ZipDirectory> {
  const end = await findEnd({ file, size }, fail);
  if (end.byteLength > maxDirectoryBytes || end.entries > maxEntries)
    fail(`its directory of ${end.entries} entries is larger than the limit of ${maxEntries}`);
  if (end.start + end.byteLength > size) fail("its directory is outside the file");
  const bytes = Buffer.alloc(end.byteLength);
  await readFully(file, bytes, end.start, "The directory of the archive");
  const entries = new Map<string, ZipEntry>();
  let at = 0;
  for (let i = 0; i < end.entries; i++) {
    const { entry, next } = entryAt(bytes, at, fail);
    if (entries.has(entry.name)) fail(`it has two entries ${JSON.stringify(entry.name.slice(0, 80))}`);
    entries.set(entry.name, entry);
    at = next;
  }
  return { entries, start: end.start };
}

async function findEnd({ file, size }: OpenedPart, fail: Fail): Promise<End> {
  const tail = Buffer.alloc(Math.min(size, endBytes + maxCommentBytes + zip64LocatorBytes));
  const tailStart = size - tail.length;
  await readFully(file, tail, tailStart, "The end of the archive");
  let at = tail.length - endBytes;
  while (
    at >= 0 &&
    !(tail.readUInt32LE(at) === 0x06054b50 && at + endBytes + tail.readUInt16LE(at + 20) === tail.length)
  )
    at--;
  if (at < 0) return fail("the end of the archive is missing: it was cut short");
  const end = {
    entries: tail.readUInt16LE(at + 10),
    byteLength: tail.readUInt32LE(at + 12),
    start: tail.readUInt32LE(at + 16),
  };
  const isLarge = end.entries === 0xffff || end.byteLength === 0xffffffff || end.start === 0xffffffff;
  const locator = at - zip64LocatorBytes;
  return isLarge && locator >= 0 && tail.readUInt32LE(locator) === 0x07064b50
    ? await zip64End({ file, size }, tail.readBigUInt64LE(locator + 8), fail)
    : end;
}

const zip64LocatorBytes = 20;
const zip64EndBytes = 56;

async function zip64End({ file, size }: OpenedPart, position: bigint, fail: Fail): Promise<End> {
  if (position + BigInt(zip64EndBytes) > BigInt(size)) fail("its ZIP64 directory is outside the file");
  const record = Buffer.alloc(zip64EndBytes);
  await readFully(file, record, Number(position), "The end of the archive");
  if (record.readUInt32LE(0) !== 0x06064b50) fail("its ZIP64 directory is missing");
  return {
    entries: wholeNumber(record, 32, fail),
    byteLength: wholeNumber(record, 40, fail),
    start: wholeNumber(record, 48, fail),
  };
}

function wholeNumber(bytes: Buffer, at: number, fail: Fail): number {
  const value = bytes.readBigUInt64LE(at);
  return value > BigInt(Number.MAX_SAFE_INTEGER) ? fail("it has a length that no file has") : Number(value);
}

const fixedEntryBytes = 46;

function entryAt(bytes: Buffer, at: number, fail: Fail): { readonly entry: ZipEntry; readonly next: number } {
  if (at + fixedEntryBytes > bytes.length || bytes.readUInt32LE(at) !== 0x02014b50)
    return fail("its directory is damaged");
  const nameEnd = at + fixedEntryBytes + bytes.readUInt16LE(at + 28);
  const extraEnd = nameEnd + bytes.readUInt16LE(at + 30);
  const next = extraEnd + bytes.readUInt16LE(at + 32);
  if (next > bytes.length) return fail("its directory is damaged");
  const name = bytes.toString("utf8", at + fixedEntryBytes, nameEnd);
  const large = zip64Numbers(bytes.subarray(nameEnd, extraEnd));
  const number = (position: number): number =>
    bytes.readUInt32LE(position) === 0xffffffff
      ? (large() ?? fail(`the entry ${JSON.stringify(name.slice(0, 80))} lacks its length`))
      : bytes.readUInt32LE(position);
  // The order in the ZIP64 field is that of these reads.
  const byteLength = number(at + 24);
  const storedBytes = number(at + 20);
  const headerAt = number(at + 42);
  const method = bytes.readUInt16LE(at + 10);
  if (method === 0 && storedBytes !== byteLength)
    return fail(`the entry ${JSON.stringify(name.slice(0, 80))} has two lengths`);
  const isEncrypted = (bytes.readUInt16LE(at + 8) & 1) === 1;
  return {
    entry: { name, crc32: bytes.readUInt32LE(at + 16), byteLength, method, isEncrypted, headerAt },
    next,
  };
}

/** The numbers of an entry's ZIP64 field (id 1), one after the other. */
function zip64Numbers(extra: Buffer): () => number | undefined {
  let field = Buffer.alloc(0);
  for (let at = 0; at + 4 <= extra.length; at += 4 + extra.readUInt16LE(at + 2))
    if (extra.readUInt16LE(at) === 1)
      field = Buffer.from(extra.subarray(at + 4, at + 4 + extra.readUInt16LE(at + 2)));
  let read = 0;
  return () => {
    if (read + 8 > field.length) return undefined;
    const value = field.readBigUInt64LE(read);
    read += 8;
    return value > BigInt(Number.MAX_SAFE_INTEGER) ? undefined : Number(value);
  };
}

const localHeaderBytes = 30;

/** The position of an entry's first byte, by the header before it. @param fail throws the caller's error */
export async function dataStart(
  { file, size }: OpenedPart,
  directory: ZipDirectory,
  entry: ZipEntry,
  fail: Fail,
): Promise<number> {
  const shown = JSON.stringify(entry.name.slice(0, 80));
  if (entry.isEncrypted) return fail(`the entry ${shown} is encrypted`);
  if (entry.method !== 0)
    return fail(`the entry ${shown} is compressed, which neither PyTorch nor Keras does`);
  if (entry.headerAt + localHeaderBytes > size) return fail(`the entry ${shown} is outside the file`);
  const header = Buffer.alloc(localHeaderBytes);
  await readFully(file, header, entry.headerAt, "The archive");
  if (header.readUInt32LE(0) !== 0x04034b50)
    return fail(`the entry ${shown} is not where the directory states`);
  const start = entry.headerAt + localHeaderBytes + header.readUInt16LE(26) + header.readUInt16LE(28);
  return start + entry.byteLength > directory.start ? fail(`the entry ${shown} is outside the file`) : start;
}
