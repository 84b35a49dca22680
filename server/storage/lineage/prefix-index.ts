/** The port of an index that finds the model with the longest common prefix of layers (EvoStore, EV1). */
import type { Hash } from "../../../shared/tensor/tensor.js";

/** A model as candidates are compared: the better one first, then the newer one, then the smaller id. */
export interface PrefixCandidate {
  readonly id: Hash;
  /** Higher is better. Models without a measure come after all that have one; no number (NaN, -Infinity) is none. */
  readonly quality?: number | undefined;
  /** Milliseconds since 1970. */
  readonly savedAtMs: number;
}

export interface PrefixMatch {
  readonly model: PrefixCandidate;
  /** Layers of the common prefix. */
  readonly layers: number;
}

/**
 * An index over models by their architectures. An architecture is known by the identities of its layers
 * (shared/model/layer-identity.ts); models whose architecture has none are kept and never found. Its answers are those
 * of a scan over all models: `prefixIndexContract` (test/contract) is what an implementation must pass.
 */
export interface PrefixIndex {
  /** The number of models. */
  readonly size: number;
  /** Architectures and candidates that queries have looked at so far: what they cost, without a clock. */
  readonly steps: number;

  has(id: Hash): boolean;

  /** True if models of this architecture can be added without its identities. */
  knows(architecture: Hash): boolean;

  /**
   * Adds a model, or replaces the one of its id.
   * @param identities of the architecture's layers, in any order; not needed, and not read, where `knows` says so
   * @throws INTERNAL where they are needed and missing
   */
  add(model: PrefixCandidate, architecture: Hash, identities?: readonly Hash[]): void;

  /** Returns whether the model was there. */
  remove(id: Hash): boolean;

  /** The model with the longest common prefix; undefined where no model has the first layer either. */
  longest(identities: readonly Hash[]): PrefixMatch | undefined;

  /** Finds the longest match as `longest`, as if there were no model `except`. */
  longestExcept(except: Hash, identities: readonly Hash[]): PrefixMatch | undefined;
}
