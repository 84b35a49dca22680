/**
 * Tensors within a scheme's compact form (integers, halves, codes, a table), losslessly encoded by
 * shared/delta. Bytes: code u8 ‖ sized bytes.
 */
import { ByteWriter, type ByteReader } from "../delta/bytes.js";
import { createDeltaCodec, type DeltaCodec } from "../delta/codec.js";
import type { EncodeOptions } from "../delta/encoded.js";
import { plainKernels } from "../delta/kernels/plain.js";
import { encodingMalformed } from "../delta/encoding-malformed.js";
import { dtypeBits } from "../tensor/dtype.js";
import type { Tensor, TensorHeader } from "../tensor/tensor.js";

let plain: DeltaCodec | undefined;

/**
 * The codec on the TypeScript kernels, which needs no loading. A caller that has the codec on the wasm
 * kernels passes that instead; both read and write the same bytes.
 */
export function plainCodec(): DeltaCodec {
  return (plain ??= createDeltaCodec(plainKernels()));
}

export function writeNested(
  out: ByteWriter,
  codec: DeltaCodec,
  { dtype, shape, bytes }: Tensor,
  options?: EncodeOptions,
): void {
  const encoded = codec.encodeTensor({ dtype, shape }, bytes, {}, options);
  out.u8(encoded.code);
  out.sized(encoded.bytes);
}

/**
 * Elements that one encoded byte can stand for at most: a segment of byte planes has 2^20 elements and takes
 * two bytes or more.
 */
const maxElementsPerByte = 2 ** 20;

/**
 * Allocates memory only after a check that the bytes can hold the elements that the header declares.
 * @throws DELTA_MALFORMED, DELTA_CODE_UNKNOWN; DELTA_REFERENCE_MISSING, as nested tensors have no references
 */
export function readNested(reader: ByteReader, codec: DeltaCodec, header: TensorHeader): Uint8Array {
  const code = reader.u8();
  const bytes = reader.sized();
  const count = header.shape.reduce((all, size) => all * size, 1);
  if (count > maxElementsPerByte * bytes.length)
    throw encodingMalformed(`${bytes.length} bytes cannot hold ${count} numbers`);
  return codec.decodeTensor(header, { code, bytes }, {}, (count * dtypeBits(header.dtype)) / 8);
}
