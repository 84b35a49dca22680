/**
 * Computes averages of tensors of one type and shape, with the arithmetic of the programs that make them. Every
 * operation is rounded as there, so that the average comes out bit for bit. Every machine computes the same. Pure.
 */
import type { DType } from "../../tensor/dtype.js";
import type { Tensor } from "../../tensor/tensor.js";
import { roundingOf, tensorOf, valuesOf, wordsOf } from "./float-numbers.js";

/**
 * The orders in which an average is computed, by its code:
 * - double: products and their sum in float64, rounded once (numpy in float64, then cast).
 * - single: products and sums rounded one by one (PyTorch: `total += state[name] * weight`).
 * - counted: sum of state · count, divided by the sum of the counts, rounded one by one (federated averaging in
 *   PyTorch, numpy's mean in float32).
 * - fused: like single, each product and sum rounded together (PyTorch: `mul_(decay).add_(state, alpha=…)`).
 * - towards: first + weight · (second − first), of two (PyTorch: `lerp`, `swa_utils`).
 */
export const weightings = ["double", "single", "counted", "fused", "towards"] as const;
export type WeightingForm = (typeof weightings)[number];

/** Weight k is `counts[k] / total`. */
export interface Weighting {
  readonly form: WeightingForm;
  readonly counts: readonly number[];
  readonly total: number;
}

/** The mean, or with `weighting` the weighted mean, in the references' type. */
export function averageOf(references: readonly Tensor[], weighting: Weighting | undefined): Tensor {
  const { dtype, shape } = references[0]!;
  const all = references.map(valuesOf) as readonly Float32Array[];
  const mean = weighting === undefined ? plainMean(all) : weightedMean(all, weighting, dtype);
  return tensorOf(dtype, shape, wordsOf(mean));
}

/** Sums in float64, in order, divided by their count. */
function plainMean(all: readonly Float32Array[]): Float32Array {
  return Float32Array.from(all[0]!, (first, i) => {
    let sum = first;
    for (let k = 1; k < all.length; k++) sum += all[k]![i]!;
    return sum / all.length;
  });
}

function weightedMean(
  all: readonly Float32Array[],
  { form, counts, total }: Weighting,
  dtype: DType,
): Float32Array {
  const round = roundingOf(dtype);
  const exact = counts.map((count) => count / total);
  const weights = form === "double" ? exact : form === "counted" ? counts : exact.map(Math.fround);
  const mean = new Float32Array(all[0]!.length);
  if (form === "towards") {
    const [from, to] = [all[0]!, all[1]!];
    const weight = weights[1]!;
    const back = Math.fround(1 - weight);
    for (let i = 0; i < mean.length; i++) {
      const step = Math.fround(to[i]! - from[i]!);
      // PyTorch's lerp does the same: from the nearer end, product and sum rounded together.
      mean[i] = weight < 0.5 ? from[i]! + weight * step : to[i]! - step * back;
    }
    return mean;
  }
  const isRounded = form === "single" || form === "counted";
  for (let i = 0; i < mean.length; i++) {
    let sum = all[0]![i]! * weights[0]!;
    if (form !== "double") sum = round(sum);
    for (let k = 1; k < all.length; k++) {
      const product = all[k]![i]! * weights[k]!;
      sum += isRounded ? round(product) : product;
      if (form !== "double") sum = round(sum);
    }
    mean[i] = form === "counted" ? sum / total : sum;
  }
  return mean;
}
