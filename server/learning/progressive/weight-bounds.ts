/**
 * Bounds of weights from their highest bytes: for each float32 the midpoint and radius of the interval of all
 * numbers with those bytes. Reads bits as integers. Does not know the store or layers.
 */
import { sizeOf } from "./bounds.js";
import { bytesNotOfShape } from "./progressive-errors.js";

/** Byte planes of a float32. As a level it means that all bytes are known. */
export const floatPlaneCount = 4;

/**
 * A tensor's weights within bounds, row-major: |value − mid| ≤ radius, both exact. NaN in mid and radius
 * means unknown: the weight may be NaN or infinity.
 */
export interface WeightBounds {
  readonly shape: readonly number[];
  readonly mid: Float64Array;
  readonly radius: Float64Array;
  /** True if no element is unknown. */
  readonly allFinite: boolean;
}

/**
 * @param bytes little-endian float32; the lowest 4 − planes bytes of each element are not read
 * @param planes how many of the highest bytes are known, 1 … 4
 * @throws TENSOR_SIZE_MISMATCH
 */
export function weightBounds(shape: readonly number[], bytes: Uint8Array, planes: number): WeightBounds {
  const count = sizeOf(shape);
  if (bytes.length !== 4 * count) throw bytesNotOfShape(shape, 4 * count, bytes.length);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const mid = new Float64Array(count);
  const radius = new Float64Array(count);
  const unknown = planes >= floatPlaneCount ? 0 : 2 ** (8 * (floatPlaneCount - planes)) - 1;
  let allFinite = true;
  for (let i = 0; i < count; i++) {
    const word = view.getUint32(4 * i, true);
    const minBits = word & 0x7fffffff & ~unknown;
    const maxBits = minBits | unknown;
    if (maxBits >= 0x7f800000) {
      mid[i] = NaN;
      radius[i] = NaN;
      allFinite = false;
      continue;
    }
    // Two float32 of 24 bits each, at most a factor 2⁸ apart: their sum, their difference and the halves of
    // both are exact in float64.
    const low = magnitudeOf(minBits);
    const high = magnitudeOf(maxBits);
    const middle = (low + high) / 2;
    mid[i] = word >>> 31 === 1 ? -middle : middle;
    radius[i] = (high - low) / 2;
  }
  return { shape, mid, radius, allFinite };
}

const word = new Uint32Array(1);
const float = new Float32Array(word.buffer);
/** The float32 with these bits, which must have no sign and be those of a finite number. */
function magnitudeOf(bits: number): number {
  word[0] = bits;
  return float[0]!;
}
