/**
 * Draws what a probe runs on: inputs, weights of an architecture without any, and the numbers by which the outputs are
 * weighted in the loss. All of it comes from one seed by ../../random/streams.ts, with the same bits on every machine.
 */
import { StemmaError } from "../../errors.js";
import { weightSlots } from "../../model/architecture.js";
import type { Architecture } from "../../model/model.js";
import type { Stream, Streams } from "../../random/streams.js";
import type { Tensor } from "../../tensor/tensor.js";
import { depthwiseFans, fans, initialize } from "../../train/initializers.js";

export interface FixedInput {
  /** Index of the input layer. */
  readonly layer: number;
  readonly shape: readonly number[];
  readonly values: Float32Array | Int32Array;
  /** True if it holds indices into the rows of an embedding, through which no gradient passes. */
  readonly isIndices: boolean;
}

export interface InputChoices {
  readonly batch: number;
  /** Extent where the architecture leaves one open. */
  readonly size: number;
}

/** Beyond it no backend has memory for a tensor. */
const maxElements = 2 ** 30;
/** Whole numbers that are drawn for an input of integers of which the architecture does not say more. */
const integersBelow = 256;

/** @throws MEMORY_EXHAUSTED */
export function elementsOf(shape: readonly number[]): number {
  const elements = shape.reduce((product, extent) => product * extent, 1);
  if (elements <= maxElements) return elements;
  throw new StemmaError(
    "MEMORY_EXHAUSTED",
    `A tensor of the shape [${shape.join(", ")}] has more than 2^30 numbers, which no backend can hold. ` +
      "Probe with a smaller --batch or --size.",
    { shape },
  );
}

/** The inputs in the order of the model's. @throws MEMORY_EXHAUSTED */
export function fixedInputs(
  { layers }: Architecture,
  { batch, size }: InputChoices,
  streams: Streams,
): readonly FixedInput[] {
  return layers.flatMap((leaf, layer): FixedInput[] => {
    if (leaf.className !== "InputLayer") return [];
    const extents = (leaf.config["batch_input_shape"] as readonly (number | null)[]).slice(1);
    const shape = [batch, ...extents.map((extent) => extent ?? size)];
    const rows = layers.flatMap(({ className, config, inputs }) =>
      className === "Embedding" && inputs.some((from) => from.layer === layer)
        ? [config["input_dim"] as number]
        : [],
    );
    const length = elementsOf(shape);
    const stream = streams.stream(`probe/input/${layer}`);
    const isInteger = leaf.config["dtype"] === "int32";
    const below = Math.min(integersBelow, ...rows);
    const draw = (): number =>
      rows.length > 0 || isInteger ? stream.integer(below) : stream.uniformBetween(-1, 1);
    const values = isInteger ? Int32Array.from({ length }, draw) : Float32Array.from({ length }, draw);
    return [{ layer, shape, values, isIndices: rows.length > 0 }];
  });
}

/** Weights for an architecture, in canonical order, of a size that neither vanishes nor explodes through its layers. */
export function drawnWeights(architecture: Architecture, streams: Streams): readonly Tensor[] {
  return weightSlots(architecture).map(({ path, name, dtype, shape }) => {
    elementsOf(shape);
    const values = drawnWeight(name, shape, streams.stream(`probe/weight/${path}`));
    const bytes = new Uint8Array(values.length * 4);
    const view = new DataView(bytes.buffer);
    values.forEach((value, index) => {
      view.setFloat32(index * 4, value, true);
    });
    return { dtype, shape, bytes };
  });
}

function drawnWeight(name: string, shape: readonly number[], stream: Stream): Float32Array {
  const kind = name.split("/").at(-1);
  if (shape.length > 1)
    return initialize(
      "lecun-uniform",
      shape,
      stream,
      kind === "depthwise_kernel" ? depthwiseFans(shape) : fans(shape),
    );
  const [low, high] = kind === "gamma" || kind === "moving_variance" ? [0.5, 1.5] : [-0.1, 0.1];
  return Float32Array.from({ length: elementsOf(shape) }, () => stream.uniformBetween(low, high));
}

/** Numbers by which an output is multiplied before it is summed up: its gradient. */
export function lossWeights(output: number, shape: readonly number[], streams: Streams): Float32Array {
  const stream = streams.stream(`probe/loss/${output}`);
  return Float32Array.from({ length: elementsOf(shape) }, () => stream.uniformBetween(-1, 1));
}
