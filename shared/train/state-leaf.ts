/**
 * Hashes the state of a training between two steps. A leaf is one SHA-256 over all that the following steps depend on:
 * the loop's position, the optimizer's numbers, and hashes of weights, of the best epoch's weights and of the
 * optimizer's arrays. Measurements, times and how often the training was cut short are not in it. The same training
 * gives the same leaves on every machine. Pure.
 */
import { Sha256, sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import type { FitPosition, FitSnapshot } from "./training-state.js";

/** Leaves of one training, at most. Of a longer training there are fewer, further apart. */
export const maxLeaves = 4096;

/** The parts that a leaf is the hash of. */
export interface LeafParts {
  readonly position: Pick<FitPosition, "epoch" | "iteration" | "order" | "best"> & {
    /** Counts of the streams that gave numbers, by name. */
    readonly streams: Readonly<Record<string, number>>;
  };
  readonly optimizer: FitSnapshot["optimizer"];
  readonly weights: Hash;
  /** The weights of the best epoch, where the training keeps them. */
  readonly best: Hash | null;
  readonly slots: Hash;
}

/** The leaves of a training: its states before the first step, after each `everySteps`, and at its end. */
export interface StateLeaves {
  readonly everySteps: number;
  /** All steps of the training. */
  readonly steps: number;
  readonly leaves: readonly Hash[];
  /** The parts of the last leaf: they name the weights that the model has. */
  readonly last: LeafParts;
}

/** An array with its name and numbers, as the hash of several takes it. */
export interface NamedFloats {
  readonly name: string;
  readonly shape: readonly number[];
  readonly read: () => Float32Array;
}

/** Hashes arrays in their order, one at a time in memory. */
export class ArraysHash {
  readonly #hash = new Sha256().update("stemma-state-arrays-1\0");

  add({ name, shape, read }: NamedFloats): this {
    const values = read();
    this.#hash.update(`${JSON.stringify([name, shape])}\n`);
    this.#hash.update(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    return this;
  }

  digest(): Hash {
    return this.#hash.digest();
  }
}

/** The parts of a leaf at a state. */
export function leafParts({ position, optimizer, arrays }: FitSnapshot): LeafParts {
  const { epoch, iteration, order, best } = position;
  const hashes = { weight: new ArraysHash(), best: new ArraysHash(), slot: new ArraysHash() };
  let hasBest = false;
  for (const { name, shape, read } of arrays) {
    const kind = kindOf(name);
    hasBest ||= kind === "best";
    hashes[kind].add({ name: name.slice(kind.length + 1), shape, read });
  }
  return {
    position: { epoch, iteration, order, best, streams: drawnStreams(position.streams) },
    optimizer,
    weights: hashes.weight.digest(),
    best: hasBest ? hashes.best.digest() : null,
    slots: hashes.slot.digest(),
  };
}

/** Hashes the parts of a leaf; members that are not part of one do not matter. */
export function leafOf({ position, optimizer, weights, best, slots }: LeafParts): Hash {
  const { epoch, iteration, order, best: bestEpoch, streams } = position;
  return sha256(
    "stemma-training-leaf-1\0",
    JSON.stringify([
      [epoch, iteration, order === null ? null : [order.countBefore, order.used]],
      [bestEpoch.epoch, bestEpoch.loss],
      sorted(drawnStreams(streams)),
      [optimizer.name, optimizer.iterations, sorted(optimizer.shared)],
      [weights, best, slots],
    ]),
  );
}

/** The hash of the weights that the trained model has, by the parts of its last leaf. */
export function trainedWeights({ position, weights, best }: LeafParts): Hash {
  return best !== null && position.best.epoch < position.epoch ? best : weights;
}

/** Steps between two leaves: those that are asked for, or more where there would be more leaves than fit. */
export function stepsBetween(asked: number, steps: number, maxStates: number): number {
  const segments = Math.max(1, Math.min(maxLeaves - 1, maxStates + 1));
  return Math.max(asked, Math.ceil(steps / segments), 1);
}

function kindOf(name: string): "weight" | "best" | "slot" {
  if (name.startsWith("best/")) return "best";
  return name.startsWith("slot/") ? "slot" : "weight";
}

/** A stream that gave nothing may exist or not. */
function drawnStreams(counts: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== 0));
}

function sorted(numbers: Readonly<Record<string, number>>): readonly (readonly [string, number])[] {
  return Object.entries(numbers).sort(([a], [b]) => (a < b ? -1 : 1));
}
