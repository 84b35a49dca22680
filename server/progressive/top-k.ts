/**
 * The k classes with the largest outputs: of a full-precision answer, and as far as bounds decide it. Decided
 * is a set where each of its members certainly exceeds every other class (ModelHub §IV-D: the k-th lower
 * bound above the (k+1)-th upper bound); ties and NaN are not.
 */
import { hasAnything } from "./bounds.js";
import { firstOrderLead, minLead, type IntervalNetwork, type Passage } from "./interval-network.js";

export interface TopK {
  /** Classes, the largest first where `ordered`, else by number. */
  readonly classes: readonly number[];
  readonly ordered: boolean;
}

/**
 * Of outputs that are known: the largest first, of equals the first. Undefined where one is NaN: then there
 * is none.
 */
export function topOf(outputs: ArrayLike<number>, k: number): TopK | undefined {
  const all = Array.from(outputs);
  if (all.some(Number.isNaN)) return undefined;
  const classes = all
    .map((_, index) => index)
    .sort((a, b) => (all[a]! === all[b]! ? a - b : all[a]! > all[b]! ? -1 : 1))
    .slice(0, k);
  return { classes, ordered: true };
}

/**
 * Whether a decided answer agrees with the full one: the same set, and the same order where it claims one.
 */
export function agrees(decided: TopK, full: TopK | undefined): boolean {
  if (full === undefined || decided.classes.length !== full.classes.length) return false;
  const members = new Set(full.classes);
  return decided.classes.every((each, i) => (decided.ordered ? each === full.classes[i] : members.has(each)));
}

/**
 * Softmax in float32 keeps a lead: with logits x, y ≤ m (the largest) and x − y ≥ 2⁻¹⁴, x ≥ m − 70, the
 * exponentials err by less than 2⁻¹⁶ of themselves, e^(x − m) is far above the smallest float32, and 2⁻¹⁴
 * exceeds both errors.
 */
const softmaxLead = 2 ** -14;
const softmaxReach = 70;
/** More pairs than this that bounds leave open are not worth going back for. */
const mostPairs = 100;

/**
 * Asks again with narrow layers tightened where that may help. @param tightened the passage with tighter
 * bounds, made once for all questions of a sample
 * @returns undefined where bounds leave it open
 */
export function decideTop(
  network: IntervalNetwork,
  passage: Passage,
  k: number,
  tightened?: () => Passage,
): TopK | undefined {
  const decided = decideBy(network, passage, k);
  if (decided !== undefined || tightened === undefined || !isPromising(network, passage, k)) return decided;
  const tighter = tightened();
  return tighter === passage ? undefined : decideBy(network, tighter, k);
}

/**
 * Tightening was seen to help where bounds miss the lead by no more than a few times what first-order errors
 * leave of it.
 */
const mostMissed = 6;

/** Whether tighter bounds may decide the hardest pair: the last class inside against the first outside. */
function isPromising(network: IntervalNetwork, passage: Passage, k: number): boolean {
  const { out } = passage[network.ranking]!;
  const { low, high } = out;
  if (k >= low.length || hasAnything(out)) return false;
  const order = Array.from(low, (_, i) => i).sort((a, b) => low[b]! + high[b]! - low[a]! - high[a]!);
  const [last, next] = [order[k - 1]!, order[k]!];
  return low[last]! - high[next]! > -mostMissed * firstOrderLead(network, passage, last, next);
}

function decideBy(network: IntervalNetwork, passage: Passage, k: number): TopK | undefined {
  const { low, high } = passage[network.ranking]!.out;
  const n = low.length;
  if (hasAnything(passage[network.ranking]!.out)) return undefined;
  const order = Array.from(low, (_, i) => i).sort((a, b) => low[b]! + high[b]! - low[a]! - high[a]! || a - b);
  const inside = order.slice(0, k);
  const outside = order.slice(k);
  const lead = network.isSoftmaxed ? softmaxLead : 0;
  const highest = high.reduce((most, each) => Math.max(most, each), -Infinity);
  if (network.isSoftmaxed && n > k && inside.some((i) => low[i]! < highest - softmaxReach)) return undefined;
  const exceeds = (i: number, j: number): boolean => low[i]! - high[j]! > lead;
  const open = inside.flatMap((i) => outside.filter((j) => !exceeds(i, j)).map((j) => [i, j] as const));
  // The hardest pair first: where it stays open, the rest need not be asked.
  open.sort(([i, j], [a, b]) => low[i]! - high[j]! - (low[a]! - high[b]!));
  const leads = (i: number, j: number): boolean =>
    minLead(network, passage, network.ranking, i, j, lead) > lead;
  if (open.length > mostPairs || !open.every(([i, j]) => leads(i, j))) return undefined;
  const ordered = inside.every(
    (each, at) => at === 0 || exceeds(inside[at - 1]!, each) || (k <= 5 && leads(inside[at - 1]!, each)),
  );
  return {
    classes: ordered ? inside : [...inside].sort((a, b) => a - b),
    ordered: ordered && !(network.isSoftmaxed && n <= k),
  };
}
