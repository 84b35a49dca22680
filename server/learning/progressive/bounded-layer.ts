/**
 * Defines what a layer does with bounds. Forward, it computes bounds of its output from bounds of its inputs. Backward,
 * it replaces a linear function of its output by a linear function of its inputs that is nowhere larger. Types only.
 */
import type { Bounds } from "./bounds.js";

/** Output of a layer for one sample. */
export interface LayerOutput {
  readonly out: Bounds;
  /**
   * An upper bound of |output − linear part| for each element of layers with a linear part, from uncertain
   * weights and rounding together.
   */
  readonly slack?: Float64Array;
}

/** The constant part of a lower bound; a backward pass adds to it. */
export interface ConstantTerm {
  value: number;
  /** Sum of the terms' magnitudes, which the rounding error in float64 is proportional to. */
  magnitude: number;
}

export interface BoundedLayer {
  /** Shape of the output, without the batch dimension. */
  readonly shape: readonly number[];
  /** Multiplications with weights in one pass, forward or backward; absent where they are few. */
  readonly productCount?: number;
  forward(inputs: readonly Bounds[]): LayerOutput;
  /**
   * Given that a value is at least Σ coefficients·output + r, adds to `into` (one array for each input) and
   * `constant` so that the value is at least Σ into·inputs + constant + r. Absent where the output's own
   * bounds are used instead.
   */
  backward?(
    coefficients: Float64Array,
    output: LayerOutput,
    inputs: readonly Bounds[],
    into: readonly Float64Array[],
    constant: ConstantTerm,
  ): void;
}
