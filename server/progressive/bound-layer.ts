/**
 * What a layer does with bounds: forward, from bounds of its inputs to bounds of its output; and back,
 * from a linear function of its output to one of its inputs that is nowhere larger. Types only.
 */
import type { Bounds } from "./bounds.js";

/** Output of a layer for one sample. */
export interface Passed {
  readonly out: Bounds;
  /**
   * Of layers that are linear but for this: |output − linear part| for each element, uncertain weights and
   * rounding together.
   */
  readonly slack?: Float64Array;
}

/** Collects the constant part of a lower bound; `magnitude` is what rounding in float64 is measured by. */
export interface Constant {
  value: number;
  magnitude: number;
}

export interface BoundLayer {
  /** Of the output, without the batch dimension. */
  readonly shape: readonly number[];
  /** Products with weights in one pass, forward or back; absent: few. */
  readonly products?: number;
  forward(inputs: readonly Bounds[]): Passed;
  /**
   * Given that something is at least Σ coefficients·output + rest, adds to `into` (one array an input) and
   * `constant` so that it is at least Σ into·inputs + constant + rest. Absent: the output's own bounds serve.
   */
  back?(
    coefficients: Float64Array,
    passed: Passed,
    inputs: readonly Bounds[],
    into: readonly Float64Array[],
    constant: Constant,
  ): void;
}
