/**
 * Computes batch normalization in inference over bounds. It is y = (x − mean)·s + beta with s = gamma / √(variance +
 * ε), for each channel of the last axis. Kernels may also compute it as x·s + (beta − mean·s). Either way at most a
 * dozen roundings apply to (|x| + |mean|)·|s| and |beta|, so 16u times both is an upper bound of the error.
 */
import type { BoundedLayer, ConstantTerm, LayerOutput } from "./bounded-layer.js";
import { newBounds, setBounds, type Bounds } from "./bounds.js";
import { guard, underflow, unit } from "./rounding.js";
import type { WeightBounds } from "./weight-bounds.js";

export interface NormalizationWeights {
  readonly gamma: WeightBounds | undefined;
  readonly beta: WeightBounds | undefined;
  readonly mean: WeightBounds;
  readonly variance: WeightBounds;
}

const rounding = 16 * unit;

export class NormalizationLayer implements BoundedLayer {
  /** The values s, mean and beta of each channel as midpoint ± radius. */
  readonly #slope: Float64Array;
  readonly #slopeRadius: Float64Array;
  readonly #mean: Float64Array;
  readonly #meanRadius: Float64Array;
  readonly #beta: Float64Array;
  readonly #betaRadius: Float64Array;

  constructor(
    readonly shape: readonly number[],
    private readonly channels: number,
    epsilon: number,
    { gamma, beta, mean, variance }: NormalizationWeights,
  ) {
    this.#slope = new Float64Array(channels);
    this.#slopeRadius = new Float64Array(channels);
    for (let c = 0; c < channels; c++) {
      const minVariance = variance.mid[c]! - variance.radius[c]! + epsilon * (1 - unit);
      const maxVariance = variance.mid[c]! + variance.radius[c]! + epsilon * (1 + unit);
      // A negative variance makes both bounds NaN.
      const low = minVariance > 0 ? 1 / Math.sqrt(maxVariance) : NaN;
      const high = 1 / Math.sqrt(minVariance);
      const middle = (low + high) / 2;
      const radius = (high - low) / 2 + high * 2 ** -48;
      const g = gamma?.mid[c] ?? 1;
      const r = gamma?.radius[c] ?? 0;
      this.#slope[c] = g * middle;
      this.#slopeRadius[c] = (Math.abs(g) * radius + r * (middle + radius)) * guard;
    }
    this.#mean = mean.mid;
    this.#meanRadius = mean.radius;
    this.#beta = beta?.mid ?? new Float64Array(channels);
    this.#betaRadius = beta?.radius ?? new Float64Array(channels);
  }

  forward([input]: readonly Bounds[]): LayerOutput {
    const out = newBounds(this.shape);
    const { low, high } = input!;
    const slack = new Float64Array(low.length);
    const { channels } = this;
    for (let i = 0; i < low.length; i++) {
      const c = i % channels;
      const slope = this.#slope[c]!;
      const steepest = Math.abs(slope) + this.#slopeRadius[c]!;
      const x = Math.max(Math.abs(low[i]!), Math.abs(high[i]!));
      const m = Math.abs(this.#mean[c]!) + this.#meanRadius[c]!;
      const b = Math.abs(this.#beta[c]!) + this.#betaRadius[c]!;
      const error =
        (this.#slopeRadius[c]! * (x + m) +
          Math.abs(slope) * this.#meanRadius[c]! +
          this.#betaRadius[c]! +
          rounding * ((x + m) * steepest + b) +
          underflow(4) * (1 + steepest)) *
        guard;
      slack[i] = error;
      const shift = this.#beta[c]! - slope * this.#mean[c]!;
      const first = slope * low[i]! + shift;
      const second = slope * high[i]! + shift;
      setBounds(out, i, Math.min(first, second) - error, Math.max(first, second) + error);
    }
    return { out, slack };
  }

  backward(
    coefficients: Float64Array,
    { slack }: LayerOutput,
    _inputs: readonly Bounds[],
    [into]: readonly Float64Array[],
    constant: ConstantTerm,
  ): void {
    for (let i = 0; i < coefficients.length; i++) {
      const coefficient = coefficients[i]!;
      if (coefficient === 0) continue;
      const c = i % this.channels;
      const slope = this.#slope[c]!;
      const size = Math.abs(coefficient);
      into![i]! += coefficient * slope;
      constant.value += coefficient * (this.#beta[c]! - slope * this.#mean[c]!) - size * slack![i]!;
      constant.magnitude += size * (Math.abs(this.#beta[c]!) + Math.abs(slope * this.#mean[c]!) + slack![i]!);
    }
  }
}
