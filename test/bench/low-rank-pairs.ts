/** Pairs of models for the codec benchmark that other pairs are made into: merged LoRAs, and bfloat16. */
import type { Tensor } from "../../shared/tensor/tensor.js";
import { normal, roundedTo, uniform, widened } from "../helpers/related-tensors.js";

export type Model = ReadonlyMap<string, Tensor>;

/** Every float32 tensor in bfloat16. */
export function inBfloat16(model: Model): Model {
  return mapped(model, (tensor) => roundedTo("BF16", tensor.shape, widened(tensor)));
}

/**
 * The model with a LoRA merged into every matrix: two factors of rank 8, whose product moves the weights by a
 * hundredth of their size.
 */
export function withMergedLora(model: Model, rank = 8): Model {
  let seed = 1;
  return mapped(model, (tensor) => {
    const values = widened(tensor);
    const rows = tensor.shape[0] ?? 1;
    const columns = values.length / rows;
    if (Math.min(rows, columns) <= rank) return tensor;
    const draw = uniform(seed++);
    const draws = (count: number): Float32Array => Float32Array.from({ length: count }, () => normal(draw));
    const left = draws(rows * rank);
    const right = draws(rank * columns);
    const size = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length);
    const scale = (0.01 * size) / Math.sqrt(rank);
    const child = values.map((value, at) => {
      const row = Math.floor(at / columns);
      let sum = 0;
      for (let k = 0; k < rank; k++) sum += left[row * rank + k]! * right[k * columns + (at % columns)]!;
      return value + Math.fround(scale * sum);
    });
    return roundedTo(tensor.dtype === "BF16" ? "BF16" : "F32", tensor.shape, child);
  });
}

function mapped(model: Model, change: (tensor: Tensor) => Tensor): Model {
  return new Map(
    [...model].map(([name, tensor]) => [
      name,
      tensor.dtype === "F32" || tensor.dtype === "BF16" ? change(tensor) : tensor,
    ]),
  );
}
