/** UnsortedSegmentSum, which the gradient of gather (embeddings) needs and tfjs 4.22's wasm backend lacks. */
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";

/** x [n…, R…], segmentIds int32 [n…] → [numSegments, R…]. */
export function registerSegmentSum(room: KernelRegistry): void {
  room.kernel<{ x: TensorInfo; segmentIds: TensorInfo }, { numSegments: number }>(
    "UnsortedSegmentSum",
    ({ inputs: { x, segmentIds }, attrs: { numSegments } }) => {
      const { util } = room.tf;
      const rest = x.shape.slice(segmentIds.shape.length);
      const out = room.backend.makeOutput([numSegments, ...rest], x.dtype);
      const sum = x.dtype === "int32" ? room.kernels.segmentSumInt : room.kernels.segmentSumFloat;
      sum(
        room.pointer(x),
        room.pointer(segmentIds),
        room.pointer(out),
        util.sizeFromShape(segmentIds.shape),
        util.sizeFromShape(rest),
        numSegments,
      );
      return out;
    },
  );
}
