/** Puts the elements of a tensor in the order of other axes: bits move, nothing is computed. Pure. */

/** The axes of a tensor in another order: axis `i` of the result is axis `axes[i]` of a tensor of the shape `as`. */
export interface AxisOrder {
  /** The shape in which the tensor is read: its own, or one that splits some of its axes. */
  readonly as: readonly number[];
  readonly axes: readonly number[];
}

/** The order that gives the first tensor again. */
export function inverseOrder({ as, axes }: AxisOrder): AxisOrder {
  const inverse = new Array<number>(axes.length);
  axes.forEach((axis, at) => {
    inverse[axis] = at;
  });
  return { as: axes.map((axis) => as[axis] as number), axes: inverse };
}

/** True where every axis is named once. */
export function isAxisOrder({ as, axes }: AxisOrder): boolean {
  return (
    axes.length === as.length &&
    new Set(axes).size === axes.length &&
    axes.every((axis) => Number.isInteger(axis) && axis >= 0 && axis < as.length)
  );
}

/** True where the elements stay where they are. */
export function keepsOrder({ as, axes }: AxisOrder): boolean {
  const moved = axes.filter((axis) => as[axis] !== 1);
  return moved.every((axis, at) => at === 0 || axis > (moved[at - 1] as number));
}

/**
 * @param bytes the tensor, row-major
 * @param elementBytes bytes of one element
 * @returns as many bytes, in another order
 */
export function reordered(bytes: Uint8Array, order: AxisOrder, elementBytes: number): Uint8Array {
  if (keepsOrder(order)) return bytes;
  const { as, axes } = order;
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
