/** Reads a safetensors file as a device's software does, without the code that is tested. */
import type { DType } from "../../shared/tensor/dtype.js";
import { tensorId } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";

interface Entry {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [number, number];
}

/** Ids of the tensors of a file; none where it is not one. */
export function modelTensors(bytes: Uint8Array): readonly Hash[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const headerBytes = bytes.length < 8 ? 0 : Number(view.getBigUint64(0, true));
  if (headerBytes === 0 || 8 + headerBytes > bytes.length) return [];
  const header = JSON.parse(Buffer.from(bytes.subarray(8, 8 + headerBytes)).toString()) as Record<
    string,
    Entry
  >;
  const data = bytes.subarray(8 + headerBytes);
  return Object.entries(header)
    .filter(([name]) => name !== "__metadata__")
    .map(
      ([
        ,
        {
          dtype,
          shape,
          data_offsets: [begin, end],
        },
      ]) => tensorId({ dtype, shape }, data.subarray(begin, end)),
    );
}
