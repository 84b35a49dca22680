/** UnsortedSegmentSum, which the gradient of gather (embeddings) needs and tfjs 4.22's wasm backend lacks. */
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";

/** x [n…, R…], segmentIds int32 [n…] → [numSegments, R…]. */
export function registerSegmentSum(registry: KernelRegistry): void {
  registry.kernel<{ x: TensorInfo; segmentIds: TensorInfo }, { numSegments: number }>(
    "UnsortedSegmentSum",
    ({ inputs: { x, segmentIds }, attrs: { numSegments } }) => {
      const { util } = registry.tf;
      const rowShape = x.shape.slice(segmentIds.shape.length);
      const out = registry.backend.makeOutput([numSegments, ...rowShape], x.dtype);
      const sum = x.dtype === "int32" ? registry.kernels.segmentSumInt : registry.kernels.segmentSumFloat;
      sum(
        registry.pointer(x),
        registry.pointer(segmentIds),
        registry.pointer(out),
        util.sizeFromShape(segmentIds.shape),
        util.sizeFromShape(rowShape),
        numSegments,
      );
      return out;
    },
  );
}
