/** The reach of float32, the type of all numbers of a sample: what lies outside would train as another one. Pure. */

/** The largest number, and the smallest above 0 that keeps all its digits. */
const [largest, smallest] = [3.4028234663852886e38, 1.1754943508222875e-38];

/** Returns why a number cannot be one of a sample, for a message; undefined where it can. */
export function outOfReach(number: number): string | undefined {
  if (!Number.isFinite(Math.fround(number)))
    return `is beyond ±${largest.toPrecision(3)}, which float32 ends at`;
  if (number !== 0 && Math.abs(number) < smallest)
    return `is nearer to 0 than ${smallest.toPrecision(3)}, where float32 loses digits`;
  return undefined;
}

/** Whole numbers up to this one differ as float32. */
const exactWhole = 16_777_216;

/**
 * Counts the large numbers that differ, and those that still do as float32. A column whose numbers become equal, as
 * times in milliseconds do, would tell a model nothing. Smaller ones are not counted: their last digits are noise.
 */
export function distinctOf(numbers: readonly number[]): { readonly before: number; readonly after: number } {
  const large = Float64Array.from(numbers.filter((number) => Math.abs(number) >= exactWhole)).sort();
  let [before, after] = [0, 0];
  large.forEach((number, index) => {
    const last = large[index - 1];
    if (number !== last) before++;
    if (last === undefined || Math.fround(number) !== Math.fround(last)) after++;
  });
  return { before, after };
}
