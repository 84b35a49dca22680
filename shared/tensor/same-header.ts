/** Checks whether two tensors have the same element type and shape. */
import type { TensorHeader } from "./tensor.js";

export function hasSameHeader(a: TensorHeader, b: TensorHeader): boolean {
  return (
    a.dtype === b.dtype &&
    a.shape.length === b.shape.length &&
    a.shape.every((dimension, i) => dimension === b.shape[i])
  );
}
