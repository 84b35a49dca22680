/**
 * What a scheme leaves of a tensor (integers, halves, codes, a table), coded without loss by shared/delta:
 * code u8 ‖ sized bytes.
 */
import { ByteWriter, type ByteReader } from "../delta/bytes.js";
import { createDeltaCodec, type DeltaCodec } from "../delta/codec.js";
import type { EncodeOptions } from "../delta/encoded.js";
import { plainKernels } from "../delta/kernels/plain.js";
import { encodingMalformed } from "../delta/encoding-malformed.js";
import { dtypeBits } from "../tensor/dtype.js";
import type { TensorHeader } from "../tensor/tensor.js";

let plain: DeltaCodec | undefined;
/**
 * The codec that needs no loading; who has the one with wasm kernels passes that. Both write and read the
 * same bytes.
 */
export function plainCodec(): DeltaCodec {
  return (plain ??= createDeltaCodec(plainKernels()));
}

export function writeNested(
  out: ByteWriter,
  codec: DeltaCodec,
  header: TensorHeader,
  bytes: Uint8Array,
  options?: EncodeOptions,
): void {
  const { code, bytes: coded } = codec.encodeTensor(header, bytes, {}, options);
  out.u8(code);
  out.sized(coded);
}

/**
 * Elements that one coded byte can stand for at most: a segment of byte planes has 2^20 and takes two bytes
 * or more.
 */
const mostElementsPerByte = 2 ** 20;

/**
 * @throws DELTA_MALFORMED, DELTA_CODE_UNKNOWN, DELTA_REFERENCE_MISSING: nothing here is coded against
 * anything
 */
export function readNested(reader: ByteReader, codec: DeltaCodec, header: TensorHeader): Uint8Array {
  const code = reader.u8(),
    bytes = reader.sized(),
    count = header.shape.reduce((all, size) => all * size, 1);
  if (count > mostElementsPerByte * bytes.length)
    throw encodingMalformed(`${bytes.length} bytes cannot hold ${count} numbers`);
  return codec.decodeTensor(header, { code, bytes }, {}, (count * dtypeBits(header.dtype)) / 8);
}
