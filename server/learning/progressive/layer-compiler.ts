/** The type of the functions that compile one layer of an architecture into layers over bounds. */
import type { LeafLayer } from "../../../shared/model/model.js";
import type { BoundedLayer } from "./bounded-layer.js";
import type { WeightBounds } from "./weight-bounds.js";

/** A shape without the batch dimension. */
export type Shape = readonly number[];

/** A layer to compile. */
export interface LayerToCompile {
  readonly leaf: LeafLayer;
  /** Shapes of all inputs. */
  readonly inputs: readonly Shape[];
  /** Shape of the first input. */
  readonly shape: Shape;
  /** The layer's weights in canonical order. */
  readonly weights: readonly WeightBounds[];
}

/**
 * Returns the layers over bounds that do the layer's work, applied one after the other; an empty list where
 * the layer changes nothing.
 *
 * @throws PROGRESSIVE_UNSUPPORTED naming the setting that has no bounds
 */
export type CompileLayer = (layer: LayerToCompile) => readonly BoundedLayer[];
