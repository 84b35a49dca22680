/**
 * Follows the graph of coded tensors and the tensors they are coded against. It computes the depth of a chain, finds
 * faults in it, and plans which tensors one read decodes and in which order. Pure; does not access bytes or packs.
 */
import type { Hash } from "../tensor/tensor.js";
import { listReferences, type Links as DeltaLinks } from "../delta/links.js";
import { maxChainDepth } from "./object-store.js";

/** The tensors that one copy of a tensor is coded against. */
export type Links = DeltaLinks<Hash>;

/** The reason why a tensor cannot be decoded; `id` is the object at fault, which may be the tensor itself. */
export interface ChainFault {
  readonly why: "missing" | "cyclic" | "too-long";
  readonly id: Hash;
}

/** The depth of a chain, or its fault. */
export type ChainState = number | ChainFault;

export function isFault(state: ChainState): state is ChainFault {
  return typeof state !== "number";
}

/** The objects that `links` name, each once. */
export function linked(links: Links): readonly Hash[] {
  const all = links.base === undefined ? [] : listReferences(links);
  return all.length < 2 ? all : [...new Set(all)];
}

/** A place for depths that are known. What it does not keep is computed again. */
export interface KnownDepths {
  get(id: Hash): number | undefined;
  set(id: Hash, depth: number): void;
}

/** Depths of chains, each computed once. When the links change, make a new instance. */
export class Chains {
  readonly #linksOf: (id: Hash) => Links | undefined;
  readonly #depths: KnownDepths;
  readonly #faultsOf = new Map<Hash, ChainFault>();

  /**
   * @param linksOf returns undefined for a tensor that is missing or known to be damaged
   * @param depths empty; default: a place of its own
   */
  constructor(linksOf: (id: Hash) => Links | undefined, depths: KnownDepths = new Map<Hash, number>()) {
    this.#linksOf = linksOf;
    this.#depths = depths;
  }

  /** True if any state computed so far is a fault. */
  get hasFaults(): boolean {
    return this.#faultsOf.size > 0;
  }

  #get(id: Hash): ChainState | undefined {
    return this.#faultsOf.get(id) ?? this.#depths.get(id);
  }
  #set(id: Hash, state: ChainState): void {
    if (isFault(state)) this.#faultsOf.set(id, state);
    else this.#depths.set(id, state);
  }

  /** The depth of a tensor (0: needs no other), or its fault. Not recursive: a chain may be of any length. */
  state(id: Hash): ChainState {
    const waiting: Hash[] = [id];
    const started = new Set<Hash>();
    for (let at = waiting.at(-1); at !== undefined; at = waiting.at(-1)) {
      if (this.#get(at) !== undefined) {
        waiting.pop();
        continue;
      }
      const links = this.#linksOf(at);
      const needed = links === undefined ? [] : linked(links);
      const open = started.has(at) ? [] : needed.filter((next) => this.#get(next) === undefined);
      started.add(at);
      if (open.length === 0) {
        this.#set(at, links === undefined ? { why: "missing", id: at } : this.#depthAbove(at, needed));
        waiting.pop();
        continue;
      }
      // A tensor that was started and has no state yet waits for this one: they form a cycle.
      const cyclic = open.find((next) => started.has(next));
      if (cyclic !== undefined) {
        this.#set(at, { why: "cyclic", id: at });
        waiting.pop();
        continue;
      }
      waiting.push(...open);
    }
    return this.#get(id) as ChainState;
  }

  /** One more than the deepest of the needed tensors. */
  #depthAbove(id: Hash, needed: readonly Hash[]): ChainState {
    let depth = 0;
    for (const next of needed) {
      const state = this.#get(next) as ChainState;
      if (isFault(state)) return state;
      depth = Math.max(depth, state + 1);
    }
    return depth > maxChainDepth ? { why: "too-long", id } : depth;
  }
}

/** Returns these objects and everything they are coded against, directly or not. Missing objects add nothing. */
export function withClosure(objects: Iterable<Hash>, linksOf: (id: Hash) => Links | undefined): Set<Hash> {
  const all = new Set(objects);
  // The iteration of a set also visits elements that are added during it.
  for (const id of all) for (const next of linked(linksOf(id) ?? {})) all.add(next);
  return all;
}

/** One tensor to decode; the tensors it is coded against come in earlier steps. */
export interface RetrievalStep<Entry> {
  readonly id: Hash;
  readonly entry: Entry;
  /** Tensors that no later step needs. */
  readonly lastUseOf: readonly Hash[];
}

/**
 * The steps that decode a tensor whose chain has no fault, the tensor itself last. Each tensor is decoded
 * once, however many paths lead to it (the reusable retrieval of PAS, MH5).
 * @param isInMemory whether a tensor's bytes are in memory already; what it is coded against is then not
 * visited
 */
export function planRetrieval<Entry extends Links>(
  id: Hash,
  entryOf: (id: Hash) => Entry,
  isInMemory: (id: Hash) => boolean,
): readonly RetrievalStep<Entry>[] {
  const order: { readonly id: Hash; readonly entry: Entry }[] = [];
  const seen = new Set<Hash>();
  const visit = (next: Hash): void => {
    if (seen.has(next) || isInMemory(next)) return;
    seen.add(next);
    const entry = entryOf(next);
    for (const needed of linked(entry)) visit(needed);
    order.push({ id: next, entry });
  };
  visit(id);
  const lastUse = new Map<Hash, number>();
  order.forEach(({ entry }, step) => {
    for (const next of linked(entry)) lastUse.set(next, step);
  });
  return order.map(({ id: stepId, entry }, step) => ({
    id: stepId,
    entry,
    lastUseOf: linked(entry).filter((next) => lastUse.get(next) === step),
  }));
}
