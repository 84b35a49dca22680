/**
 * Builds an ensemble as one model. Its members are side by side over one input, each a run of layers of its
 * own, and the mean of their outputs follows. Joins members into that model and finds them in it again. Pure.
 */
import { canonicalOrder } from "../../model/canonical-order.js";
import { memberRuns, type MemberRun } from "../../model/member-runs.js";
import type { Architecture, LeafLayer } from "../../model/model.js";
import type { Tensor } from "../../tensor/tensor.js";
import { StemmaError } from "../../errors.js";
import type { StoredModel } from "../recipes/recipe.js";

/** The operation after the last layer of a member, so that the mean of all members' outputs is a vote. */
export type MemberOutput = "numbers" | "softmax" | "majority" | "sigmoid";

/** A member before it is joined. */
export interface NewMember {
  /** The model, with one input and one output. */
  readonly model: StoredModel;
  /** Indices of the columns that it sees, rising; all where undefined. */
  readonly columns?: readonly number[] | undefined;
}

/** A member inside an ensemble. */
export interface EnsembleMember {
  /** The architecture of its layers alone: an input, then the layers from `firstLayer` on. */
  readonly architecture: Architecture;
  /** Index of its first layer behind the input in the ensemble. */
  readonly firstLayer: number;
  /** Index of its first tensor in the ensemble, and how many it has. */
  readonly firstTensor: number;
  readonly tensorCount: number;
  /** Index of the tensor that selects its columns; undefined where it sees all. */
  readonly selection: number | undefined;
  /** Indices of the layers around it, whose weights are constants. */
  readonly constantLayers: readonly number[];
}

/**
 * Logits times this are so far apart that their softmax is 1 for the largest and 0 for the others; equal ones share the
 * vote.
 */
const majorityScale = 2 ** 24;

const floats = (values: Float32Array, shape: readonly number[]): Tensor => {
  const bytes = new Uint8Array(values.length * 4);
  const view = new DataView(bytes.buffer);
  values.forEach((value, index) => {
    view.setFloat32(index * 4, value, true);
  });
  return { dtype: "F32", shape: [...shape], bytes };
};

const constantDense = (from: number, rows: number, units: number, activation: string): LeafLayer => ({
  className: "Dense",
  config: { units, activation, use_bias: false },
  inputs: [{ layer: from, output: 0 }],
  weights: [{ name: "kernel", dtype: "F32", shape: [rows, units], trainable: true }],
});

/** [features, columns]: 1 where a column is taken. */
function selectionKernel(features: number, columns: readonly number[]): Tensor {
  const values = new Float32Array(features * columns.length);
  columns.forEach((column, index) => {
    values[column * columns.length + index] = 1;
  });
  return floats(values, [features, columns.length]);
}

function scaleKernel(size: number, scale: number): Tensor {
  const values = new Float32Array(size * size);
  for (let index = 0; index < size; index++) values[index * size + index] = scale;
  return floats(values, [size, size]);
}

/** Collects layers and their tensors. */
class Joiner {
  readonly layers: LeafLayer[] = [];
  readonly tensors: Tensor[] = [];

  add(layer: LeafLayer, tensors: readonly Tensor[]): number {
    this.layers.push(layer);
    this.tensors.push(...tensors);
    return this.layers.length - 1;
  }

  /** Adds a member behind layer `from`; returns its last layer. */
  addMember({ architecture, tensors }: StoredModel, from: number): number {
    const placed = new Map<number, number>();
    let used = 0;
    architecture.layers.forEach((layer, index) => {
      if (layer.className === "InputLayer") {
        placed.set(index, from);
        return;
      }
      const own = tensors.slice(used, used + layer.weights.length);
      used += layer.weights.length;
      const inputs = layer.inputs.map(({ layer: at, output }) => ({
        layer: placed.get(at) as number,
        output,
      }));
      const { sharedWith, ...rest } = layer;
      const shared = sharedWith === undefined ? {} : { sharedWith: placed.get(sharedWith) as number };
      placed.set(index, this.add({ ...rest, inputs, ...shared }, own));
    });
    return placed.get(architecture.outputs[0]?.layer ?? -1) as number;
  }

  addOutput(from: number, output: MemberOutput, width: number): number {
    switch (output) {
      case "numbers":
        return from;
      case "majority":
        return this.add(constantDense(from, width, width, "softmax"), [scaleKernel(width, majorityScale)]);
      case "softmax":
      case "sigmoid":
        return this.add(
          {
            className: "Activation",
            config: { activation: output },
            inputs: [{ layer: from, output: 0 }],
            weights: [],
          },
          [],
        );
    }
  }
}

/**
 * Joins members into an ensemble, whose layers are in canonical order: the input, each member's layers one after the
 * other, the mean.
 * @param members at least two, of equal architectures
 * @param width numbers of the members' output
 */
export function joinMembers(
  members: readonly NewMember[],
  {
    inputShape,
    output,
    width,
  }: { readonly inputShape: readonly number[]; readonly output: MemberOutput; readonly width: number },
): StoredModel {
  const joiner = new Joiner();
  const input = joiner.add(
    {
      className: "InputLayer",
      config: { batch_input_shape: [null, ...inputShape], dtype: "float32" },
      inputs: [],
      weights: [],
    },
    [],
  );
  const ends = members.map(({ model, columns }) => {
    const features = inputShape[0] ?? 0;
    const from =
      columns === undefined
        ? input
        : joiner.add(constantDense(input, features, columns.length, "linear"), [
            selectionKernel(features, columns),
          ]);
    return { layer: joiner.addOutput(joiner.addMember(model, from), output, width), output: 0 };
  });
  const mean = joiner.add({ className: "Average", config: {}, inputs: ends, weights: [] }, []);
  const { layers, tensors } = joiner;
  const outputs = [{ layer: mean, output: 0 }];
  if (canonicalOrder(layers, outputs).some((from, index) => from !== index))
    throw new StemmaError(
      "INTERNAL",
      "The members of an ensemble are not in canonical order. Report this with the recipe of its members.",
    );
  return { architecture: { layers, outputs }, tensors };
}

/**
 * The members of a model that `joinMembers` made.
 * @throws RECIPE_PARAMETERS_INVALID for any other model
 */
export function membersOf(architecture: Architecture): readonly EnsembleMember[] {
  const runs = memberRuns(architecture);
  if (runs === undefined) throw notAnEnsemble();
  return runs.map((run) => memberAt(architecture.layers, run));
}

function notAnEnsemble(): StemmaError {
  return new StemmaError(
    "RECIPE_PARAMETERS_INVALID",
    "Recipes of ensembles only continue from models that they made themselves: members over one input, and the " +
      "mean of their outputs. Choose such a base, or leave the base out.",
  );
}

const isConstant = ({ className, config }: LeafLayer): boolean =>
  className === "Dense" && config["use_bias"] === false;

/** One member, whose layers are `first` to `end`. */
function memberAt(layers: readonly LeafLayer[], { first, end }: MemberRun): EnsembleMember {
  const own = layers.slice(first, end + 1);
  const [opening, closing] = [layers[first] as LeafLayer, layers[end] as LeafLayer];
  const selects =
    own.length > 1 &&
    isConstant(opening) &&
    opening.config["activation"] === "linear" &&
    readsInputAlone(own);
  const votes =
    own.length > 1 &&
    (closing.className === "Activation" ||
      (isConstant(closing) && closing.config["activation"] === "softmax"));
  const from = first + (selects ? 1 : 0);
  const to = end - (votes ? 1 : 0);
  const tensorsBefore = (layer: number): number =>
    layers.slice(0, layer).reduce((sum, { weights }) => sum + weights.length, 0);
  const input = selects ? first : 0;
  const shift = (layer: number): number => {
    if (layer === input) return 0;
    if (layer < from || layer > to) throw notAnEnsemble();
    return layer - from + 1;
  };
  const shape = selects
    ? [opening.weights[0]?.shape[1] ?? 0]
    : (layers[0]?.config["batch_input_shape"] as readonly number[]).slice(1);
  return {
    architecture: {
      layers: [
        {
          className: "InputLayer",
          config: { batch_input_shape: [null, ...shape], dtype: "float32" },
          inputs: [],
          weights: [],
        },
        ...layers.slice(from, to + 1).map(({ inputs, sharedWith, ...layer }) => ({
          ...layer,
          inputs: inputs.map(({ layer: at, output }) => ({ layer: shift(at), output })),
          ...(sharedWith === undefined ? {} : { sharedWith: shift(sharedWith) }),
        })),
      ],
      outputs: [{ layer: to - from + 1, output: 0 }],
    },
    firstLayer: from,
    firstTensor: tensorsBefore(from),
    tensorCount: tensorsBefore(to + 1) - tensorsBefore(from),
    selection: selects ? tensorsBefore(first) : undefined,
    constantLayers: [...(selects ? [first] : []), ...(votes ? [end] : [])],
  };
}

/** True if only the first of these layers reads the ensemble's input: then it selects columns. */
function readsInputAlone([, ...others]: readonly LeafLayer[]): boolean {
  return others.every(({ inputs }) => inputs.every(({ layer }) => layer !== 0));
}

/** The columns that a selection takes. @throws RECIPE_PARAMETERS_INVALID where it is not one */
export function columnsOf({ shape: [features = 0, count = 0], bytes }: Tensor): readonly number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const columns: number[] = [];
  for (let index = 0; index < count; index++) {
    const taken: number[] = [];
    for (let column = 0; column < features; column++) {
      const value = view.getFloat32((column * count + index) * 4, true);
      if (value === 1) taken.push(column);
      else if (value !== 0) throw notAnEnsemble();
    }
    if (taken.length !== 1) throw notAnEnsemble();
    columns.push(taken[0] as number);
  }
  return columns;
}
