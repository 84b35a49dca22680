/**
 * Finds an opened journal's entries, and proves what they are. In memory are the end of every block of 2^level entries,
 * and the newest entries and blocks that were asked for: their leaf hashes in the Merkle tree, and where their frames
 * begin. An older block is read again, with one call of the system for each segment that it is in.
 */
import { dirname } from "node:path";
import { LRUCache } from "lru-cache";
import type { FileToReadNow } from "../ports.js";
import type { Hash } from "../tensor/tensor.js";
import { frameAt, segmentHeaderBytes } from "./frame.js";
import { BlockEnds, type BlockEnd, type EntryPlace } from "./journal-blocks.js";
import { blockDamagedNow } from "./journal-errors.js";
import { firstChain } from "./chain.js";
import { logLeaf } from "./merkle-log.js";
import { MerkleTree, Subtree } from "./merkle-tree.js";

/** A journal's segment file. */
export interface Segment {
  readonly first: number;
  readonly path: string;
}

/** A place from which a journal's entries are read, and the chain hash there. */
export type Border = Omit<BlockEnd, "root">;

export const journalStart: Border = {
  position: 0,
  segment: 0,
  offset: segmentHeaderBytes,
  chain: firstChain,
  following: 0,
  earlierBytes: 0,
};

/** The entries of a block: their hashes, and where each one's frame begins. */
interface Block {
  readonly subtree: Subtree;
  readonly places: Places;
}

/** The places of a block's entries, without an object for each. */
class Places {
  readonly #numbers: Float64Array;
  #count = 0;

  constructor(readonly size: number) {
    this.#numbers = new Float64Array(2 * size);
  }

  get isFull(): boolean {
    return this.#count === this.size;
  }
  add({ segment, offset }: EntryPlace): void {
    this.#numbers.set([segment, offset], 2 * this.#count++);
  }
  at(index: number): EntryPlace {
    return { segment: this.#numbers[2 * index] as number, offset: this.#numbers[2 * index + 1] as number };
  }
}

/** An entry that comes after those of an index. */
export interface NewEntry extends EntryPlace, Pick<BlockEnd, "chain" | "following" | "earlierBytes"> {
  readonly payload: Uint8Array;
  /** The offset behind its frame in the segment. */
  readonly end: number;
}

/** Blocks in memory besides the one that is being filled: 20 kB each, at 256 entries. */
const keptBlocks = 128;

export class JournalIndex {
  readonly #tree: MerkleTree;
  readonly #openNow: ((path: string) => FileToReadNow) | undefined;
  readonly #segments: readonly Segment[];
  readonly #blocks: Map<number, Block> | LRUCache<number, Block>;
  #newestPlaces: Places;

  /**
   * @param ends the blocks of whose entries nothing else is known yet; entries are appended after them
   * @param segments the journal's, also those that are added later
   * @param openNow undefined: all blocks stay in memory
   */
  constructor(
    readonly ends: BlockEnds,
    segments: readonly Segment[],
    openNow: ((path: string) => FileToReadNow) | undefined,
  ) {
    this.#segments = segments;
    this.#openNow = openNow;
    this.#newestPlaces = new Places(ends.size);
    this.#blocks = openNow === undefined ? new Map() : new LRUCache({ max: keptBlocks });
    this.#tree = new MerkleTree({ level: ends.level, subtreeAt: (block) => this.#block(block).subtree });
    for (let block = 0; block < ends.count; block++) this.#tree.appendSubtree(ends.end(block).root);
  }

  get length(): number {
    return this.#tree.length;
  }

  append({ payload, segment, offset, end, chain, following, earlierBytes }: NewEntry): void {
    this.#newestPlaces.add({ segment, offset });
    const subtree = this.#tree.append(logLeaf(payload));
    if (subtree === undefined) return;
    this.#blocks.set(this.ends.count, { subtree, places: this.#newestPlaces });
    this.#newestPlaces = new Places(this.ends.size);
    const root = subtree.node(this.ends.level, 0);
    this.ends.add({ segment, offset: end, chain, following, earlierBytes, root });
  }

  /** @throws JOURNAL_CORRUPT when the disk has changed since opening */
  place(position: number): EntryPlace {
    const { size, count } = this.ends;
    const block = Math.floor(position / size);
    const places = block === count ? this.#newestPlaces : this.#block(block).places;
    return places.at(position % size);
  }
  /** The last border of a block at or before a position. */
  borderBefore(position: number): Border {
    return this.#borderOf(Math.min(Math.floor(position / this.ends.size), this.ends.count));
  }
  /** The chain hash at a position, where a block ends there. */
  chainAt(position: number): Hash | undefined {
    const block = position / this.ends.size;
    return Number.isInteger(block) && block > 0 && block <= this.ends.count
      ? this.ends.end(block - 1).chain
      : undefined;
  }
  root(length?: number): Hash {
    return this.#tree.root(length);
  }
  inclusionProof(position: number, length: number): readonly Hash[] {
    return this.#tree.inclusionProof(position, length);
  }
  consistencyProof(from: number, to: number): readonly Hash[] {
    return this.#tree.consistencyProof(from, to);
  }

  /** The start of a block. */
  #borderOf(block: number): Border {
    return block === 0 ? journalStart : this.ends.end(block - 1);
  }

  #block(number: number): Block {
    const kept = this.#blocks.get(number);
    if (kept !== undefined) return kept;
    const read = this.#read(number);
    this.#blocks.set(number, read);
    return read;
  }

  #read(number: number): Block {
    const from = this.#borderOf(number);
    const to = this.ends.end(number);
    const subtree = new Subtree(this.ends.level);
    const places = new Places(this.ends.size);
    for (const segment of this.#segments) {
      if (segment.first < from.segment || segment.first > to.segment) continue;
      const start = segment.first === from.segment ? from.offset : segmentHeaderBytes;
      const bytes = this.#bytesOf(segment, start, segment.first === to.segment ? to.offset : undefined);
      for (let at = 0; at < bytes.length;) {
        const frame = frameAt(bytes, at);
        if (frame === undefined || places.isFull)
          throw blockDamagedNow(dirname(segment.path), from.position, to.position);
        places.add({ segment: segment.first, offset: start + at });
        subtree.append(logLeaf(frame.payload));
        at = frame.end;
      }
    }
    if (!subtree.isComplete || Buffer.compare(subtree.node(this.ends.level, 0), to.root) !== 0)
      throw blockDamagedNow(dirname(this.#segments[0]?.path ?? ""), from.position, to.position);
    return { subtree, places };
  }

  #bytesOf({ path }: Segment, from: number, to: number | undefined): Uint8Array {
    if (this.#openNow === undefined) throw new RangeError("every block is in memory");
    const file = this.#openNow(path);
    try {
      const bytes = new Uint8Array(Math.max(0, (to ?? file.size()) - from));
      return bytes.subarray(0, file.read(bytes, from));
    } finally {
      file.close();
    }
  }
}
