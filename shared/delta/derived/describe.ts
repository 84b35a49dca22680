/** Says in words how a tensor follows from another one. Pure. */
import type { Tensor } from "../../tensor/tensor.js";
import type { Weighting } from "./average.js";
import { deriveFound, findDerivation } from "./find.js";
import { isFloat8 } from "./float8.js";
import type { Grouping } from "./groups.js";
import { knownPart, type PositionRun, type TakenPositions } from "./positions.js";
import { codesPerByte, groupsOf, type Quantisation } from "./quantisation.js";

/** Ranges that are listed; more are counted. */
const maxRanges = 3;

/**
 * Describes how `child` follows from tensors, such as "a cast to BF16"; undefined where that was not found.
 * @param references what it may follow from: the first, or an average of several
 */
export function describeRelation(child: Tensor, references: readonly Tensor[]): string | undefined {
  const found = findDerivation(child, references);
  const [base] = references;
  if (found === undefined || base === undefined) return undefined;
  const { averaged, weighting, axes, taken, octaves, quantisation, blocks } = found.derivation;
  const isCast = quantisation === undefined && blocks === undefined && child.dtype !== base.dtype;
  const parts = [
    ...(averaged === 1 ? [] : [describeAverage(averaged, weighting)]),
    ...(axes === undefined ? [] : [`transposed, axes [${axes.join(", ")}]`]),
    ...(taken === undefined ? [] : [describeTaken(taken, child.shape)]),
    ...(octaves === undefined ? [] : [`scaled by 2^${octaves}`]),
    ...(quantisation === undefined ? [] : [describeQuantisation(quantisation, child, base)]),
    ...(blocks === undefined
      ? []
      : [child.dtype === "U8" ? `quantised to GGUF ${blocks} blocks` : `floats of GGUF ${blocks} blocks`]),
    ...(isCast ? [`a cast to ${child.dtype}`] : []),
  ];
  const isExact =
    Buffer.compare(deriveFound(references, found, child).bytes, knownPart(child, taken).bytes) === 0;
  return `${isExact ? "" : "mostly "}${parts.join(", ")}`;
}

function describeAverage(averaged: number, weighting: Weighting | undefined): string {
  const counts = weighting?.counts ?? [];
  if (weighting === undefined || counts.every((count) => count === counts[0]))
    return `the average of ${averaged} models`;
  const shares = counts.map((count) => Number((count / weighting.total).toPrecision(4)));
  return `the average of ${averaged} models, weighted ${shares.join(", ")}`;
}

/** Describes a quantisation, such as "quantised to int4, 64 scales, one for 32 numbers". */
function describeQuantisation(quantisation: Quantisation, child: Tensor, base: Tensor): string {
  const { toCodes, grouping, isSigned } = quantisation;
  const [floats, codes] = toCodes ? [base, child] : [child, base];
  const bits = 8 / codesPerByte(quantisation);
  const type = isFloat8(codes.dtype) ? codes.dtype : `${isSigned ? "int" : "uint"}${bits}`;
  const scales = describeScales(grouping, quantisation, floats);
  return toCodes ? `quantised to ${type}, ${scales}` : `floats of ${type}, ${scales}`;
}

function describeScales(grouping: Grouping, quantisation: Quantisation, { shape }: Tensor): string {
  if (grouping === "all") return "one scale";
  const count = (groupsOf(shape, quantisation)?.count ?? 0).toLocaleString("en-US");
  if ("axis" in grouping) return `${count} scales, one for each ${wordFor(grouping.axis, shape, 1)}`;
  return `${count} scales, one for ${grouping.size} numbers`;
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
  // Positions that stay where they were are not described.
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
