/**
 * What coded tensors were coded against, as a graph: how deep a chain is, what is wrong with it, what
 * one reading has to decode and in which order. Pure; knows neither bytes nor packs.
 */
import type { Hash } from "../tensor/tensor.js";
import { maxChainDepth } from "./object-store.js";

/** What one copy of a tensor was coded against; neither for what is decoded from its own bytes. */
export interface Links {
  readonly base?: Hash;
  readonly previous?: Hash;
}

/** Why a tensor cannot be decoded: the object at fault, which may be the tensor itself. */
export interface ChainFault {
  readonly why: "missing" | "cyclic" | "too-long";
  readonly id: Hash;
}

export type ChainState = number | ChainFault;
export function isFault(state: ChainState): state is ChainFault {
  return typeof state !== "number";
}

/** The objects that `links` name, each once. */
export function linked({ base, previous }: Links): readonly Hash[] {
  if (base === undefined) return [];
  return previous === undefined || previous === base ? [base] : [base, previous];
}

/** Depths of chains, each worked out once. Forgotten by making another. */
export class Chains {
  readonly #linksOf: (id: Hash) => Links | undefined;
  readonly #states = new Map<Hash, ChainState>();
  #faults = 0;
  /** @param linksOf undefined for what is not there, or known to be damaged */
  constructor(linksOf: (id: Hash) => Links | undefined) {
    this.#linksOf = linksOf;
  }

  /** Whether anything that was asked for so far is out of reach. */
  get hasFaults(): boolean {
    return this.#faults > 0;
  }

  #set(id: Hash, state: ChainState): void {
    this.#states.set(id, state);
    if (isFault(state)) this.#faults++;
  }

  /**
   * The depth of a tensor, 0 for what needs no other; or what is wrong. Needs no stack, however long a chain
   * is.
   */
  state(id: Hash): ChainState {
    const waiting: Hash[] = [id];
    const begun = new Set<Hash>();
    for (let at = waiting.at(-1); at !== undefined; at = waiting.at(-1)) {
      if (this.#states.has(at)) {
        waiting.pop();
        continue;
      }
      const links = this.#linksOf(at);
      const needed = links === undefined ? [] : linked(links);
      const open = begun.has(at) ? [] : needed.filter((next) => !this.#states.has(next));
      begun.add(at);
      if (open.length === 0) {
        this.#set(at, links === undefined ? { why: "missing", id: at } : this.#over(at, needed));
        waiting.pop();
        continue;
      }
      // Whoever is begun and not done waits for this one.
      const cyclic = open.find((next) => begun.has(next));
      if (cyclic !== undefined) {
        this.#set(at, { why: "cyclic", id: at });
        waiting.pop();
        continue;
      }
      waiting.push(...open);
    }
    return this.#states.get(id) as ChainState;
  }

  /** One more than the deepest of what is needed. */
  #over(id: Hash, needed: readonly Hash[]): ChainState {
    let depth = 0;
    for (const next of needed) {
      const state = this.#states.get(next) as ChainState;
      if (isFault(state)) return state;
      depth = Math.max(depth, state + 1);
    }
    return depth > maxChainDepth ? { why: "too-long", id } : depth;
  }
}

/**
 * Adds everything that these objects are coded against, however far. Objects that are not there add nothing.
 */
export function withClosure(objects: Iterable<Hash>, linksOf: (id: Hash) => Links | undefined): Set<Hash> {
  const all = new Set(objects);
  // What is added while a set is walked is walked too.
  for (const id of all) for (const next of linked(linksOf(id) ?? {})) all.add(next);
  return all;
}

/** One tensor to be decoded, what it is decoded from being decoded before. */
export interface RetrievalStep<Entry> {
  readonly id: Hash;
  readonly entry: Entry;
  /** Tensors that no later step needs once this one is done. */ readonly lastUseOf: readonly Hash[];
}

/**
 * What has to be decoded for a tensor whose chain is sound, in order, the tensor itself last; each once,
 * however many paths lead to it (PAS's reusable retrieval, MH5).
 * @param isAtHand whether a tensor's bytes are there already: nothing below it is looked at
 */
export function planRetrieval<Entry extends Links>(
  id: Hash,
  entryOf: (id: Hash) => Entry,
  isAtHand: (id: Hash) => boolean,
): readonly RetrievalStep<Entry>[] {
  const order: { readonly id: Hash; readonly entry: Entry }[] = [];
  const seen = new Set<Hash>();
  const visit = (at: Hash): void => {
    if (seen.has(at) || isAtHand(at)) return;
    seen.add(at);
    const entry = entryOf(at);
    for (const next of linked(entry)) visit(next);
    order.push({ id: at, entry });
  };
  visit(id);
  const lastUse = new Map<Hash, number>();
  order.forEach(({ entry }, step) => {
    for (const next of linked(entry)) lastUse.set(next, step);
  });
  return order.map(({ id: at, entry }, step) => ({
    id: at,
    entry,
    lastUseOf: linked(entry).filter((next) => lastUse.get(next) === step),
  }));
}
