/** The order in which models with common prefixes of one length are preferred. Pure. */
import type { Hash } from "../../../shared/tensor/tensor.js";

/** A model as candidates are compared. */
export interface PrefixCandidate {
  readonly id: Hash;
  /** Higher is better. Models without a measure come after all that have one. */
  readonly quality?: number | undefined;
  /** Milliseconds since 1970. */
  readonly savedAtMs: number;
}

/** Negative where `a` is preferred: the better one, then the newer one, then the smaller id. */
export function compareCandidates(a: PrefixCandidate, b: PrefixCandidate): number {
  const qualityOfA = a.quality ?? -Infinity;
  const qualityOfB = b.quality ?? -Infinity;
  if (qualityOfA !== qualityOfB) return qualityOfA > qualityOfB ? -1 : 1;
  if (a.savedAtMs !== b.savedAtMs) return b.savedAtMs - a.savedAtMs;
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
}

/** Items in the order of their best candidates, which are all different and must not change meanwhile. */
export class SortedByBest<Item, Candidate extends PrefixCandidate> {
  readonly #candidateOf: (item: Item) => Candidate;
  readonly #items: Item[] = [];

  constructor(candidateOf: (item: Item) => Candidate) {
    this.#candidateOf = candidateOf;
  }

  isEmpty(): boolean {
    return this.#items.length === 0;
  }

  /** The item with the most preferred candidate. There must be one. */
  best(): Item {
    return this.#items[0] as Item;
  }

  all(): readonly Item[] {
    return this.#items;
  }

  add(item: Item): void {
    this.#items.splice(this.#position(this.#candidateOf(item)), 0, item);
  }

  remove(item: Item): void {
    this.#items.splice(this.#position(this.#candidateOf(item)), 1);
  }

  /** Index of the first item whose candidate is not preferred to this one. */
  #position(candidate: Candidate): number {
    let low = 0;
    let high = this.#items.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compareCandidates(this.#candidateOf(this.#items[middle] as Item), candidate) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
