/**
 * Bounds of weights from fixed planes: the midpoint and radius of the interval that a weight's exponent and
 * its first planes leave. Does not know the store or layers.
 */
import { fixedPlaneCount, type FixedLevels } from "../../../shared/delta/fixed-planes.js";
import { sizeOf } from "./bounds.js";
import type { WeightBounds } from "./weight-bounds.js";

/** Bounds of every weight from its known planes, 1 to 3. */
export function fixedBounds({ shape, exponents, planes }: FixedLevels): WeightBounds {
  const count = sizeOf(shape);
  const mid = new Float64Array(count);
  const radius = new Float64Array(count);
  const [first, second, third] = planes;
  // A magnitude counts steps of 2^(exponent − 149). The unknown planes hold its lowest bits. A multiplication
  // by a power of two is exact.
  const steps = Float64Array.from(
    exponents,
    (exponent) => 2 ** (exponent - 149 + 8 * (fixedPlaneCount - planes.length)),
  );
  for (let i = 0; i < count; i++) {
    let top = first![i]! & 0x7f;
    if (second !== undefined) top = (top << 8) | second[i]!;
    if (third !== undefined) top = (top << 8) | third[i]!;
    const step = steps[i % steps.length]!;
    const middle = (top + 0.5) * step;
    mid[i] = first![i]! >= 128 ? -middle : middle;
    radius[i] = step / 2;
  }
  return { shape, mid, radius, allFinite: true };
}
