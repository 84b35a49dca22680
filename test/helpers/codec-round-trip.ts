/** Encodes with both twins of the codec, and decodes again. */
import assert from "node:assert/strict";
import { createDeltaCodec } from "../../shared/delta/codec.js";
import type { EncodedTensor, References } from "../../shared/delta/encoded.js";
import { plainKernels } from "../../shared/delta/kernels/plain.js";
import { loadDeltaKernels } from "../../shared/delta/load.js";
import type { Tensor } from "../../shared/tensor/tensor.js";

export const wasm = createDeltaCodec(await loadDeltaKernels());
export const plain = createDeltaCodec(plainKernels());

/** Both twins must give the same encoding, and both must decode it to the tensor's own bytes. */
export function roundTrip(tensor: Tensor, references: References): EncodedTensor {
  const [encoded, twin] = [wasm, plain].map((codec) => codec.encodeTensor(tensor, tensor.bytes, references));
  assert.deepEqual(twin, encoded, "the twins differ");
  for (const codec of [wasm, plain])
    assert.ok(
      Buffer.from(tensor.bytes).equals(codec.decodeTensor(tensor, encoded!, references, tensor.bytes.length)),
    );
  assert.deepEqual(wasm.requiredReferences(encoded!), encoded!.against);
  return encoded!;
}
