/** Byte planes of tensors: masks, and checks of the stored bytes that hold the highest of them. Pure. */
import type { DeltaCodec, PlanesCode } from "../delta/codec.js";
import { encodingCodes } from "../delta/encoded.js";
import { planeBytes } from "../delta/numbers.js";
import { sha256 } from "../tensor/hash.js";
import type { TensorHeader } from "../tensor/tensor.js";

/**
 * Returns a copy in which only the highest `planes` bytes of every little-endian element of `width` bytes are
 * kept and the others are zero. Returns `bytes` itself where all planes are kept, or where an element is not
 * a whole number of bytes (width 0).
 */
export function keepHighPlanes(bytes: Uint8Array, width: number, planes: number): Uint8Array {
  if (planes >= width) return bytes;
  const kept = bytes.slice();
  for (let low = 0; low < width - planes; low++)
    for (let at = low; at < kept.length; at += width) kept[at] = 0;
  return kept;
}

/**
 * The check of the stored bytes that hold a tensor's highest planes: the first 8 bytes of their SHA-256, as
 * kept in the index entry.
 */
export function planesCheck(prefix: Uint8Array): string {
  return sha256(prefix).slice(0, 16);
}

/** True if an encoding stores the bytes of numbers in planes, the highest first. */
export function isInPlanes(code: number): code is PlanesCode {
  return code === encodingCodes.planes || code === encodingCodes.fixedPlanes;
}

/**
 * One check for each number of planes except all of them, of byte planes and of fixed planes; undefined for
 * other encodings, and for elements of one byte. @throws DELTA_MALFORMED
 */
export function planeChecksOf(
  delta: Pick<DeltaCodec, "planesPrefixBytes">,
  header: TensorHeader,
  code: number,
  bytes: Uint8Array,
): readonly string[] | undefined {
  const width = planeBytes(header.dtype);
  if (!isInPlanes(code) || width < 2) return undefined;
  return Array.from({ length: width - 1 }, (_, i) =>
    planesCheck(bytes.subarray(0, delta.planesPrefixBytes(header, bytes, i + 1, code))),
  );
}
