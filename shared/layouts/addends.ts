/**
 * Weights that are the sum of two tensors of the file: PyTorch's LSTM adds two biases where the architecture has one.
 * The sum is rounded to float32, so it does not tell what was added; both are kept with the layout. Pure.
 */

/** The bits of every sum that is not a number: what JavaScript writes for one is not the same everywhere. */
const notANumber = 0x7fc00000;

/** The sum of two F32 tensors, number by number, as float32. */
export function sumOf(one: Uint8Array, other: Uint8Array): Uint8Array {
  return combined(one, other, (a, b) => a + b);
}

/**
 * The addend that is not kept, for a weight that may have been trained since.
 * @param weight the sum as it is now
 * @param file the addend in the file
 * @param kept the other addend
 * @returns the file's number where the sum is still that of the file, else the weight less the kept one
 */
export function differenceOf(weight: Uint8Array, file: Uint8Array, kept: Uint8Array): Uint8Array {
  const result = combined(weight, kept, (sum, addend) => sum - addend);
  const before = sumOf(file, kept);
  for (let at = 0; at < result.length; at += 4)
    if (hasSameBits(before, weight, at)) result.set(file.subarray(at, at + 4), at);
  return result;
}

/** The numbers of which the sum of two tensors is not the weight, as rounding may have it. */
export function inexactSums(weight: Uint8Array, one: Uint8Array, other: Uint8Array): number {
  const sum = sumOf(one, other);
  let count = 0;
  for (let at = 0; at < weight.length; at += 4) if (!hasSameBits(sum, weight, at)) count++;
  return count;
}

function combined(one: Uint8Array, other: Uint8Array, compute: (a: number, b: number) => number): Uint8Array {
  const result = new Uint8Array(one.length);
  const [a, b, to] = [one, other, result].map(
    ({ buffer, byteOffset, byteLength }) => new DataView(buffer, byteOffset, byteLength),
  ) as [DataView, DataView, DataView];
  for (let at = 0; at < result.length; at += 4) {
    const value = compute(a.getFloat32(at, true), b.getFloat32(at, true));
    if (Number.isNaN(value)) to.setUint32(at, notANumber, true);
    else to.setFloat32(at, value, true);
  }
  return result;
}

function hasSameBits(one: Uint8Array, other: Uint8Array, at: number): boolean {
  for (let byte = at; byte < at + 4; byte++) if (one[byte] !== other[byte]) return false;
  return true;
}
