/** Builds small shared libraries (ELF) that define given functions, to be looked at and never to be run. */
import { gnuHash } from "../../agent/backend/elf.js";

export interface FakeLibrary {
  readonly symbols: readonly string[];
  readonly needed?: readonly string[];
  /** 62: x64; 183: arm64. */
  readonly machine?: number;
  /** Symbols that it names and does not define. */
  readonly wanted?: readonly string[];
}

/** One segment that holds everything, at the address 0x1000. */
export function fakeLibrary({ symbols, needed = [], machine = 62, wanted = [] }: FakeLibrary): Uint8Array {
  const address = 0x1000;
  const buckets = 4;
  const names = ["", ...needed, ...wanted, ...symbols];
  const strings = Buffer.from(names.map((name) => `${name}\0`).join(""));
  const nameAt = (name: string): number =>
    name === "" ? 0 : strings.indexOf(Buffer.from(`\0${name}\0`)) + 1;
  // Symbols that are looked up come last, in the order of their buckets.
  const sorted = [...symbols].sort((a, b) => (gnuHash(a) % buckets) - (gnuHash(b) % buckets));
  const table = Buffer.alloc(24 * (1 + wanted.length + sorted.length));
  [...wanted, ...sorted].forEach((name, i) => {
    table.writeUInt32LE(nameAt(name), 24 * (i + 1));
    table.writeUInt16LE(i < wanted.length ? 0 : 7, 24 * (i + 1) + 6);
  });
  const first = 1 + wanted.length;
  const hash = Buffer.alloc(16 + 8 + 4 * buckets + 4 * sorted.length);
  [buckets, first, 1, 6].forEach((value, i) => hash.writeUInt32LE(value, 4 * i));
  sorted.forEach((name, i) => {
    const bucket = gnuHash(name) % buckets;
    const bucketAt = 24 + 4 * bucket;
    if (hash.readUInt32LE(bucketAt) === 0) hash.writeUInt32LE(first + i, bucketAt);
    const next = sorted[i + 1];
    const isLast = next === undefined || gnuHash(next) % buckets !== bucket;
    hash.writeUInt32LE(((gnuHash(name) & ~1) | (isLast ? 1 : 0)) >>> 0, 24 + 4 * buckets + 4 * i);
  });
  const start = 64 + 2 * 56;
  const dynamicBytes = 16 * (needed.length + 4);
  const at = { strings: start + dynamicBytes, symbols: 0, hash: 0 };
  at.symbols = at.strings + Math.ceil(strings.length / 8) * 8;
  at.hash = at.symbols + table.length;
  const file = Buffer.alloc(at.hash + hash.length);
  file.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  file.writeUInt16LE(3, 16);
  file.writeUInt16LE(machine, 18);
  file.writeBigUInt64LE(64n, 32);
  file.writeUInt16LE(56, 54);
  file.writeUInt16LE(2, 56);
  const segment = (index: number, type: number, offset: number, bytes: number): void => {
    const begin = 64 + 56 * index;
    file.writeUInt32LE(type, begin);
    file.writeBigUInt64LE(BigInt(offset), begin + 8);
    file.writeBigUInt64LE(BigInt(address + offset), begin + 16);
    file.writeBigUInt64LE(BigInt(bytes), begin + 32);
  };
  segment(0, 1, 0, file.length);
  segment(1, 2, start, dynamicBytes);
  const entries: readonly (readonly [number, number])[] = [
    ...needed.map((name) => [1, nameAt(name)] as const),
    [5, address + at.strings],
    [6, address + at.symbols],
    [0x6ffffef5, address + at.hash],
    [0, 0],
  ];
  entries.forEach(([tag, value], i) => {
    file.writeBigUInt64LE(BigInt(tag), start + 16 * i);
    file.writeBigUInt64LE(BigInt(value), start + 16 * i + 8);
  });
  file.set(strings, at.strings);
  file.set(table, at.symbols);
  file.set(hash, at.hash);
  return file;
}
