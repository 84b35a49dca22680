/**
 * Decodes a reduced tensor from its compact form alone, with the same bits on every machine. The object store
 * reads entries with the codes 16 to 31 in this way. Pure; does not depend on a store.
 */
import { ByteReader } from "../delta/bytes.js";
import type { DeltaCodec } from "../delta/codec.js";
import { encodingMalformed } from "../delta/encoding-malformed.js";
import { StemmaError } from "../errors.js";
import { tensorByteLength } from "../tensor/dtype.js";
import type { TensorHeader } from "../tensor/tensor.js";
import { decodeFixed, decodeNormalized } from "./grid.js";
import { bfloat16ToSingle, halfToSingle } from "./halves.js";
import { plainCodec, readNested } from "./nested-tensor.js";
import { decodeQuantized } from "./quantize.js";
import { isSchemeCode, schemeCodes, type SchemeCode } from "./scheme.js";
import { bytesOf } from "./float-words.js";

/** Longer tensors stay exact, because a compact form is decoded in memory. */
export const maxReducedBytes = 2 ** 30;

/** True if a scheme applies to tensors of this type and shape at all. */
export function isReducible({ dtype, shape }: TensorHeader): boolean {
  const length = tensorByteLength(dtype, shape);
  return dtype === "F32" && shape.length >= 2 && length > 0 && length <= maxReducedBytes;
}

/**
 * Returns the reduced tensor's float32 bytes. Takes a small multiple of the memory that the header declares,
 * and only after a check that `bytes` can hold that many numbers.
 * @throws DELTA_CODE_UNKNOWN for a code that is not a scheme's; DELTA_MALFORMED, DELTA_REFERENCE_MISSING for
 * bytes that are not a compact form; SHAPE_INVALID, TENSOR_TOO_LARGE
 */
export function decodeScheme(
  header: TensorHeader,
  code: number,
  bytes: Uint8Array,
  codec: DeltaCodec = plainCodec(),
): Uint8Array {
  if (!isSchemeCode(code))
    throw new StemmaError(
      "DELTA_CODE_UNKNOWN",
      `No float scheme has the code ${code}; it may come from a newer Stemma. Update this one, or recover the exact model.`,
      { code },
    );
  if (!isReducible(header))
    throw encodingMalformed(
      `a tensor ${header.dtype} [${header.shape.join(", ")}] goes through no float scheme`,
    );
  const count = tensorByteLength(header.dtype, header.shape) / 4;
  return bytesOf(decodeWords(codec, code, bytes, { shape: header.shape, count }));
}

interface MatrixSize {
  readonly shape: readonly number[];
  readonly count: number;
}

function decodeWords(
  codec: DeltaCodec,
  code: SchemeCode,
  bytes: Uint8Array,
  { shape, count }: MatrixSize,
): Uint32Array {
  switch (code) {
    case schemeCodes.float16:
      return decodeHalves(codec, bytes, { dtype: "F16", shape }, halfToSingle);
    case schemeCodes.bfloat16:
      return decodeHalves(codec, bytes, { dtype: "BF16", shape }, bfloat16ToSingle);
    case schemeCodes.fixed:
      return decodeFixed(codec, bytes, shape, count);
    case schemeCodes.normalized:
      return decodeNormalized(codec, bytes, shape, count);
    default:
      return decodeQuantized(codec, bytes, shape, count);
  }
}

function decodeHalves(
  codec: DeltaCodec,
  bytes: Uint8Array,
  header: TensorHeader,
  toSingle: (half: number) => number,
): Uint32Array {
  const reader = new ByteReader(bytes);
  const { buffer, byteOffset, length } = readNested(reader, codec, header);
  if (reader.remaining > 0) throw encodingMalformed("bytes follow its numbers");
  const halves = new Uint16Array(buffer, byteOffset, length / 2);
  const words = new Uint32Array(halves.length);
  for (let i = 0; i < words.length; i++) words[i] = toSingle(halves[i]!);
  return words;
}
