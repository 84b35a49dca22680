/**
 * Publishes packs so that tensors are never coded against each other in a cycle and no chain exceeds `maxChainDepth`.
 * That holds in memory and after a crash at any point. This file checks and serializes; the caller writes the pack.
 *
 * A pack of raw objects is published without checks. Packs with coded tensors are published concurrently
 * unless they add the same objects. A pack that rewrites objects of the store (a recoding, or a new copy of a
 * damaged object) is published alone, after everything before it is durable, because its checks hold only as
 * long as no other copy changes.
 */
import type { StemmaError } from "../errors.js";
import type { Hash } from "../tensor/tensor.js";
import { Chains, isFault, type ChainFault, type ChainState } from "./chains.js";
import { baseMissing, chainCyclic, chainTooLong } from "./object-errors.js";
import type { ObjectIndex } from "./object-index.js";
import { maxChainDepth } from "./object-store.js";
import type { PackIndex } from "./pack-format.js";
import { ReferenceLock } from "./reference-lock.js";
import { plainSeal, type Seal, type UnsealedEntry } from "./unsealed-entry.js";

/** The error for a tensor whose chain would have a fault. */
export function chainRefusal({ why, id }: ChainFault, tensor: Hash): StemmaError {
  if (why === "missing") return baseMissing(tensor, id);
  if (why === "cyclic") return chainCyclic(tensor, id);
  return chainTooLong(tensor, id, maxChainDepth);
}

function isDeeper(state: ChainState, before: ChainState): boolean {
  return isFault(before) || isFault(state) || state > before;
}

export class Publication {
  readonly #index: ObjectIndex;
  readonly #lock = new ReferenceLock();
  /** Objects of the packs that are being written now. */
  readonly #inProgress = new Map<Hash, Promise<unknown>>();

  constructor(index: ObjectIndex) {
    this.#index = index;
  }

  /**
   * Calls `write` and makes the pack's objects visible. Returns undefined, without calling `write`, when
   * other saves have added all its objects meanwhile.
   * @param write makes the pack durable under this seal, and returns it
   * @throws CHAIN_CYCLIC, CHAIN_TOO_LONG, REFERENCE_MISSING; what `write` throws
   */
  async publish(
    entries: readonly UnsealedEntry[],
    write: (seal: Seal) => Promise<PackIndex>,
  ): Promise<PackIndex | undefined> {
    const writeAndAdd = async (seal: Seal): Promise<PackIndex> => {
      const pack = await write(seal);
      this.#index.add(pack);
      return pack;
    };
    if (!entries.some(({ needsEpoch }) => needsEpoch)) return writeAndAdd(plainSeal);
    if (entries.some(({ isRewrite }) => isRewrite))
      return this.#lock.exclusive(() => this.#publishRewrite(entries, writeAndAdd));
    return this.#lock.shared(() => this.#publishNew(entries, writeAndAdd));
  }

  /**
   * A new cycle would pass through this pack, so its own tensors are checked. If the pack deepens the chain
   * of a tensor that others are coded against, all coded tensors of the store are checked too.
   */
  #publishRewrite(
    entries: readonly UnsealedEntry[],
    writeAndAdd: (seal: Seal) => Promise<PackIndex>,
  ): Promise<PackIndex> {
    const before = this.#index.chains;
    const after = this.#chainsWith(entries);
    const own = new Set(entries.map(({ id }) => id));
    for (const id of own) {
      const state = after.state(id);
      if (isFault(state)) throw chainRefusal(state, id);
    }
    const hasDeeper = [...own].some(
      (id) => this.#index.isReferenced(id) && isDeeper(after.state(id), before.state(id)),
    );
    if (hasDeeper) {
      for (const id of this.#index.coded()) {
        const state = after.state(id);
        if (!isFault(state)) continue;
        const stateBefore = before.state(id);
        // A tensor that was unreadable before is refused only where this pack would make that permanent.
        if (!isFault(stateBefore) || (stateBefore.why !== state.why && state.why !== "missing"))
          throw chainRefusal(state, id);
      }
    }
    return writeAndAdd({ epoch: this.#index.nextEpoch(), omit: new Set() });
  }

  async #publishNew(
    entries: readonly UnsealedEntry[],
    writeAndAdd: (seal: Seal) => Promise<PackIndex>,
  ): Promise<PackIndex | undefined> {
    for (let other = this.#inProgressOf(entries); other !== undefined; other = this.#inProgressOf(entries))
      await other.catch(() => undefined);
    // Another save was faster, and reads use its copy. Our copy is left out, because it might close a cycle
    // with tensors that were coded against the other copy since.
    const omit = new Set(
      entries.filter(({ id, needsEpoch }) => needsEpoch && this.#index.isUsable(id)).map(({ id }) => id),
    );
    const remaining = entries.filter(({ id }) => !omit.has(id));
    if (remaining.length === 0) return undefined;
    const after = this.#chainsWith(remaining);
    for (const { id } of remaining) {
      const state = after.state(id);
      if (isFault(state)) throw chainRefusal(state, id);
    }
    const writing = writeAndAdd({ epoch: this.#index.nextEpoch(), omit });
    for (const { id } of remaining) this.#inProgress.set(id, writing);
    try {
      return await writing;
    } finally {
      for (const { id } of remaining) if (this.#inProgress.get(id) === writing) this.#inProgress.delete(id);
    }
  }

  #inProgressOf(entries: readonly UnsealedEntry[]): Promise<unknown> | undefined {
    for (const { id } of entries) {
      const writing = this.#inProgress.get(id);
      if (writing !== undefined) return writing;
    }
    return undefined;
  }

  #chainsWith(entries: readonly UnsealedEntry[]): Chains {
    // A new raw copy does not win over a readable one in the store.
    const own = new Map(
      entries
        .filter(({ id, needsEpoch }) => needsEpoch || !this.#index.isUsable(id))
        .map((entry) => [entry.id, entry]),
    );
    return new Chains((id) => own.get(id) ?? this.#index.linksOf(id));
  }
}
