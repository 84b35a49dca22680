/** Says in words how a tensor follows from another one. Pure. */
import type { Tensor } from "../../tensor/tensor.js";
import { derive } from "./derivation.js";
import { findDerivation } from "./find.js";
import type { PositionRun, TakenPositions } from "./positions.js";

/** Ranges that are listed; more are counted. */
const maxRanges = 3;

/** How `child` follows from `base`, such as "a cast to BF16"; undefined where that was not found. */
export function describeRelation(child: Tensor, base: Tensor): string | undefined {
  const found = findDerivation(child, [base]);
  if (found === undefined) return undefined;
  const { axes, taken, octaves } = found;
  const parts = [
    ...(axes === undefined ? [] : [`transposed, axes [${axes.join(", ")}]`]),
    ...(taken === undefined ? [] : [describeTaken(taken, child.shape)]),
    ...(octaves === undefined ? [] : [`scaled by 2^${octaves}`]),
    ...(child.dtype === base.dtype ? [] : [`a cast to ${child.dtype}`]),
  ];
  const isExact = taken !== undefined || Buffer.compare(derive([base], found).bytes, child.bytes) === 0;
  return `${isExact ? "" : "mostly "}${parts.join(", ")}`;
}

function describeTaken({ axis, runs }: TakenPositions, shape: readonly number[]): string {
  const word = wordFor(axis, shape, 2);
  const fresh: string[] = [];
  let position = 0;
  let isInPlace = true;
  for (const { from, length } of runs) {
    if (from < 0) fresh.push(rangeOf(position, length));
    else isInPlace &&= from === position;
    position += length;
  }
  const known = runs.filter(({ from }) => from >= 0);
  const isOne = runs.every(({ from, length }) => from >= 0 || length === 1) && fresh.length === 1;
  const own = isOne ? wordFor(axis, shape, 1) : word;
  const added = fresh.length === 0 ? "" : `${own} ${listed(fresh)} ${isOne ? "is" : "are"} new`;
  // Nothing is said of positions that stay where they were.
  const others = isInPlace && fresh.length > 0 ? "" : describeKnown(known, word);
  return [others, added].filter((part) => part !== "").join(", ");
}

function wordFor(axis: number, shape: readonly number[], count: number): string {
  const ending = count === 1 ? "" : "s";
  if (axis === 0) return `row${ending}`;
  return axis === shape.length - 1 ? `column${ending}` : `position${ending} of axis ${axis}`;
}

function describeKnown(known: readonly PositionRun[], word: string): string {
  const isRising = known.every(({ from }, i) => i === 0 || from > known[i - 1]!.from);
  if (!isRising) return `its ${word} in another order`;
  return `its ${word} ${listed(known.map(({ from, length }) => rangeOf(from, length)))}`;
}

function rangeOf(from: number, length: number): string {
  const number = (value: number): string => value.toLocaleString("en-US");
  return length === 1 ? number(from) : `${number(from)} to ${number(from + length - 1)}`;
}

function listed(ranges: readonly string[]): string {
  const more = ranges.length - maxRanges;
  return ranges.slice(0, maxRanges).join(", ") + (more > 0 ? ` and ${more} more ranges` : "");
}
