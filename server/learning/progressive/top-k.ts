/**
 * The k classes with the largest outputs, from full-precision outputs or from bounds of them. Bounds decide a
 * set where each of its members certainly exceeds every other class (ModelHub §IV-D: the k-th lower bound is
 * above the (k+1)-th upper bound). They never decide ties and NaN.
 */
import { hasUnknown, type Bounds } from "./bounds.js";
import { firstOrderMargin, minMargin, type IntervalNetwork, type Propagation } from "./interval-network.js";

export interface TopK {
  /** Classes: the largest output first where `isOrdered`, otherwise by class number. */
  readonly classes: readonly number[];
  readonly isOrdered: boolean;
}

/**
 * The k largest of known outputs, the largest first; of equal outputs the lower class first. Undefined where
 * an output is NaN.
 */
export function topKOf(outputs: ArrayLike<number>, k: number): TopK | undefined {
  const all = Array.from(outputs);
  if (all.some(Number.isNaN)) return undefined;
  const classes = all
    .map((_, index) => index)
    .sort((a, b) => (all[a]! === all[b]! ? a - b : all[a]! > all[b]! ? -1 : 1))
    .slice(0, k);
  return { classes, isOrdered: true };
}

/**
 * True if a decided answer agrees with the full-precision one: the same set, and the same order where the
 * decided answer is ordered.
 */
export function agreesWithFull(decided: TopK, full: TopK | undefined): boolean {
  if (full === undefined || decided.classes.length !== full.classes.length) return false;
  const members = new Set(full.classes);
  return decided.classes.every((each, i) =>
    decided.isOrdered ? each === full.classes[i] : members.has(each),
  );
}

/**
 * A softmax in float32 keeps the order of two logits x and y at most m (the largest) with x − y ≥ 2⁻¹⁴ and
 * x ≥ m − 70: the exponentials err by less than 2⁻¹⁶ of themselves, e^(x − m) is far above the smallest
 * float32, and 2⁻¹⁴ exceeds both errors.
 */
const softmaxMargin = 2 ** -14;
const softmaxRange = 70;
/** The largest number of undecided pairs of classes for which backward passes are worth their time. */
const maxOpenPairs = 100;
/** Backward passes also decide the order of the k classes where k is at most this. */
const maxOrderedByMargin = 5;

/**
 * Decides the k largest outputs by bounds, and again with narrow layers tightened where that may help.
 *
 * @param tightened returns the propagation with tighter bounds; computed once for all questions of a sample
 * @returns undefined where the bounds leave the answer open
 */
export function decideTopK(
  network: IntervalNetwork,
  propagation: Propagation,
  k: number,
  tightened?: () => Propagation,
): TopK | undefined {
  const decided = decideByBounds(network, propagation, k);
  if (decided !== undefined || tightened === undefined) return decided;
  if (!isPromising(network, propagation, k)) return undefined;
  const tighter = tightened();
  return tighter === propagation ? undefined : decideByBounds(network, tighter, k);
}

/**
 * Tightening is tried where the bounds miss the margin by at most this many times the first-order margin.
 * Measurements showed that it helps only up to a few times.
 */
const maxMissFactor = 6;

/** True if tighter bounds may decide the hardest pair: the last class inside against the first outside. */
function isPromising(network: IntervalNetwork, propagation: Propagation, k: number): boolean {
  const { out } = propagation[network.ranking]!;
  const { low, high } = out;
  if (k >= low.length || hasUnknown(out)) return false;
  const order = classesByMidpoint(out);
  const last = order[k - 1]!;
  const next = order[k]!;
  return low[last]! - high[next]! > -maxMissFactor * firstOrderMargin(network, propagation, last, next);
}

/** Classes by the midpoints of their bounds, the largest first. */
function classesByMidpoint({ low, high }: Bounds): number[] {
  return Array.from(low, (_, i) => i).sort((a, b) => low[b]! + high[b]! - low[a]! - high[a]! || a - b);
}

function decideByBounds(network: IntervalNetwork, propagation: Propagation, k: number): TopK | undefined {
  const { out } = propagation[network.ranking]!;
  const { low, high } = out;
  if (hasUnknown(out)) return undefined;
  const order = classesByMidpoint(out);
  const inside = order.slice(0, k);
  const outside = order.slice(k);
  const isEveryClass = outside.length === 0;
  const required = network.endsInSoftmax ? softmaxMargin : 0;
  const highest = high.reduce((max, each) => Math.max(max, each), -Infinity);
  if (network.endsInSoftmax && !isEveryClass && inside.some((i) => low[i]! < highest - softmaxRange))
    return undefined;
  const exceedsByBounds = (i: number, j: number): boolean => low[i]! - high[j]! > required;
  const exceedsByMargin = (i: number, j: number): boolean => {
    const margin = { step: network.ranking, first: i, second: j };
    return minMargin(network, propagation, margin, required) > required;
  };
  const open = inside.flatMap((i) =>
    outside.filter((j) => !exceedsByBounds(i, j)).map((j) => [i, j] as const),
  );
  // The hardest pair first: where it stays open, the others need no backward pass.
  open.sort(([i, j], [a, b]) => low[i]! - high[j]! - (low[a]! - high[b]!));
  if (open.length > maxOpenPairs || !open.every(([i, j]) => exceedsByMargin(i, j))) return undefined;
  const exceedsNext = (i: number, next: number): boolean =>
    exceedsByBounds(i, next) || (k <= maxOrderedByMargin && exceedsByMargin(i, next));
  const isOrderKnown = inside.every((each, i) => i === 0 || exceedsNext(inside[i - 1]!, each));
  return {
    classes: isOrderKnown ? inside : [...inside].sort((a, b) => a - b),
    isOrdered: isOrderKnown && !(network.endsInSoftmax && isEveryClass),
  };
}
