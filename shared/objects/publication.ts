/**
 * What a pack must hold to before it is published: no circle of tensors coded against each other, no chain
 * longer than is read, in memory as after any crash. Decides and takes turns; writes nothing itself.
 *
 * Packs of raw objects go as they come. Packs whose tensors refer to others go side by side unless they bring
 * the same objects; a pack that writes anew what is there (a recoding, or a new copy of what was damaged)
 * goes alone, after everything before it is durable, because it relies on all other copies being the ones it
 * saw.
 */
import { StemmaError } from "../errors.js";
import type { Hash } from "../tensor/tensor.js";
import { Chains, isFault, type ChainFault, type ChainState } from "./chains.js";
import type { ObjectIndex } from "./object-index.js";
import { maxChainDepth } from "./object-store.js";
import type { PackIndex } from "./pack-format.js";
import { ReferenceLock } from "./reference-lock.js";
import { plainSeal, type Seal, type UnsealedEntry } from "./unsealed-entry.js";

/** Why a tensor must not be coded so. */
export function chainRefused({ why, id }: ChainFault, tensor: Hash): StemmaError {
  if (why === "missing")
    return new StemmaError(
      "REFERENCE_MISSING",
      `The tensor ${tensor} is coded against ${id}, which this store does not have, or has only damaged. Send that first, or send the tensor raw.`,
      { id: tensor, missing: [id] },
    );
  if (why === "cyclic")
    return new StemmaError(
      "CHAIN_CYCLIC",
      `The tensor ${tensor} cannot be coded against what itself needs it to be decoded (${id} is in the circle). Code it against another, or store it raw.`,
      { id: tensor, at: id },
    );
  return new StemmaError(
    "CHAIN_TOO_LONG",
    `The tensor ${tensor} would need more than ${maxChainDepth} others to be decoded one after the other. Code it against one nearer to the start, or store it raw.`,
    { id: tensor, at: id },
  );
}

function isDeeper(state: ChainState, before: ChainState): boolean {
  return isFault(before) || isFault(state) || state > before;
}

export class Publication {
  readonly #index: ObjectIndex;
  readonly #lock = new ReferenceLock();
  /** What packs that are just being written will bring. */
  readonly #coming = new Map<Hash, Promise<unknown>>();
  constructor(index: ObjectIndex) {
    this.#index = index;
  }

  /**
   * Has a pack written and makes its objects visible.
   * @param write makes it durable under this seal, and returns it
   * @throws CHAIN_CYCLIC, CHAIN_TOO_LONG, REFERENCE_MISSING; what `write` throws. Returns undefined, without
   * a call of `write`, when nothing is left to be written
   */
  async publish(
    entries: readonly UnsealedEntry[],
    write: (seal: Seal) => Promise<PackIndex>,
  ): Promise<PackIndex | undefined> {
    const show = async (seal: Seal): Promise<PackIndex> => {
      const pack = await write(seal);
      this.#index.add(pack);
      return pack;
    };
    if (!entries.some(({ needsEpoch }) => needsEpoch)) return show(plainSeal);
    if (entries.some(({ isRewrite }) => isRewrite))
      return this.#lock.exclusive(() => this.#anew(entries, show));
    return this.#lock.shared(() => this.#besides(entries, show));
  }

  /**
   * A new circle would go through this pack. Only where it takes what others refer to further from the start,
   * these are looked at too: all that are coded, rather than to search for them.
   */
  #anew(entries: readonly UnsealedEntry[], show: (seal: Seal) => Promise<PackIndex>): Promise<PackIndex> {
    const before = this.#index.chains,
      after = this.#with(entries),
      own = new Set(entries.map(({ id }) => id));
    for (const id of own) {
      const state = after.state(id);
      if (isFault(state)) throw chainRefused(state, id);
    }
    const deeper = [...own].some(
      (id) => this.#index.isReferred(id) && isDeeper(after.state(id), before.state(id)),
    );
    if (deeper) {
      for (const id of this.#index.coded()) {
        const state = after.state(id);
        if (!isFault(state)) continue;
        const was = before.state(id);
        // Of what was out of reach already, only what would stay so for good is refused.
        if (!isFault(was) || (was.why !== state.why && state.why !== "missing"))
          throw chainRefused(state, id);
      }
    }
    return show({ epoch: this.#index.nextEpoch(), omit: new Set() });
  }

  async #besides(
    entries: readonly UnsealedEntry[],
    show: (seal: Seal) => Promise<PackIndex>,
  ): Promise<PackIndex | undefined> {
    for (let other = this.#comingOf(entries); other !== undefined; other = this.#comingOf(entries))
      await other.catch(() => undefined);
    // Another save was faster: its copy is the one that is read, ours might close a circle with what was
    // coded against it since.
    const omit = new Set(
      entries.filter(({ id, needsEpoch }) => needsEpoch && this.#index.isUsable(id)).map(({ id }) => id),
    );
    const left = entries.filter(({ id }) => !omit.has(id));
    if (left.length === 0) return undefined;
    const after = this.#with(left);
    for (const { id } of left) {
      const state = after.state(id);
      if (isFault(state)) throw chainRefused(state, id);
    }
    const showing = show({ epoch: this.#index.nextEpoch(), omit });
    for (const { id } of left) this.#coming.set(id, showing);
    try {
      return await showing;
    } finally {
      for (const { id } of left) if (this.#coming.get(id) === showing) this.#coming.delete(id);
    }
  }

  #comingOf(entries: readonly UnsealedEntry[]): Promise<unknown> | undefined {
    for (const { id } of entries) {
      const coming = this.#coming.get(id);
      if (coming !== undefined) return coming;
    }
    return undefined;
  }

  #with(entries: readonly UnsealedEntry[]): Chains {
    // A raw copy that came as it was saved does not win over one that is there.
    const own = new Map(
      entries
        .filter(({ id, needsEpoch }) => needsEpoch || !this.#index.isUsable(id))
        .map((entry) => [entry.id, entry]),
    );
    return new Chains((id) => own.get(id) ?? this.#index.linksOf(id));
  }
}
