/**
 * The ends of a journal's blocks: for each 2^level entries the state of the journal behind them. An opening therefore
 * reads only the entries since the last of them, and a proof the entries of at most two blocks. They are derived and
 * may be deleted; the signed head shows whether they are those of this journal. Pure.
 *
 * File `blocks` (format 1, docs/formats.md): 16 bytes = "STEMJBLK", format u32, level u32. Then a record of 96 bytes
 * for each block: CRC-32 of the rest u32, entries that follow the block's last one in the same append u32, first entry
 * of the segment in which the block ends u64, offset in it behind the block u64, bytes of all segments before it u64,
 * chain hash behind the block, root of the block's own tree. Numbers are little-endian.
 */
import { crc32 } from "node:zlib";
import { hashBytes, hexOf } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

/** A place between two entries of a journal. */
export interface EntryPlace {
  /** The first entry of the segment. */
  readonly segment: number;
  /** Bytes from the segment's start. */
  readonly offset: number;
}

export interface BlockEnd extends EntryPlace {
  /** Number of entries up to here. */
  readonly position: number;
  readonly chain: Hash;
  /** Root of the tree over the block's entries alone. */
  readonly root: Uint8Array;
  /** Entries of the same append that come after the block. */
  readonly following: number;
  /** Bytes of all segments before the one in which the block ends. */
  readonly earlierBytes: number;
}

export const blocksHeaderBytes = 16;
export const blockRecordBytes = 96;
const magic = Buffer.from("STEMJBLK");
const format = 1;

export class BlockEnds {
  #bytes: Buffer = Buffer.alloc(16 * blockRecordBytes);
  #count = 0;

  /** @param level a block has 2^level entries */
  constructor(readonly level: number) {}

  /** The ends in a file, as far as they are intact; none where it is of another format or level. */
  static read(file: Uint8Array, level: number): BlockEnds {
    const ends = new BlockEnds(level);
    if (!ends.header().equals(file.subarray(0, blocksHeaderBytes))) return ends;
    const records = Buffer.from(
      file.buffer,
      file.byteOffset + blocksHeaderBytes,
      file.length - blocksHeaderBytes,
    );
    let count = 0;
    while ((count + 1) * blockRecordBytes <= records.length && isIntact(recordAt(records, count))) count++;
    ends.#bytes = records;
    ends.#count = count;
    return ends;
  }

  get count(): number {
    return this.#count;
  }
  /** Entries in a block. */
  get size(): number {
    return 2 ** this.level;
  }

  add({ segment, offset, chain, root, following, earlierBytes }: Omit<BlockEnd, "position">): void {
    const at = this.#count * blockRecordBytes;
    if (at + blockRecordBytes > this.#bytes.length)
      this.#bytes = Buffer.concat([this.#bytes], 2 * (at + blockRecordBytes));
    const record = recordAt(this.#bytes, this.#count++);
    record.writeUInt32LE(following, 4);
    record.writeBigUInt64LE(BigInt(segment), 8);
    record.writeBigUInt64LE(BigInt(offset), 16);
    record.writeBigUInt64LE(BigInt(earlierBytes), 24);
    record.set(hashBytes(chain), 32);
    record.set(root, 64);
    record.writeUInt32LE(crc32(record.subarray(4)), 0);
  }

  /** @param block its number, from 0 */
  end(block: number): BlockEnd {
    if (block < 0 || block >= this.#count) throw new RangeError(`no block ${block} among ${this.#count}`);
    const record = recordAt(this.#bytes, block);
    return {
      position: (block + 1) * this.size,
      following: record.readUInt32LE(4),
      segment: Number(record.readBigUInt64LE(8)),
      offset: Number(record.readBigUInt64LE(16)),
      earlierBytes: Number(record.readBigUInt64LE(24)),
      chain: hexOf(record.subarray(32, 64)),
      root: record.subarray(64, 96),
    };
  }

  /** The first `count` of these blocks. */
  first(count: number): BlockEnds {
    const ends = new BlockEnds(this.level);
    // Copied, so that what is added to one is not seen in the other.
    ends.#bytes = Buffer.from(this.#bytes.subarray(0, count * blockRecordBytes));
    ends.#count = count;
    return ends;
  }

  /** The start of the file. */
  header(): Buffer {
    const header = Buffer.alloc(blocksHeaderBytes);
    header.set(magic);
    header.writeUInt32LE(format, 8);
    header.writeUInt32LE(this.level, 12);
    return header;
  }
  /** The records from a block on. */
  recordsFrom(block: number): Uint8Array {
    return this.#bytes.subarray(block * blockRecordBytes, this.#count * blockRecordBytes);
  }
}

function recordAt(records: Buffer, block: number): Buffer {
  return records.subarray(block * blockRecordBytes, (block + 1) * blockRecordBytes);
}

function isIntact(record: Buffer): boolean {
  return record.readUInt32LE(0) === crc32(record.subarray(4));
}
