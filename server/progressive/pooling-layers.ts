/**
 * Pooling over bounds. Maxima are exact; a mean of n inside the image is a sum of n products with 1/n
 * (rounding.ts).
 */
import type { BoundLayer, Constant, Passed } from "./bound-layer.js";
import { newBounds, setBounds, type Bounds } from "./bounds.js";
import type { Windows } from "./geometry.js";
import { gamma, guard, underflow } from "./rounding.js";

/** Input [positions, channels] → output [windows, channels], the largest of each window. */
export class MaxPoolingLayer implements BoundLayer {
  constructor(
    readonly shape: readonly number[],
    private readonly windows: Windows,
    private readonly channels: number,
  ) {}

  forward([input]: readonly Bounds[]): Passed {
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
          // Math.max hands a NaN on.
          l = Math.max(l, low[i]!);
          h = Math.max(h, high[i]!);
        }
        setBounds(out, p * channels + c, l, h);
      }
    }
    return { out };
  }

  /**
   * The output is at least any of its inputs, and at most the one with the largest lower bound plus what the
   * others' upper bounds exceed that by.
   */
  back(
    coefficients: Float64Array,
    _passed: Passed,
    [input]: readonly Bounds[],
    [into]: readonly Float64Array[],
    constant: Constant,
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
        const over = coefficient > 0 ? 0 : Math.max(0, rival - low[winner]!);
        if (over > 0 && high[winner]! <= rival) {
          constant.value += coefficient * rival;
          constant.magnitude += Math.abs(coefficient * rival);
          continue;
        }
        into![winner]! += coefficient;
        constant.value += coefficient * over;
        constant.magnitude += Math.abs(coefficient) * (over + Math.abs(low[winner]!));
      }
    }
  }
}

/** Input [positions, channels] → output [windows, channels], the mean of what each window reads. */
export class AveragePoolingLayer implements BoundLayer {
  constructor(
    readonly shape: readonly number[],
    private readonly windows: Windows,
    private readonly channels: number,
  ) {}

  forward([input]: readonly Bounds[]): Passed {
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
        let reach = 0;
        for (let at = starts[p]!; at < starts[p + 1]!; at++) {
          const i = positions[at]! * channels + c;
          l += low[i]!;
          h += high[i]!;
          reach += Math.max(Math.abs(low[i]!), Math.abs(high[i]!));
        }
        const error = ((rounding * reach) / count + underflow(count)) * guard;
        slack[p * channels + c] = error;
        setBounds(out, p * channels + c, l / count - error, h / count + error);
      }
    }
    return { out, slack };
  }

  back(
    coefficients: Float64Array,
    { slack }: Passed,
    _inputs: readonly Bounds[],
    [into]: readonly Float64Array[],
    constant: Constant,
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
