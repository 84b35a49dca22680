/**
 * Pooling over bounds: the input [positions, channels] becomes [windows, channels]. A maximum is exact. A mean
 * covers the n elements of its window that are inside the image; its error is that of a sum of n products with
 * 1/n (rounding.ts).
 */
import type { BoundedLayer, ConstantTerm, LayerOutput } from "./bounded-layer.js";
import { newBounds, setBounds, type Bounds } from "./bounds.js";
import { passWindows, type Windows } from "./windows.js";
import { gamma, guard, underflow } from "./rounding.js";

abstract class PoolingLayer {
  constructor(
    readonly shape: readonly number[],
    protected readonly windows: Windows,
    protected readonly channels: number,
  ) {}

  /** True if a window's outputs have coefficients. */
  protected hasCoefficients(coefficients: Float64Array, window: number): boolean {
    const base = window * this.channels;
    for (let i = base; i < base + this.channels; i++) if (coefficients[i] !== 0) return true;
    return false;
  }
}

/** The maximum of each window. */
export class MaxPoolingLayer extends PoolingLayer implements BoundedLayer {
  forward([input]: readonly Bounds[]): LayerOutput {
    const out = newBounds(this.shape);
    const { channels } = this;
    out.low.fill(-Infinity);
    out.high.fill(-Infinity);
    passWindows(this.windows, {
      read: (window, position) => {
        const { low, high } = input!;
        const { low: outLow, high: outHigh } = out;
        let o = window * channels;
        for (let i = position * channels, end = i + channels; i < end; i++, o++) {
          // Math.max returns NaN where an argument is NaN.
          outLow[o] = Math.max(outLow[o]!, low[i]!);
          outHigh[o] = Math.max(outHigh[o]!, high[i]!);
        }
      },
    });
    for (let i = 0; i < out.low.length; i++) setBounds(out, i, out.low[i]!, out.high[i]!);
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
    const { channels } = this;
    /** Input index of each channel's winner, −1 before the first position is read; and its rival's upper bound. */
    const found = { winners: new Int32Array(channels), rivals: new Float64Array(channels) };
    passWindows(this.windows, {
      begin: (window) => {
        if (!this.hasCoefficients(coefficients, window)) return false;
        found.winners.fill(-1);
        found.rivals.fill(-Infinity);
        return true;
      },
      read: (window, position) => {
        const { low, high } = input!;
        const { winners, rivals } = found;
        const base = window * channels;
        for (let c = 0, i = position * channels; c < winners.length; c++, i++) {
          if (coefficients[base + c] === 0) continue;
          const winner = winners[c]!;
          const wins = winner < 0 || low[i]! > low[winner]!;
          if (wins) winners[c] = i;
          const loser = wins ? winner : i;
          if (loser >= 0) rivals[c] = Math.max(rivals[c]!, high[loser]!);
        }
      },
      end: (window) => {
        const { low, high } = input!;
        const { winners, rivals } = found;
        for (let c = 0; c < channels; c++) {
          const coefficient = coefficients[window * channels + c]!;
          if (coefficient === 0) continue;
          const winner = winners[c]!;
          const rival = rivals[c]!;
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
      },
    });
  }
}

/** The mean of what each window reads. */
export class AveragePoolingLayer extends PoolingLayer implements BoundedLayer {
  forward([input]: readonly Bounds[]): LayerOutput {
    const out = newBounds(this.shape);
    const { channels } = this;
    /** The sum of magnitudes, then the slack. */
    const slack = new Float64Array(out.low.length);
    passWindows(this.windows, {
      read: (window, position) => {
        const { low, high } = input!;
        const { low: outLow, high: outHigh } = out;
        let o = window * channels;
        for (let i = position * channels, end = i + channels; i < end; i++, o++) {
          outLow[o]! += low[i]!;
          outHigh[o]! += high[i]!;
          slack[o]! += Math.max(Math.abs(low[i]!), Math.abs(high[i]!));
        }
      },
      end: (window, count) => {
        const rounding = gamma(count + 2);
        const base = window * channels;
        for (let i = base; i < base + channels; i++) {
          const error = ((rounding * slack[i]!) / count + underflow(count)) * guard;
          slack[i] = error;
          setBounds(out, i, out.low[i]! / count - error, out.high[i]! / count + error);
        }
      },
    });
    return { out, slack };
  }

  backward(
    coefficients: Float64Array,
    { slack }: LayerOutput,
    _inputs: readonly Bounds[],
    [into]: readonly Float64Array[],
    constant: ConstantTerm,
  ): void {
    const { channels } = this;
    const shares = new Float64Array(channels);
    passWindows(this.windows, {
      begin: (window, count) => {
        if (!this.hasCoefficients(coefficients, window)) return false;
        for (let c = 0, out = window * channels; c < channels; c++, out++) {
          const coefficient = coefficients[out]!;
          shares[c] = coefficient / count;
          if (coefficient === 0) continue;
          const error = Math.abs(coefficient) * slack![out]!;
          constant.value -= error;
          constant.magnitude += error;
        }
        return true;
      },
      read: (_window, position) => {
        const first = position * channels;
        for (let c = 0; c < channels; c++) if (shares[c] !== 0) into![first + c]! += shares[c]!;
      },
    });
  }
}
