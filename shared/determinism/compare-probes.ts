/**
 * Compares two summaries of probes: whether they can be compared at all, and where they differ, in the order in which a
 * training computes: evaluation and forward pass by the layers' order, backward pass against it. Pure.
 */
import { samplePositions, type Figures } from "./figures.js";
import {
  phases,
  type ProbedLayer,
  type ProbedOperation,
  type ProbePhase,
  type ProbeSummary,
} from "./probe-summary.js";

/** One value of a layer that is not the same in both. */
export interface ProbeDifference {
  readonly phase: ProbePhase;
  /** Index of the layer. */
  readonly layer: number;
  /** The path of a module of PyTorch; undefined for a layer of an architecture. */
  readonly name: string | undefined;
  readonly className: string;
  /** "output 0", "gradient of output 0", "gradient of kernel". */
  readonly value: string;
  /** Name of the tensor in a file of tensors. */
  readonly tensor: string;
  readonly a: Figures | null;
  readonly b: Figures | null;
  /**
   * Layers whose operations made the value: the layer itself, with those that one of the two computes together with it
   * or that share its weights; of the gradient of an output those that read it; none where that is the loss.
   */
  readonly madeBy: readonly number[];
  readonly operation: OperationDifference;
}

/** An operation with its layer, and its position among those that the layer ran, counted from 1. */
export interface PlacedOperation extends ProbedOperation {
  readonly layer: number;
  readonly position: number;
}

/** The first of the operations that made a value in which the two are not alike. */
export type OperationDifference =
  | { readonly kind: "differs"; readonly a: PlacedOperation; readonly b: PlacedOperation }
  /** The first two that are not the same operation, so which one made the difference is not known; null: none. */
  | { readonly kind: "others"; readonly a: PlacedOperation | null; readonly b: PlacedOperation | null }
  /** All listed ones are equal. */
  | { readonly kind: "unlisted" }
  /** None is listed, as of a backward pass of PyTorch. */
  | { readonly kind: "none" };

export interface ProbeComparison {
  readonly differences: readonly ProbeDifference[];
  /** Values that were compared. */
  readonly compared: number;
  /** Passes that only one of both reached in all layers. */
  readonly unreached: readonly ProbePhase[];
  /** Layers whose outputs were left out, because one of the two computes them together with what follows. */
  readonly together: readonly number[];
}

/** Returns what keeps two summaries from being compared, as words; none where they can be. */
export function whyIncomparable(a: ProbeSummary, b: ProbeSummary): readonly string[] {
  const inputs = ({ inputs: { tensors } }: ProbeSummary): string =>
    tensors.map(({ digest, shape }) => `${digest} ${shape.join()}`).join();
  const different = (word: string, left: string | number, right: string | number): string[] =>
    left === right ? [] : [`${word} (${left} and ${right})`];
  const found = [
    ...different("the architecture", a.model.architecture.slice(0, 12), b.model.architecture.slice(0, 12)),
    ...different("the weights", a.model.root.slice(0, 12), b.model.root.slice(0, 12)),
    ...different("the seed", a.inputs.seed, b.inputs.seed),
    ...different("the batch", a.inputs.batch, b.inputs.batch),
    ...different("the number of layers", a.layers.length, b.layers.length),
  ];
  // Layers are compared by their place: a program may call its modules in another order.
  const other = a.layers.findIndex(({ name }, at) => name !== b.layers[at]?.name);
  const names = [a, b].map(({ layers }) => layers[other]?.name ?? "no name");
  if (found.length === 0 && other >= 0) found.push(`layer ${other} (${names.join(" and ")})`);
  return found.length === 0 && inputs(a) !== inputs(b)
    ? ["the inputs, though their seed is the same"]
    : found;
}

/**
 * Compares two summaries of the same model, inputs and seed: every digest of an output or a gradient. Digests of
 * operations only say where a difference comes from.
 */
export function probeDifferences(a: ProbeSummary, b: ProbeSummary): ProbeComparison {
  const comparison = new Comparison(a.layers, b.layers);
  for (const phase of phases) comparison.comparePhase(phase);
  return comparison;
}

export interface MergedRuns {
  readonly summary: ProbeSummary;
  /** The first value that a later run gave otherwise; undefined where none is, though a pass may be missing in one. */
  readonly difference?: ProbeDifference | undefined;
}

/** Compares the runs of one machine with the first of them, whose summary says how many differ. */
export function mergeRuns(runs: readonly [ProbeSummary, ...ProbeSummary[]]): MergedRuns {
  const [first, ...others] = runs;
  const comparisons = others.map((other) => probeDifferences(first, other));
  const differences = comparisons.flatMap((each) => each.differences);
  const unreached = comparisons.reduce((sum, each) => sum + each.unreached.length, 0);
  return {
    summary: { ...first, runs: { count: runs.length, differing: differences.length + unreached } },
    difference: differences[0],
  };
}

type Layers = readonly ProbedLayer[];

class Comparison implements ProbeComparison {
  readonly differences: ProbeDifference[] = [];
  readonly unreached: ProbePhase[] = [];
  compared = 0;
  readonly #a: Layers;
  readonly #b: Layers;
  /** The readers of each layer's outputs, the last first. */
  readonly #readers: readonly (readonly number[])[];
  readonly #together = new Set<number>();

  constructor(a: Layers, b: Layers) {
    this.#a = a;
    this.#b = b;
    const readers = a.map((): number[] => []);
    a.forEach(({ inputs }, index) => {
      for (const layer of new Set(inputs.map((input) => input.layer))) readers[layer]?.unshift(index);
    });
    this.#readers = readers;
  }

  get together(): readonly number[] {
    return [...this.#together].sort((left, right) => left - right);
  }

  comparePhase(phase: ProbePhase): void {
    const order = this.#a.map((_, index) => index);
    if (phase === "backward") order.reverse();
    for (const index of order) this.#compareLayer(phase, index);
  }

  #compareLayer(phase: ProbePhase, index: number): void {
    const [a, b] = [this.#a[index]?.[phase] ?? null, this.#b[index]?.[phase] ?? null];
    if (a === null || b === null) {
      if (a !== b && !this.unreached.includes(phase)) this.unreached.push(phase);
      return;
    }
    if (this.#isComputedWithReader(phase, index)) this.#together.add(index);
    else
      for (let output = 0; output < Math.max(a.outputs.length, b.outputs.length); output++)
        this.#compare(a.outputs[output] ?? null, b.outputs[output] ?? null, {
          ...this.#place(phase, index),
          value: `${phase === "backward" ? "gradient of " : ""}output ${output}`,
          tensor: `${phase}/${index}/${output}`,
          madeBy: phase === "backward" ? (this.#readers[index] ?? []) : this.#madeTogether(phase, index),
        });
    if (phase === "backward") this.#compareWeights(index);
  }

  #compareWeights(index: number): void {
    const calls = this.#a.flatMap(({ sharedWith }, call) => (sharedWith === index ? [call] : []));
    const theirs = new Map(this.#b[index]?.backward?.weights.map(({ name, gradient }) => [name, gradient]));
    for (const { name, gradient } of this.#a[index]?.backward?.weights ?? [])
      this.#compare(gradient, theirs.get(name) ?? null, {
        ...this.#place("backward", index),
        value: `gradient of ${name}`,
        tensor: `backward/${index}/${name}`,
        madeBy: [index, ...calls],
      });
  }

  #place(phase: ProbePhase, layer: number): Pick<ProbeDifference, "phase" | "layer" | "name" | "className"> {
    const { name, className = "" } = this.#a[layer] ?? {};
    return { phase, layer, name, className };
  }

  #compare(
    a: Figures | null,
    b: Figures | null,
    where: Omit<ProbeDifference, "a" | "b" | "operation">,
  ): void {
    if (a === null && b === null) return;
    this.compared++;
    if (a?.digest === b?.digest && a?.shape.join() === b?.shape.join() && a?.dtype === b?.dtype) return;
    const { phase, madeBy } = where;
    const operation = differingOperation(
      operations(this.#a, phase, madeBy),
      operations(this.#b, phase, madeBy),
    );
    this.differences.push({ ...where, a, b, operation });
  }

  /** True if a layer only passes on what it gets in one of the two, and computes in the other. */
  #isPassedOnByOne(phase: ProbePhase, index: number): boolean {
    const forward = phase === "backward" ? "training" : phase;
    return this.#a[index]?.[forward]?.isPassedOn !== this.#b[index]?.[forward]?.isPassedOn;
  }

  /** True if what the layer gives is not the same thing in both: in one it has what its reader does in it already. */
  #isComputedWithReader(phase: ProbePhase, index: number): boolean {
    return this.#readers[index]?.some((reader) => this.#isPassedOnByOne(phase, reader)) ?? false;
  }

  /** The layer, after those before it that one of the two computes together with it. */
  #madeTogether(phase: ProbePhase, index: number): readonly number[] {
    const [input] = this.#a[index]?.inputs ?? [];
    return input !== undefined && input.layer < index && this.#isPassedOnByOne(phase, index)
      ? [...this.#madeTogether(phase, input.layer), index]
      : [index];
  }
}

function operations(
  layers: Layers,
  phase: ProbePhase,
  madeBy: readonly number[],
): readonly PlacedOperation[] {
  return madeBy.flatMap((layer) =>
    (layers[layer]?.[phase]?.operations ?? []).map((each, index) => ({
      ...each,
      layer,
      position: index + 1,
    })),
  );
}

function differingOperation(
  a: readonly PlacedOperation[],
  b: readonly PlacedOperation[],
): OperationDifference {
  for (let index = 0; index < Math.max(a.length, b.length); index++) {
    const [left, right] = [a[index], b[index]];
    if (left === undefined || right === undefined || left.name !== right.name)
      return { kind: "others", a: left ?? null, b: right ?? null };
    if (left.digest !== right.digest) return { kind: "differs", a: left, b: right };
  }
  return { kind: a.length === 0 ? "none" : "unlisted" };
}

/** The largest absolute difference of two tensors as far as their figures tell it. */
export interface KnownDifference {
  /** The lower bound of it; null where the figures say nothing, because a value is not finite. */
  readonly atLeast: number | null;
  /** Values that were looked at, of this many. */
  readonly sampled: number;
  readonly of: number;
  /** The largest magnitude in either tensor. */
  readonly largest: number;
}

/** Compares figures of two tensors of one shape. Their extremes never differ by more than their values do. */
export function knownDifference(a: Figures, b: Figures): KnownDifference {
  const of = a.shape.reduce((product, extent) => product * extent, 1);
  const ends = [a.min, a.max, b.min, b.max].map((value) => value ?? NaN);
  const isFinite = [a, b].every(({ nan, infinite }) => nan === 0 && infinite === 0);
  const pairs = a.sample.map((value, index) => value - (b.sample[index] ?? NaN));
  const [aMin = NaN, aMax = NaN, bMin = NaN, bMax = NaN] = ends;
  const distances = [...pairs, aMin - bMin, aMax - bMax].map(Math.abs);
  return {
    atLeast: isFinite && of > 0 ? Math.max(...distances) : null,
    sampled: samplePositions(of).length,
    of,
    largest: Math.max(...ends.map(Math.abs)),
  };
}

/** The difference of two tensors, of which all values are known. */
export interface ExactDifference {
  /** The largest absolute difference of two numbers; 0 where only NaN differ. */
  readonly largest: number;
  /** Position of the largest difference, row-major. */
  readonly at: number;
  /** Number of positions whose values are not the same, and of those where one value alone is NaN. */
  readonly differing: number;
  readonly nan: number;
  readonly of: number;
}

export function exactDifference(a: Float32Array, b: Float32Array): ExactDifference {
  let [largest, at, differing, nan] = [0, 0, 0, 0];
  for (let index = 0; index < a.length; index++) {
    const [left, right] = [a[index] as number, b[index] as number];
    if (Object.is(left, right)) continue;
    differing++;
    const distance = Math.abs(left - right);
    if (Number.isNaN(left) !== Number.isNaN(right)) nan++;
    if (distance > largest) [largest, at] = [distance, index];
  }
  return { largest, at, differing, nan, of: a.length };
}
