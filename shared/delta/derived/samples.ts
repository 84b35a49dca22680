/** The same elements of several tensors, as small tensors: most relations show in them. Pure. */
import { dtypeBits } from "../../tensor/dtype.js";
import type { Tensor } from "../../tensor/tensor.js";

/** Some of a tensor's elements, as a tensor of one axis. */
export function pick(tensor: Tensor, positions: ArrayLike<number>): Tensor {
  const width = dtypeBits(tensor.dtype) / 8;
  const bytes = new Uint8Array(positions.length * width);
  const all = tensor.bytes;
  for (let i = 0, at = 0; i < positions.length; i++) {
    const start = positions[i]! * width;
    for (let byte = 0; byte < width; byte++, at++) bytes[at] = all[start + byte]!;
  }
  return { dtype: tensor.dtype, shape: [positions.length], bytes };
}

/** Evenly spaced elements of a tensor of `count`, about `wanted` of them. */
export function sampledPositions(count: number, wanted: number): Int32Array {
  const step = Math.max(1, Math.floor(count / wanted));
  const positions = new Int32Array(Math.ceil(count / step));
  for (let i = 0; i < positions.length; i++) positions[i] = i * step;
  return positions;
}
