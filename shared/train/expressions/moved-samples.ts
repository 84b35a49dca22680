/** Moves and turns samples of a batch, each by its own numbers. Copies numbers and computes none. Pure. */
import { sizeOf, type Shape } from "./check-expression.js";

/** Samples of one shape, one after the other. */
export interface Samples {
  readonly values: Float32Array;
  readonly shape: Shape;
}

/**
 * Moves each sample along its first axes: what was at 0 is then at the amount.
 * @param amounts for each axis a whole number for each sample, or one for all
 */
export function shifted(
  { values, shape }: Samples,
  amounts: readonly ArrayLike<number>[],
  fill: number,
): Float32Array {
  const length = sizeOf(shape);
  const moving = shape.slice(0, amounts.length);
  const inner = sizeOf(shape.slice(amounts.length));
  const places = sizeOf(moving);
  const result = new Float32Array(values.length).fill(fill);
  for (let start = 0; start < values.length; start += length) {
    const sample = start / length;
    for (let place = 0; place < places; place++) {
      let rest = place;
      let from = 0;
      let stride = 1;
      let isInside = true;
      for (let axis = moving.length - 1; axis >= 0; axis--) {
        const size = moving[axis] as number;
        const at = (rest % size) - ofSample(amounts[axis] as ArrayLike<number>, sample);
        rest = Math.floor(rest / size);
        isInside &&= at >= 0 && at < size;
        from += at * stride;
        stride *= size;
      }
      if (!isInside) continue;
      const begin = start + from * inner;
      result.set(values.subarray(begin, begin + inner), start + place * inner);
    }
  }
  return result;
}

/**
 * Turns the first two axes of each sample, which are equally long, counter-clockwise.
 * @param turns a whole number of quarters for each sample, or one for all
 */
export function turned({ values, shape }: Samples, turns: ArrayLike<number>): Float32Array {
  const length = sizeOf(shape);
  const side = shape[0] as number;
  const inner = sizeOf(shape.slice(2));
  const result = new Float32Array(values.length);
  for (let start = 0; start < values.length; start += length) {
    const quarters = ((ofSample(turns, start / length) % 4) + 4) % 4;
    for (let y = 0; y < side; y++)
      for (let x = 0; x < side; x++) {
        const [fromY, fromX] = placeBefore(y, x, quarters, side - 1);
        const begin = start + (fromY * side + fromX) * inner;
        result.set(values.subarray(begin, begin + inner), start + (y * side + x) * inner);
      }
  }
  return result;
}

function placeBefore(y: number, x: number, quarters: number, last: number): readonly [number, number] {
  switch (quarters) {
    case 1:
      return [x, last - y];
    case 2:
      return [last - y, last - x];
    case 3:
      return [last - x, y];
    default:
      return [y, x];
  }
}

function ofSample(values: ArrayLike<number>, sample: number): number {
  return values[values.length === 1 ? 0 : sample] as number;
}
