/** Puts the elements of a tensor in the order of other axes: bits move, nothing is computed. Pure. */

/** The axes of a tensor in another order: axis `i` of the result is axis `axes[i]` of a tensor of the shape `as`. */
export interface AxisOrder {
  /** The shape in which the tensor is read: its own, or one that splits some of its axes. */
  readonly as: readonly number[];
  readonly axes: readonly number[];
  /** The order of what the first axis of `as` counts, such as the gates of a GRU; absent: the same. */
  readonly blocks?: readonly number[] | undefined;
}

/** True where every axis is named once, and every block. */
export function isAxisOrder({ as, axes, blocks }: AxisOrder): boolean {
  return isPermutation(axes, as.length) && (blocks === undefined || isPermutation(blocks, as[0] ?? 0));
}

function isPermutation(order: readonly number[], count: number): boolean {
  return (
    order.length === count &&
    new Set(order).size === count &&
    order.every((at) => Number.isInteger(at) && at >= 0 && at < count)
  );
}

/** True where the elements stay where they are. */
export function keepsOrder({ as, axes, blocks = [] }: AxisOrder): boolean {
  const moved = axes.filter((axis) => as[axis] !== 1);
  return isAscending(blocks) && isAscending(moved);
}

function isAscending(numbers: readonly number[]): boolean {
  return numbers.every((number, at) => at === 0 || number > (numbers[at - 1] as number));
}

/**
 * @param bytes the tensor, row-major
 * @param elementBytes bytes of one element
 * @returns as many bytes, in another order
 */
export function reordered(bytes: Uint8Array, order: AxisOrder, elementBytes: number): Uint8Array {
  return withAxes(withBlocks(bytes, order.blocks), order, elementBytes);
}

/** The tensor of which `reordered` gives these bytes. */
export function restored(
  bytes: Uint8Array,
  { as, axes, blocks }: AxisOrder,
  elementBytes: number,
): Uint8Array {
  const before = withAxes(
    bytes,
    { as: axes.map((axis) => as[axis] as number), axes: inverse(axes) },
    elementBytes,
  );
  return withBlocks(before, blocks && inverse(blocks));
}

function inverse(order: readonly number[]): readonly number[] {
  const result = new Array<number>(order.length);
  order.forEach((from, at) => {
    result[from] = at;
  });
  return result;
}

/** Equal parts of the bytes in another order. */
function withBlocks(bytes: Uint8Array, blocks: readonly number[] | undefined): Uint8Array {
  if (blocks === undefined || isAscending(blocks)) return bytes;
  const length = bytes.length / blocks.length;
  const result = new Uint8Array(bytes.length);
  blocks.forEach((block, at) => {
    result.set(bytes.subarray(block * length, (block + 1) * length), at * length);
  });
  return result;
}

function withAxes(
  bytes: Uint8Array,
  { as, axes }: Pick<AxisOrder, "as" | "axes">,
  elementBytes: number,
): Uint8Array {
  if (keepsOrder({ as, axes })) return bytes;
  const strides = new Array<number>(as.length).fill(elementBytes);
  for (let axis = as.length - 2; axis >= 0; axis--)
    strides[axis] = (strides[axis + 1] as number) * (as[axis + 1] as number);
  const extents = axes.map((axis) => as[axis] as number);
  const steps = axes.map((axis) => strides[axis] as number);
  const result = new Uint8Array(bytes.length);
  const index = extents.map(() => 0);
  for (let to = 0, from = 0; to < result.length; to += elementBytes) {
    for (let byte = 0; byte < elementBytes; byte++) result[to + byte] = bytes[from + byte] as number;
    for (let axis = extents.length - 1; axis >= 0; axis--) {
      from += steps[axis] as number;
      index[axis] = (index[axis] as number) + 1;
      if ((index[axis] as number) < (extents[axis] as number)) break;
      from -= (extents[axis] as number) * (steps[axis] as number);
      index[axis] = 0;
    }
  }
  return result;
}
