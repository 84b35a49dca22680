/**
 * The models that an architecture's layers may be taken from, on the disk: of each architecture the best first, as
 * PrefixCandidate says. The table follows from the save records and the metadata that they name.
 */
import { hashBytes, hexOf } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { LayeredKeys } from "../index/layered-keys.js";
import { LayeredMap } from "../index/layered-map.js";
import { orderBytes, orderOf, type LayeredPart, type SavedRows } from "../index/layers.js";
import type { PrefixCandidate } from "./prefix-index.js";

const hashLength = 32;
const qualityBytes = 8;
const signBit = 2n ** 63n;
/** The last time that six bytes can state. */
const latestMs = 2 ** 48 - 1;
/** A text that comes after every key: hashes and ranks are shorter. */
const afterAll = "\xff".repeat(2 * hashLength + qualityBytes + orderBytes + 1);

export class CandidateTable {
  /** Architecture, rank (the best one's is the lowest), id of the model. */
  readonly #ranked: LayeredKeys;
  /** Position of a model's fact → its rank. */
  readonly #ranks: LayeredMap<string>;
  #size = 0;

  /** @param tables the first bytes of the keys of its rows */
  constructor(tables: { readonly ranked: number; readonly ranks: number }, saved: SavedRows) {
    this.#ranked = new LayeredKeys(tables.ranked, saved);
    this.#ranks = new LayeredMap<string>(
      tables.ranks,
      { encode: (key) => Buffer.from(key, "latin1"), decode: (bytes) => bytes.toString("latin1") },
      saved,
    );
  }

  /** The number of models. */
  get size(): number {
    return this.#size;
  }
  /** Takes the number of models on the disk. */
  opened(size: number): void {
    this.#size = size;
  }
  get parts(): readonly LayeredPart[] {
    return [this.#ranked, this.#ranks];
  }

  /** Adds a model that was recorded at this position of the journal. */
  add(position: number, architecture: Hash, candidate: PrefixCandidate): void {
    const rank = rankOf(candidate);
    this.#ranked.add(keyOf(architecture, rank, candidate.id));
    this.#ranks.set(String(position), rank);
    this.#size++;
  }

  has(position: number): boolean {
    return this.#ranks.get(String(position)) !== undefined;
  }

  /** Removes a model, where it is there. */
  remove(position: number, architecture: Hash, id: Hash): void {
    const rank = this.#ranks.get(String(position));
    if (rank === undefined) return;
    this.#ranked.delete(keyOf(architecture, rank, id));
    this.#ranks.delete(String(position));
    this.#size--;
  }

  /** The best model of an architecture, or the best one but `except`. */
  best(architecture: Hash, except?: Hash): PrefixCandidate | undefined {
    const start = textOf(architecture);
    for (const key of this.#ranked.values(start, start + afterAll)) {
      const candidate = candidateOf(key);
      if (candidate.id !== except) return candidate;
    }
    return undefined;
  }

  /** The models of an architecture, the best first. */
  *of(architecture: Hash): Iterable<PrefixCandidate> {
    const start = textOf(architecture);
    for (const key of this.#ranked.values(start, start + afterAll)) yield candidateOf(key);
  }

  /** Goes through the architectures that have a model. */
  *architectures(): Iterable<Hash> {
    for (let from: string | undefined = ""; from !== undefined;) {
      let last: string | undefined;
      let next: string | undefined;
      for (const key of this.#ranked.values(from, afterAll)) {
        const architecture = key.slice(0, hashLength);
        if (architecture === last) {
          // Many models of one architecture are passed in one step.
          next = last + afterAll;
          break;
        }
        last = architecture;
        yield hexOf(Buffer.from(architecture, "latin1"));
      }
      from = next;
    }
  }
}

function textOf(hash: Hash): string {
  return Buffer.from(hashBytes(hash)).toString("latin1");
}

function keyOf(architecture: Hash, rank: string, id: Hash): string {
  return textOf(architecture) + rank + textOf(id);
}

function rankOf({ quality, savedAtMs }: PrefixCandidate): string {
  return gradeOf(quality) + ageOf(savedAtMs);
}

function candidateOf(key: string): PrefixCandidate {
  const bytes = Buffer.from(key, "latin1");
  const quality = qualityOf(bytes.readBigUInt64BE(hashLength));
  return {
    id: hexOf(bytes.subarray(-hashLength)),
    quality: quality === -Infinity ? undefined : quality,
    savedAtMs: latestMs - bytes.readUIntBE(hashLength + qualityBytes, orderBytes),
  };
}

/** The newest first. A time that does not fit, in ten thousand years, counts as the last one that does. */
function ageOf(savedAtMs: number): string {
  return orderOf(Math.max(0, latestMs - savedAtMs)).toString("latin1");
}

/** The eight bytes of a quality, whose order is that of qualities from the best to none. */
function gradeOf(quality: number | undefined): string {
  const bytes = Buffer.allocUnsafe(qualityBytes);
  // Zero has one grade, whatever its sign.
  bytes.writeDoubleBE(
    quality === undefined || Number.isNaN(quality) ? -Infinity : quality === 0 ? 0 : quality,
  );
  bytes.writeBigUInt64BE(turned(bytes.readBigUInt64BE()));
  return bytes.toString("latin1");
}
function qualityOf(grade: bigint): number {
  const bytes = Buffer.allocUnsafe(qualityBytes);
  bytes.writeBigUInt64BE(turned(grade));
  return bytes.readDoubleBE();
}

/** Turns the bits of doubles that are not negative around: they fall as these rise, as the others do. */
function turned(bits: bigint): bigint {
  return bits < signBit ? signBit - 1n - bits : bits;
}
