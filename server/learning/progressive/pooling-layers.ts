/**
 * Pooling over bounds. A maximum is exact. A mean covers the n elements of its window that are inside the
 * image; its error is that of a sum of n products with 1/n (rounding.ts).
 */
import type { BoundedLayer, ConstantTerm, LayerOutput } from "./bounded-layer.js";
import { newBounds, setBounds, type Bounds } from "./bounds.js";
import type { Windows } from "./windows.js";
import { gamma, guard, underflow } from "./rounding.js";

/** Input [positions, channels] → output [windows, channels], the maximum of each window. */
export class MaxPoolingLayer implements BoundedLayer {
  constructor(
    readonly shape: readonly number[],
    private readonly windows: Windows,
    private readonly channels: number,
  ) {}

  forward([input]: readonly Bounds[]): LayerOutput {
    const out = newBounds(this.shape);
    const {
      channels,
      windows: { starts, positions },
    } = this;
    const { low, high } = input!;
    for (let p = 0; p < starts.length - 1; p++) {
      for (let c = 0; c < channels; c++) {
        let l = -Infinity;
        let h = -Infinity;
        for (let at = starts[p]!; at < starts[p + 1]!; at++) {
          const i = positions[at]! * channels + c;
          // Math.max returns NaN where an argument is NaN.
          l = Math.max(l, low[i]!);
          h = Math.max(h, high[i]!);
        }
        setBounds(out, p * channels + c, l, h);
      }
    }
    return { out };
  }

  /**
   * The output is at least each of its inputs. It is at most the input with the largest lower bound (the
   * winner) plus the amount by which the largest other upper bound (the rival) exceeds that lower bound.
   */
  backward(
    coefficients: Float64Array,
    _passed: LayerOutput,
    [input]: readonly Bounds[],
    [into]: readonly Float64Array[],
    constant: ConstantTerm,
  ): void {
    const {
      channels,
      windows: { starts, positions },
    } = this;
    const { low, high } = input!;
    for (let p = 0; p < starts.length - 1; p++) {
      for (let c = 0; c < channels; c++) {
        const coefficient = coefficients[p * channels + c]!;
        if (coefficient === 0) continue;
        let winner = positions[starts[p]!]! * channels + c;
        for (let at = starts[p]!; at < starts[p + 1]!; at++) {
          const i = positions[at]! * channels + c;
          if (low[i]! > low[winner]!) winner = i;
        }
        let rival = -Infinity;
        for (let at = starts[p]!; at < starts[p + 1]!; at++) {
          const i = positions[at]! * channels + c;
          if (i !== winner) rival = Math.max(rival, high[i]!);
        }
        const excess = coefficient > 0 ? 0 : Math.max(0, rival - low[winner]!);
        if (excess > 0 && high[winner]! <= rival) {
          constant.value += coefficient * rival;
          constant.magnitude += Math.abs(coefficient * rival);
          continue;
        }
        into![winner]! += coefficient;
        constant.value += coefficient * excess;
        constant.magnitude += Math.abs(coefficient) * (excess + Math.abs(low[winner]!));
      }
    }
  }
}

/** Input [positions, channels] → output [windows, channels], the mean of what each window reads. */
export class AveragePoolingLayer implements BoundedLayer {
  constructor(
    readonly shape: readonly number[],
    private readonly windows: Windows,
    private readonly channels: number,
  ) {}

  forward([input]: readonly Bounds[]): LayerOutput {
    const out = newBounds(this.shape);
    const {
      channels,
      windows: { starts, positions },
    } = this;
    const { low, high } = input!;
    const slack = new Float64Array(out.low.length);
    for (let p = 0; p < starts.length - 1; p++) {
      const count = starts[p + 1]! - starts[p]!;
      const rounding = gamma(count + 2);
      for (let c = 0; c < channels; c++) {
        let l = 0;
        let h = 0;
        let magnitude = 0;
        for (let at = starts[p]!; at < starts[p + 1]!; at++) {
          const i = positions[at]! * channels + c;
          l += low[i]!;
          h += high[i]!;
          magnitude += Math.max(Math.abs(low[i]!), Math.abs(high[i]!));
        }
        const error = ((rounding * magnitude) / count + underflow(count)) * guard;
        slack[p * channels + c] = error;
        setBounds(out, p * channels + c, l / count - error, h / count + error);
      }
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
    const {
      channels,
      windows: { starts, positions },
    } = this;
    for (let p = 0; p < starts.length - 1; p++) {
      const count = starts[p + 1]! - starts[p]!;
      for (let c = 0; c < channels; c++) {
        const coefficient = coefficients[p * channels + c]!;
        if (coefficient === 0) continue;
        for (let at = starts[p]!; at < starts[p + 1]!; at++)
          into![positions[at]! * channels + c]! += coefficient / count;
        const error = Math.abs(coefficient) * slack![p * channels + c]!;
        constant.value -= error;
        constant.magnitude += error;
      }
    }
  }
}
