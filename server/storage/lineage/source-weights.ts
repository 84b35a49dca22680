/**
 * Ranks models that a new one can inherit from by weights of three shares: of the common prefix, of quality, and of
 * age. Pure. Without weights the longest prefix counts first, then quality, then age (prefix-index.ts).
 */
import type { PrefixCandidate, PrefixMatch } from "./prefix-index.js";

/** None negative. */
export interface SourceWeights {
  readonly prefix: number;
  readonly quality: number;
  readonly age: number;
}

const parts = ["prefix", "quality", "age"] as const;
/** @param text such as prefix=1,quality=0.5; what is not named has no weight */
export function readSourceWeights(text: string): SourceWeights {
  const named = new Map(text.split(",").map((part) => part.split("=") as [string, string]));
  const [prefix, quality, age] = parts.map((part) => Number(named.get(part) ?? 0)) as [
    number,
    number,
    number,
  ];
  return { prefix, quality, age };
}

/**
 * The best model: each share is 0 to 1. Prefix: the part of the asked layers that both have. Quality: 1 for the highest
 * among these models, 0 for the lowest and for none. Age: 1 for the newest, 0 for the oldest.
 * @param matches models with at least one layer in common
 */
export function bestSource(
  matches: readonly PrefixMatch[],
  asked: number,
  weights: SourceWeights,
): PrefixMatch | undefined {
  const qualityOf = shareOf(matches.flatMap(({ model: { quality } }) => quality ?? []));
  const ageOf = shareOf(matches.map(({ model }) => model.savedAtMs));
  const scoreOf = ({ model, layers }: PrefixMatch): number =>
    (weights.prefix * layers) / asked +
    weights.quality * (model.quality === undefined ? 0 : qualityOf(model.quality)) +
    weights.age * ageOf(model.savedAtMs);
  return matches
    .map((match) => ({ match, score: scoreOf(match) }))
    .reduce<{ readonly match: PrefixMatch; readonly score: number } | undefined>(
      (best, each) =>
        best === undefined ||
        each.score > best.score ||
        (each.score === best.score && isBefore(each.match, best.match))
          ? each
          : best,
      undefined,
    )?.match;
}

/** Returns how far a value is from the lowest to the highest, 0 to 1; 1 where all are equal. */
function shareOf(values: readonly number[]): (value: number) => number {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return (value) => (high > low ? (value - low) / (high - low) : 1);
}

/** Orders models of equal scores: more layers, then as candidates are compared. */
function isBefore(a: PrefixMatch, b: PrefixMatch): boolean {
  const grade = ({ quality = -Infinity }: PrefixCandidate): number => quality;
  if (a.layers !== b.layers) return a.layers > b.layers;
  if (grade(a.model) !== grade(b.model)) return grade(a.model) > grade(b.model);
  if (a.model.savedAtMs !== b.model.savedAtMs) return a.model.savedAtMs > b.model.savedAtMs;
  return a.model.id < b.model.id;
}
