/** Which matrices a tensor's numbers can be read as, for a low-rank prediction. Pure. */
import type { MatrixSize } from "./factors.js";

/** A tensor as a matrix: the first `split` dimensions give the row, the others the column. */
export interface Unfolding extends MatrixSize {
  readonly split: number;
}

/** Smaller matrices have no structure that pays for its factors. */
const minSide = 4;
const minNumbers = 1024;
/** Sides longer than this are not worth their memory. */
const maxSide = 2 ** 20;
const maxUnfoldings = 2;

/** @throws RangeError never; undefined where `split` does not cut the shape in two */
export function unfold(shape: readonly number[], split: number): Unfolding | undefined {
  if (split < 1 || split >= shape.length) return undefined;
  const product = (sizes: readonly number[]): number => sizes.reduce((all, size) => all * size, 1);
  return { split, rows: product(shape.slice(0, split)), columns: product(shape.slice(split)) };
}

/** The unfoldings worth trying, the one with the fewest rows and columns first. */
export function unfoldings(shape: readonly number[]): readonly Unfolding[] {
  const all: Unfolding[] = [];
  for (let split = 1; split < shape.length; split++) {
    const found = unfold(shape, split);
    if (
      found !== undefined &&
      Math.min(found.rows, found.columns) >= minSide &&
      Math.max(found.rows, found.columns) <= maxSide &&
      found.rows * found.columns >= minNumbers
    )
      all.push(found);
  }
  const sides = ({ rows, columns }: Unfolding): number => rows + columns;
  return all.sort((a, b) => sides(a) - sides(b)).slice(0, maxUnfoldings);
}
