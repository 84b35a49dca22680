/**
 * Reads what is needed of a shared library (ELF, 64 bits, little-endian): its architecture, the libraries that it
 * names, and whether it defines a function, by its GNU hash table, so that a library of 600 MB is not read.
 * Source: System V ABI, chapters 4 and 5; the GNU hash table as binutils writes it.
 */
import type { OpenFile } from "../../shared/ports.js";
import { notElf } from "./backend-errors.js";

export interface SharedLibrary {
  /** The architecture by Node's name, or the number of the machine. */
  readonly arch: string;
  /** The libraries that it needs, by name. */
  readonly needed: readonly string[];
  /** True if it defines this symbol. */
  defines(symbol: string): Promise<boolean>;
}

const machines: Readonly<Record<number, string>> = { 62: "x64", 183: "arm64", 40: "arm", 3: "ia32" };
const programHeaderBytes = 56;
const symbolBytes = 24;
const segment = { load: 1, dynamic: 2 } as const;
const tag = { end: 0, needed: 1, strings: 5, symbols: 6, gnuHash: 0x6ffffef5 } as const;
/** More than any library has. */
const maxHeaders = 256;
const maxDynamicBytes = 64 * 1024;
const maxNeeded = 256;
const maxNameBytes = 512;
const maxChain = 100_000;

interface Segment {
  readonly address: number;
  readonly offset: number;
  readonly bytes: number;
}

/** @throws BACKEND_UNAVAILABLE where it is not a shared library of this form */
export async function readSharedLibrary(file: OpenFile, path: string): Promise<SharedLibrary> {
  const reader = new Reader(file, path);
  const { machine, segments, dynamic } = await readHeaders(reader);
  const { tags, names } = await readDynamic(reader, dynamic);
  const offsetOf = (name: number): number => {
    const address = tags.get(name);
    const holding = segments.find(
      (each) => address !== undefined && address >= each.address && address < each.address + each.bytes,
    );
    if (address === undefined || holding === undefined) throw notElf(path, "its tables are missing");
    return address - holding.address + holding.offset;
  };
  const strings = offsetOf(tag.strings);
  return {
    arch: machines[machine] ?? `machine ${machine}`,
    needed: await Promise.all(names.map((at) => reader.text(strings + at))),
    defines: (symbol) =>
      isDefined(reader, symbol, { strings, table: offsetOf(tag.gnuHash), symbols: offsetOf(tag.symbols) }),
  };
}

/** Reads within a file, and refuses it where it ends too early. */
class Reader {
  constructor(
    private readonly file: OpenFile,
    readonly path: string,
  ) {}

  async bytes(offset: number, length: number): Promise<DataView> {
    const target = new Uint8Array(length);
    const isPlace = Number.isSafeInteger(offset) && offset >= 0;
    const count = isPlace ? await this.file.read(target, offset) : 0;
    if (count < length) throw notElf(this.path, "it ends too early");
    return new DataView(target.buffer);
  }

  async text(offset: number): Promise<string> {
    const target = new Uint8Array(maxNameBytes);
    const read = Number.isSafeInteger(offset) ? await this.file.read(target, offset) : 0;
    const end = target.subarray(0, read).indexOf(0);
    if (end < 0) throw notElf(this.path, "one of its names has no end");
    return new TextDecoder().decode(target.subarray(0, end));
  }
}

interface Headers {
  readonly machine: number;
  readonly segments: readonly Segment[];
  readonly dynamic: Segment;
}

async function readHeaders(reader: Reader): Promise<Headers> {
  const { path } = reader;
  const header = await reader.bytes(0, 64);
  if (header.getUint32(0) !== 0x7f454c46) throw notElf(path, "it is not an ELF file");
  if (header.getUint8(4) !== 2 || header.getUint8(5) !== 1)
    throw notElf(path, "it is not for 64 bits, little-endian");
  if (header.getUint16(16, true) !== 3) throw notElf(path, "it is not a shared library");
  const count = header.getUint16(56, true);
  if (count > maxHeaders || header.getUint16(54, true) !== programHeaderBytes)
    throw notElf(path, "its headers are malformed");
  const headers = await reader.bytes(number64(header, 32), count * programHeaderBytes);
  const segments: Segment[] = [];
  let dynamic: Segment | undefined;
  for (let at = 0; at < headers.byteLength; at += programHeaderBytes) {
    const type = headers.getUint32(at, true);
    const found = {
      offset: number64(headers, at + 8),
      address: number64(headers, at + 16),
      bytes: number64(headers, at + 32),
    };
    if (type === segment.load) segments.push(found);
    if (type === segment.dynamic) dynamic = found;
  }
  if (dynamic === undefined || dynamic.bytes > maxDynamicBytes)
    throw notElf(path, "it has no dynamic section");
  return { machine: header.getUint16(18, true), segments, dynamic };
}

interface Dynamic {
  /** Address or size by tag. */
  readonly tags: ReadonlyMap<number, number>;
  /** Places of the needed libraries' names in the table of strings. */
  readonly names: readonly number[];
}

async function readDynamic(reader: Reader, { offset, bytes }: Segment): Promise<Dynamic> {
  const entries = await reader.bytes(offset, bytes - (bytes % 16));
  const tags = new Map<number, number>();
  const names: number[] = [];
  for (let at = 0; at < entries.byteLength; at += 16) {
    const name = number64(entries, at);
    if (name === tag.end) break;
    if (name === tag.needed && names.length < maxNeeded) names.push(number64(entries, at + 8));
    else tags.set(name, number64(entries, at + 8));
  }
  return { tags, names };
}

interface Tables {
  readonly strings: number;
  readonly table: number;
  readonly symbols: number;
}

/** Looks a symbol up in the GNU hash table. */
async function isDefined(
  reader: Reader,
  symbol: string,
  { strings, table, symbols }: Tables,
): Promise<boolean> {
  const start = await reader.bytes(table, 16);
  const [buckets, first, bloomWords] = [0, 4, 8].map((at) => start.getUint32(at, true)) as [
    number,
    number,
    number,
  ];
  if (buckets === 0) return false;
  const hash = gnuHash(symbol);
  const bucketsAt = table + 16 + 8 * bloomWords;
  let index = (await reader.bytes(bucketsAt + 4 * (hash % buckets), 4)).getUint32(0, true);
  if (index < first) return false;
  for (let steps = 0; steps < maxChain; steps++, index++) {
    const link = (await reader.bytes(bucketsAt + 4 * (buckets + index - first), 4)).getUint32(0, true);
    if ((link | 1) === (hash | 1)) {
      const entry = await reader.bytes(symbols + symbolBytes * index, symbolBytes);
      const hasPlace = entry.getUint16(6, true) !== 0;
      if (hasPlace && (await reader.text(strings + entry.getUint32(0, true))) === symbol) return true;
    }
    if ((link & 1) === 1) return false;
  }
  throw notElf(reader.path, "its table of symbols has no end");
}

/** A number of 64 bits; one that no file can have becomes Infinity. */
function number64(view: DataView, at: number): number {
  const value = view.getBigUint64(at, true);
  return value > BigInt(Number.MAX_SAFE_INTEGER) ? Infinity : Number(value);
}

/** The hash function of GNU hash tables. */
export function gnuHash(name: string): number {
  let hash = 5381;
  for (const byte of new TextEncoder().encode(name)) hash = (Math.imul(hash, 33) + byte) >>> 0;
  return hash;
}
