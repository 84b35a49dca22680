/**
 * The models of an index of prefixes: of each architecture the best first. A model takes about 70 bytes, whatever the
 * number of models of one architecture, and is added and removed in a few comparisons.
 */
import type { Hash } from "../../../shared/tensor/tensor.js";
import { BestFirstLists } from "./best-first-lists.js";
import { grown } from "./grown.js";
import { HashNumbers } from "./hash-numbers.js";
import { NumberLists } from "./number-lists.js";
import type { PrefixCandidate } from "./prefix-index.js";

/** Models by number, in lists by the number of their architecture. */
export class Candidates {
  readonly #ids = new HashNumbers();
  /** -Infinity: none. */
  #quality = new Float64Array(256);
  #savedAtMs = new Float64Array(256);
  #architecture = new Uint32Array(256);
  /** The model's place in the list of its architecture. */
  #place = new Uint32Array(256);
  readonly #lists = new NumberLists();
  readonly #bestFirst = new BestFirstLists(this.#lists, {
    isBetter: (a, b) => this.isBetter(a, b),
    placed: (_, model, at) => (this.#place[model] = at),
  });

  get size(): number {
    return this.#ids.size;
  }

  /** The model's number; -1 where it is not there. */
  find(id: Hash): number {
    return this.#ids.find(id);
  }

  architectureOf(model: number): number {
    return this.#architecture[model] as number;
  }

  get(model: number): PrefixCandidate {
    const quality = this.#quality[model] as number;
    return {
      id: this.#ids.hashAt(model),
      quality: quality === -Infinity ? undefined : quality,
      savedAtMs: this.#savedAtMs[model] as number,
    };
  }

  /** Adds a model that is not there. */
  add(candidate: PrefixCandidate, architecture: number): void {
    const model = this.#ids.add(candidate.id);
    this.#quality = grown(this.#quality, model + 1);
    this.#savedAtMs = grown(this.#savedAtMs, model + 1);
    this.#architecture = grown(this.#architecture, model + 1);
    this.#place = grown(this.#place, model + 1);
    this.#architecture[model] = architecture;
    this.#set(model, candidate);
    this.#bestFirst.add(architecture, model);
  }

  /** Gives a model other values, in the same architecture. */
  replace(model: number, candidate: PrefixCandidate): void {
    this.#set(model, candidate);
    this.#bestFirst.changed(this.architectureOf(model), this.#place[model] as number);
  }

  remove(model: number): void {
    this.#bestFirst.removeAt(this.architectureOf(model), this.#place[model] as number);
    this.#ids.remove(model);
  }

  /** The number of models of an architecture. */
  count(architecture: number): number {
    return this.#lists.length(architecture);
  }

  /** The best model of an architecture, which must have one. */
  best(architecture: number): number {
    return this.#lists.get(architecture, 0);
  }

  /** The best model of an architecture other than `except`; -1 where there is none. */
  bestExcept(architecture: number, except: number): number {
    const best = this.#lists.get(architecture, 0);
    return best === except ? this.#bestFirst.second(architecture) : best;
  }

  isBetter(a: number, b: number): boolean {
    const qualityOfA = this.#quality[a] as number;
    const qualityOfB = this.#quality[b] as number;
    if (qualityOfA !== qualityOfB) return qualityOfA > qualityOfB;
    const savedA = this.#savedAtMs[a] as number;
    const savedB = this.#savedAtMs[b] as number;
    return savedA === savedB ? this.#ids.compare(a, b) < 0 : savedA > savedB;
  }

  #set(model: number, { quality, savedAtMs }: PrefixCandidate): void {
    this.#quality[model] = quality === undefined || Number.isNaN(quality) ? -Infinity : quality;
    this.#savedAtMs[model] = savedAtMs;
  }
}
