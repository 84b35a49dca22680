/**
 * Tensors of any form as one safetensors file that exists only while it is read: whatever reads safetensors reads
 * every form, in pieces.
 */
import { tensorByteLength } from "../tensor/dtype.js";
import { safetensorsHeaderText } from "../tensor/safetensors-header.js";
import type { FormContent, FormTensor, OpenedPart } from "./form.js";

/** @throws SAFETENSORS_MALFORMED for names that no file can hold, SHAPE_INVALID, TENSOR_TOO_LARGE */
export function assembledFile({ tensors, metadata }: Pick<FormContent, "tensors" | "metadata">): OpenedPart {
  const text = Buffer.from(safetensorsHeaderText(tensors, metadata));
  const head = Buffer.alloc(8 + text.length);
  head.writeBigUInt64LE(BigInt(text.length));
  text.copy(head, 8);
  const starts = new Float64Array(tensors.length + 1);
  starts[0] = head.length;
  tensors.forEach(({ dtype, shape }, i) => {
    starts[i + 1] = (starts[i] as number) + tensorByteLength(dtype, shape);
  });
  const size = starts[tensors.length] as number;
  return {
    size,
    file: {
      size: () => Promise.resolve(size),
      async read(target, position) {
        const length = Math.max(0, Math.min(target.length, size - position));
        let done = Math.min(length, Math.max(0, head.length - position));
        target.set(head.subarray(position, position + done));
        for (let i = tensorAt(starts, position + done); done < length; i++) {
          const from = position + done - (starts[i] as number);
          const piece = Math.min(length - done, (starts[i + 1] as number) - position - done);
          if (piece > 0) await (tensors[i] as FormTensor).read(target.subarray(done, done + piece), from);
          done += piece;
        }
        return length;
      },
    },
  };
}

/** The last tensor that begins at or before a position. */
function tensorAt(starts: Float64Array, position: number): number {
  let low = 0;
  let high = starts.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((starts[middle] as number) <= position) low = middle;
    else high = middle;
  }
  return low;
}
