/**
 * Sum and Mean over leading axes (bias gradients, global pooling), without the transpose with which tfjs
 * begins. Other reductions keep the backend's own kernel.
 */
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";

interface ReduceAttributes {
  readonly axis: number | number[] | null | undefined;
  readonly keepDims: boolean;
}

/** x [G…, R…, C…] reduced over R → [G…, C…]; float32. */
export function registerColumnSums(registry: KernelRegistry): void {
  for (const name of ["Sum", "Mean"]) {
    const stock = registry.stockKernel(name)!;
    registry.kernel<{ x: TensorInfo }, ReduceAttributes>(name, (call) => {
      const { x } = call.inputs;
      const split = x.dtype === "float32" ? reduction(registry, x.shape, call.attrs.axis) : undefined;
      if (!split) return stock(call as never);
      const { groups, rows, columns, reduced } = split;
      const shape = x.shape.flatMap((size, d) => (!reduced.has(d) ? [size] : call.attrs.keepDims ? [1] : []));
      const out = registry.backend.makeOutput(shape, "float32");
      registry.kernels.sumRows(
        registry.pointer(x),
        registry.pointer(out),
        registry.scratch(columns * 4),
        groups,
        rows,
        columns,
        name === "Mean" ? 1 / rows : 1,
      );
      return out;
    });
  }
}

/**
 * Views the tensor as [groups, rows, columns] with the reduced axes as its rows. Undefined where that is not
 * possible (the axes are not neighbours, or include the last one) or does not pay.
 */
function reduction(
  registry: KernelRegistry,
  shape: readonly number[],
  axis: ReduceAttributes["axis"],
): { groups: number; rows: number; columns: number; reduced: Set<number> } | undefined {
  const { util } = registry.tf;
  const axes = [...util.parseAxisParam(axis as number | number[], shape as number[])].sort((a, b) => a - b);
  const first = axes[0];
  const last = axes.at(-1);
  if (
    first === undefined ||
    last === undefined ||
    last - first + 1 !== axes.length ||
    last === shape.length - 1
  )
    return undefined;
  const [groups, rows, columns] = [
    shape.slice(0, first),
    shape.slice(first, last + 1),
    shape.slice(last + 1),
  ].map((part) => util.sizeFromShape(part)) as [number, number, number];
  if (groups * rows * columns === 0 || columns < 4) return undefined;
  return { groups, rows, columns, reduced: new Set(axes) };
}
