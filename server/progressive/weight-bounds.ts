/**
 * What is known of weights from their highest bytes: for each float32 the middle and half the width of
 * the interval of all numbers with those bytes. Reads bits as integers; knows no store and no layer.
 */
import { StemmaError } from "../../shared/errors.js";
import { sizeOf } from "./bounds.js";

/** Byte planes of a float32. */
export const allPlanes = 4;

/**
 * A tensor's weights within bounds, row-major: |value − mid| ≤ radius. NaN in mid and radius: anything (NaN
 * or infinity are possible). Both are exact.
 */
export interface WeightBounds {
  readonly shape: readonly number[];
  readonly mid: Float64Array;
  readonly radius: Float64Array;
  /** No element may be anything. */ readonly finite: boolean;
}

/**
 * @param bytes little-endian float32, the lowest 4 − planes bytes of each element zero (whatever they hold
 * is ignored)
 * @param planes how many of the highest bytes are known, 1 … 4
 * @throws TENSOR_SIZE_MISMATCH
 */
export function weightBounds(shape: readonly number[], bytes: Uint8Array, planes: number): WeightBounds {
  const count = sizeOf(shape);
  if (bytes.length !== 4 * count)
    throw new StemmaError(
      "TENSOR_SIZE_MISMATCH",
      `A float32 tensor [${shape.join(", ")}] has ${4 * count} bytes, ${bytes.length} were read. Check the store with \`stemma storage check\`.`,
      { expected: 4 * count, actual: bytes.length },
    );
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const mid = new Float64Array(count);
  const radius = new Float64Array(count);
  const unknown = planes >= allPlanes ? 0 : 2 ** (8 * (allPlanes - planes)) - 1;
  let finite = true;
  for (let i = 0; i < count; i++) {
    const word = view.getUint32(4 * i, true);
    const least = word & 0x7fffffff & ~unknown;
    const most = least | unknown;
    if (most >= 0x7f800000) {
      mid[i] = NaN;
      radius[i] = NaN;
      finite = false;
      continue;
    }
    // Two float32 at most a factor 2⁸ apart with 24 bits each: sum, difference and their halves are exact in
    // float64.
    const low = magnitudeOf(least);
    const high = magnitudeOf(most);
    const middle = (low + high) / 2;
    mid[i] = word >>> 31 === 1 ? -middle : middle;
    radius[i] = (high - low) / 2;
  }
  return { shape, mid, radius, finite };
}

const word = new Uint32Array(1);
const float = new Float32Array(word.buffer);
/** Of a float32 without its sign, by its bits; finite ones only. */
function magnitudeOf(bits: number): number {
  word[0] = bits;
  return float[0]!;
}
