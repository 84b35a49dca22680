/**
 * Initial values of weights, drawn from a named stream, as float32. Replaces TensorFlow.js's initialisers,
 * which use Math.log and Math.random (normal) or a generator seeded with strings (uniform).
 */
import { StemmaError } from "../errors.js";
import type { Stream } from "../random/streams.js";

export const initializerNames = [
  "zeros",
  "ones",
  "glorot-uniform",
  "glorot-normal",
  "he-uniform",
  "he-normal",
  "lecun-uniform",
  "lecun-normal",
  "orthogonal",
] as const;
export type InitializerName = (typeof initializerNames)[number];

function product(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total * each, 1);
}

/**
 * Number of inputs and outputs that a weight connects. Dense kernels are [in, out], convolution kernels
 * [height, width, in, out].
 */
export function fans(shape: readonly number[]): { readonly fanIn: number; readonly fanOut: number } {
  if (shape.length < 2) return { fanIn: product(shape), fanOut: product(shape) };
  const field = product(shape.slice(0, -2));
  return { fanIn: field * (shape.at(-2) as number), fanOut: field * (shape.at(-1) as number) };
}

/**
 * The fans of a depthwise kernel [height, width, channels, multiplier], which reads one channel at a time.
 */
export function depthwiseFans(shape: readonly number[]): { readonly fanIn: number; readonly fanOut: number } {
  const field = product(shape.slice(0, 2));
  return { fanIn: field, fanOut: field * (shape[3] ?? 1) };
}

/**
 * Draws the initial values of a weight.
 * @returns product(shape) float32 numbers, row-major
 * @throws RECIPE_PARAMETERS_INVALID for `orthogonal` on a shape of fewer than two dimensions
 */
export function initialize(
  name: InitializerName,
  shape: readonly number[],
  stream: Stream,
  { fanIn, fanOut } = fans(shape),
): Float32Array {
  const values = new Float32Array(product(shape));
  if (name === "zeros") return values;
  if (name === "ones") return values.fill(1);
  if (name === "orthogonal") return orthogonal(shape, stream);
  const scale = name.startsWith("glorot")
    ? 2 / (fanIn + fanOut)
    : name.startsWith("he")
      ? 2 / fanIn
      : 1 / fanIn;
  // IEEE 754 rounds square roots correctly on every machine, unlike logarithms and powers.
  if (name.endsWith("uniform")) {
    const limit = Math.fround(Math.sqrt(3 * scale));
    for (let index = 0; index < values.length; index++) values[index] = stream.uniformBetween(-limit, limit);
  } else {
    const deviation = Math.fround(Math.sqrt(scale));
    for (let index = 0; index < values.length; index++) values[index] = stream.normal() * deviation;
  }
  return values;
}

/**
 * A matrix [product of all but the last dimension, last dimension] with orthonormal rows or columns,
 * whichever are fewer: modified Gram-Schmidt, twice, on normal numbers, in float64.
 */
function orthogonal(shape: readonly number[], stream: Stream): Float32Array {
  if (shape.length < 2)
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The initializer "orthogonal" needs at least two dimensions, the weight has the shape [${shape.join(", ")}]. Use another initializer.`,
      { shape },
    );
  const rows = product(shape.slice(0, -1));
  const columns = shape.at(-1) as number;
  const count = Math.min(rows, columns);
  const length = Math.max(rows, columns);
  const vectors = Array.from({ length: count }, () => Float64Array.from({ length }, () => stream.normal()));
  for (let pass = 0; pass < 2; pass++)
    vectors.forEach((vector, index) => {
      orthonormalize(vector, vectors.slice(0, index));
    });
  const values = new Float32Array(rows * columns);
  vectors.forEach((vector, index) => {
    for (let i = 0; i < length; i++)
      values[rows >= columns ? i * columns + index : index * columns + i] = vector[i] as number;
  });
  return values;
}

function orthonormalize(vector: Float64Array, against: readonly Float64Array[]): void {
  for (const other of against) {
    let dot = 0;
    for (let i = 0; i < vector.length; i++) dot += (vector[i] as number) * (other[i] as number);
    for (let i = 0; i < vector.length; i++) vector[i] = (vector[i] as number) - dot * (other[i] as number);
  }
  let square = 0;
  for (const value of vector) square += value * value;
  const length = Math.sqrt(square);
  for (let i = 0; i < vector.length; i++) vector[i] = (vector[i] as number) / length;
}
