/** Groups of numbers that have one scale: all of a tensor, the positions of an axis, or runs of a length. Pure. */

/** `all`: one group; by `axis`: one for each of its positions; by `size`: one for so many numbers in a row. */
export type Grouping = "all" | { readonly axis: number } | { readonly size: number };

/** The order of groups: run r of `length` numbers belongs to group r modulo `count`. */
export interface GroupRuns {
  readonly count: number;
  readonly length: number;
}

/** Returns the runs of groups; undefined where the shape has no such groups. */
export function groupRuns(shape: readonly number[], grouping: Grouping): GroupRuns | undefined {
  const numbers = shape.reduce((product, size) => product * size, 1);
  if (numbers === 0) return undefined;
  if (grouping === "all") return { count: 1, length: numbers };
  if ("size" in grouping)
    return grouping.size >= 1 && numbers % grouping.size === 0
      ? { count: numbers / grouping.size, length: grouping.size }
      : undefined;
  const count = shape[grouping.axis];
  if (count === undefined) return undefined;
  return { count, length: shape.slice(grouping.axis + 1).reduce((product, size) => product * size, 1) };
}
