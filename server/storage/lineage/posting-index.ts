/**
 * Finds the model with the longest common prefix from postings: for each identity of a layer the architectures that
 * have it. In memory: about 70 bytes a model, and 12 a layer of an architecture besides the identities.
 *
 * Architectures are indexed, not models: a fleet has few, and models of one architecture share the same prefix with
 * any other. Of each architecture the best model is the first of its list, so a model costs a few comparisons.
 *
 * A query goes through its identities from the rarest to the most common. An architecture that it has not met by then
 * has none of those, so its prefix has at most as many layers as identities are left; once the best prefix is longer
 * than that, the answer is certain.
 *
 * Common stems are in nearly every architecture, and a query that shares nothing else would walk all of them. So an
 * identity of more than `maxListed` architectures is *common*: its postings keep the architecture with the best model
 * first, and its *closure* is known, the identities that each of these architectures has. Layers come after their
 * inputs, so the closure has at least those. Where a query has as many identities of the closure as it has left, every
 * architecture of the postings that was not met has exactly these, and the first is the answer. That is so in any
 * catalog of chains, with or without branches inside them. Where a model has several inputs, whose layers do not
 * follow from each other, the postings of the rarest layers are walked.
 */
import { StemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { BestFirstLists } from "./best-first-lists.js";
import { Candidates } from "./candidates.js";
import { grown } from "./grown.js";
import { HashNumbers } from "./hash-numbers.js";
import { NumberLists } from "./number-lists.js";
import type { PrefixCandidate, PrefixIndex, PrefixMatch } from "./prefix-index.js";

const none = -1;

/** Identities of a query are ordered by how many architectures have them, then from the last to the first. */
const maxIdentities = 2 ** 20;

/** The postings that can be read in the time that comparing with one architecture takes. */
const readsPerComparison = 8;

/** Fewer architectures than this are compared without reading on. */
const fewOpen = 8;

/** The best answer of a query so far. */
interface Found {
  model: number;
  layers: number;
}

/** The identities of an architecture, ascending, and its place in the postings of each. */
interface Members {
  readonly identities: Uint32Array;
  readonly places: Uint32Array;
}

export class PostingIndex implements PrefixIndex {
  readonly #maxListed: number;
  /** An identity of fewer architectures is common no longer: far below `maxListed`, so that this is seldom. */
  readonly #minCommon: number;
  readonly #candidates = new Candidates();
  readonly #architectures = new HashNumbers();
  readonly #members: (Members | undefined)[] = [];
  readonly #identities = new HashNumbers();
  readonly #postings = new NumberLists();
  /** The closures of common identities, ascending. */
  readonly #closures: (Uint32Array | undefined)[] = [];
  readonly #bestFirst = new BestFirstLists(this.#postings, {
    isBetter: (a, b) => this.#candidates.isBetter(this.#candidates.best(a), this.#candidates.best(b)),
    placed: (identity, architecture, at) => {
      const { identities, places } = this.#membersOf(architecture);
      places[placeIn(identities, identity)] = at;
    },
  });
  /** 1 for the identities that are looked for, else 0. */
  #marks = new Uint8Array(256);
  /** The number of times that a query has met each architecture; 0 between queries. */
  #met = new Uint32Array(256);
  #steps = 0;

  /** @param maxListed architectures that an identity may have before it is common */
  constructor({ maxListed = 32 }: { readonly maxListed?: number } = {}) {
    this.#maxListed = maxListed;
    this.#minCommon = Math.max(2, Math.floor(maxListed / 4));
  }

  get size(): number {
    return this.#candidates.size;
  }

  get steps(): number {
    return this.#steps;
  }

  has(id: Hash): boolean {
    return this.#candidates.find(id) !== none;
  }

  knows(architecture: Hash): boolean {
    return this.#architectures.find(architecture) !== none;
  }

  add(model: PrefixCandidate, architecture: Hash, identities?: readonly Hash[]): void {
    const known = this.#architectures.find(architecture);
    if (known === none && identities === undefined)
      throw new StemmaError(
        "INTERNAL",
        `The index was not given the layers of architecture ${architecture}. Report this with what led to it.`,
        { architecture },
      );
    const present = this.#candidates.find(model.id);
    if (present !== none) {
      if (known === this.#candidates.architectureOf(present)) {
        this.#candidates.replace(present, model);
        this.#reorder(known);
        return;
      }
      this.remove(model.id);
    }
    if (known === none) {
      const added = this.#addArchitecture(architecture, identities as readonly Hash[]);
      this.#candidates.add(model, added);
      this.#link(added);
    } else {
      const best = this.#candidates.best(known);
      this.#candidates.add(model, known);
      if (this.#candidates.best(known) !== best) this.#reorder(known);
    }
  }

  remove(id: Hash): boolean {
    const model = this.#candidates.find(id);
    if (model === none) return false;
    const architecture = this.#candidates.architectureOf(model);
    if (this.#candidates.count(architecture) === 1) {
      this.#unlink(architecture);
      this.#candidates.remove(model);
      this.#architectures.remove(architecture);
      this.#members[architecture] = undefined;
    } else {
      const best = this.#candidates.best(architecture);
      this.#candidates.remove(model);
      if (best === model) this.#reorder(architecture);
    }
    return true;
  }

  longest(identities: readonly Hash[]): PrefixMatch | undefined {
    return this.#find(identities, none);
  }

  longestExcept(except: Hash, identities: readonly Hash[]): PrefixMatch | undefined {
    return this.#find(identities, this.#candidates.find(except));
  }

  #find(asked: readonly Hash[], except: number): PrefixMatch | undefined {
    const present = this.#mark(asked);
    const found: Found = { model: none, layers: 0 };
    const met: number[] = [];
    let left = this.#meet(present, { except, found, met });
    let open = this.#stillOpen(met, left, found);
    // Reading on in the postings rules out more than it costs while many architectures are left.
    for (const identity of present.slice(present.length - left)) {
      if (open.length < fewOpen || open.length * readsPerComparison < this.#postings.length(identity)) break;
      this.#readFor(identity);
      open = this.#stillOpen(open, --left, found);
    }
    for (const architecture of open)
      if ((this.#met[architecture] as number) + left >= found.layers)
        this.#offer(found, this.#candidates.bestExcept(architecture, except), this.#compare(architecture));
    for (const identity of present) this.#marks[identity] = 0;
    for (const architecture of met) this.#met[architecture] = 0;
    return found.model === none
      ? undefined
      : { model: this.#candidates.get(found.model), layers: found.layers };
  }

  /**
   * Reads the postings of identities until an architecture that was not met cannot be the answer, and counts in `#met`.
   * @returns how many of the identities, the last ones, were not read
   */
  #meet(
    present: readonly number[],
    { except, found, met }: { readonly except: number; readonly found: Found; readonly met: number[] },
  ): number {
    let left = present.length;
    let most = 0;
    for (const identity of present) {
      if (found.layers > left) break;
      const closure = this.#closures[identity];
      if (closure !== undefined && this.#countMarked(closure) >= left) {
        this.#offer(found, this.#bestOf(identity, except), left);
        break;
      }
      const postings = this.#read(identity);
      let nearest = none;
      for (const architecture of postings) {
        const count = (this.#met[architecture] as number) + 1;
        this.#met[architecture] = count;
        if (count === 1) met.push(architecture);
        if (count > most) {
          most = count;
          nearest = architecture;
        }
      }
      left--;
      // A good answer early on saves the reading of more postings.
      if (nearest !== none)
        this.#offer(found, this.#candidates.bestExcept(nearest, except), this.#compare(nearest));
    }
    return left;
  }

  #read(identity: number): Uint32Array {
    const postings = this.#postings.read(identity);
    this.#steps += postings.length;
    return postings;
  }

  /** Counts an identity for the architectures that have been met. */
  #readFor(identity: number): void {
    for (const architecture of this.#read(identity)) {
      const count = this.#met[architecture] as number;
      if (count > 0) this.#met[architecture] = count + 1;
    }
  }

  /** The architectures that may have as many layers as the best that was found. */
  #stillOpen(met: readonly number[], left: number, { layers }: Found): readonly number[] {
    return met.filter((architecture) => (this.#met[architecture] as number) + left >= layers);
  }

  /** The number of layers that an architecture has in common with the query. */
  #compare(architecture: number): number {
    this.#steps++;
    return this.#countMarked(this.#membersOf(architecture).identities);
  }

  #offer(found: Found, model: number, layers: number): void {
    if (model === none || layers < found.layers) return;
    if (layers === found.layers && found.model !== none && !this.#candidates.isBetter(model, found.model))
      return;
    found.model = model;
    found.layers = layers;
  }

  /** Marks the identities that architectures have, and returns them from the rarest to the most common. */
  #mark(asked: readonly Hash[]): readonly number[] {
    const present: number[] = [];
    for (const hash of asked) {
      const identity = this.#identities.find(hash);
      if (identity === none || this.#marks[identity] === 1) continue;
      this.#marks[identity] = 1;
      present.push(identity);
    }
    const keys = new Float64Array(present.length);
    for (let at = 0; at < present.length; at++)
      keys[at] = this.#postings.length(present[at] as number) * maxIdentities + (maxIdentities - 1 - at);
    keys.sort();
    const ordered: number[] = [];
    for (const key of keys) ordered.push(present[maxIdentities - 1 - (key % maxIdentities)] as number);
    return ordered;
  }

  #countMarked(identities: Uint32Array): number {
    const marks = this.#marks;
    let count = 0;
    for (let at = 0; at < identities.length; at++) count += marks[identities[at] as number] as number;
    return count;
  }

  /** The best model, but `except`, of a common identity's architectures. */
  #bestOf(identity: number, except: number): number {
    this.#steps++;
    const first = this.#postings.get(identity, 0);
    const best = this.#candidates.best(first);
    if (best !== except) return best;
    const ownSecond = this.#candidates.bestExcept(first, except);
    const other = this.#candidates.best(this.#bestFirst.second(identity));
    return ownSecond !== none && this.#candidates.isBetter(ownSecond, other) ? ownSecond : other;
  }

  #membersOf(architecture: number): Members {
    return this.#members[architecture] as Members;
  }

  #addArchitecture(hash: Hash, identities: readonly Hash[]): number {
    const architecture = this.#architectures.add(hash);
    const numbers = Uint32Array.from(new Set(identities), (identity) =>
      this.#identities.add(identity),
    ).sort();
    this.#members[architecture] = { identities: numbers, places: new Uint32Array(numbers.length) };
    this.#met = grown(this.#met, architecture + 1);
    this.#marks = grown(this.#marks, this.#identities.end);
    while (this.#closures.length < this.#identities.end) this.#closures.push(undefined);
    return architecture;
  }

  /** Adds an architecture, which has a model, to the postings of its identities. */
  #link(architecture: number): void {
    const { identities, places } = this.#membersOf(architecture);
    for (const identity of identities) this.#marks[identity] = 1;
    identities.forEach((identity, at) => {
      const closure = this.#closures[identity];
      if (closure === undefined) {
        places[at] = this.#postings.length(identity);
        this.#postings.push(identity, architecture);
      } else {
        if (this.#countMarked(closure) < closure.length)
          this.#closures[identity] = closure.filter((other) => this.#marks[other] === 1);
        this.#bestFirst.add(identity, architecture);
      }
    });
    for (const identity of identities) this.#marks[identity] = 0;
    for (const identity of identities)
      if (this.#closures[identity] === undefined && this.#postings.length(identity) > this.#maxListed) {
        this.#bestFirst.order(identity);
        this.#closures[identity] = this.#closureOf(identity);
      }
  }

  #unlink(architecture: number): void {
    const { identities, places } = this.#membersOf(architecture);
    identities.forEach((identity, at) => {
      const place = places[at] as number;
      if (this.#closures[identity] !== undefined) this.#bestFirst.removeAt(identity, place);
      else {
        const last = this.#postings.pop(identity);
        if (last !== architecture) {
          this.#postings.set(identity, place, last);
          const moved = this.#membersOf(last);
          moved.places[placeIn(moved.identities, identity)] = place;
        }
      }
      const length = this.#postings.length(identity);
      // A closure stays true when an architecture goes; it is computed again the next time that it is needed.
      if (length < this.#minCommon) this.#closures[identity] = undefined;
      if (length === 0) this.#identities.remove(identity);
    });
  }

  /** Puts an architecture whose best model is another one where it belongs. */
  #reorder(architecture: number): void {
    const { identities, places } = this.#membersOf(architecture);
    for (let at = 0; at < identities.length; at++) {
      const identity = identities[at] as number;
      if (this.#closures[identity] !== undefined) this.#bestFirst.changed(identity, places[at] as number);
    }
  }

  /** The identities that each architecture of an identity has. */
  #closureOf(identity: number): Uint32Array {
    let closure = this.#membersOf(this.#postings.get(identity, 0)).identities;
    for (let at = 1; at < this.#postings.length(identity); at++)
      closure = common(closure, this.#membersOf(this.#postings.get(identity, at)).identities);
    return closure.slice();
  }
}

/** The numbers that two ascending lists both have. */
function common(a: Uint32Array, b: Uint32Array): Uint32Array {
  let next = 0;
  return a.filter((value) => {
    while (next < b.length && (b[next] as number) < value) next++;
    return b[next] === value;
  });
}

/** The place of a value in an ascending list that has it. */
function placeIn(values: Uint32Array, value: number): number {
  let low = 0;
  let high = values.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((values[middle] as number) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
