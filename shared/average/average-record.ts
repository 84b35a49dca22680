/**
 * Reads the statement of a version's provenance on the average that it is (member `average`), which may be hostile. Its
 * bases are those of the provenance.
 */
import type { CanonicalValue } from "../model/canonical-json.js";
import type { OpenedProvenance } from "../provenance/openings.js";
import type { AverageRecord } from "../provenance/provenance.js";
import { objectId } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { averageArithmetic, type AverageRule } from "./average-numbers.js";

/** Bases that a record can name. */
export const maxAveraged = 64;

/** The place of an engine's id in a replay's verdict: it names this arithmetic, and nothing that is stored. */
export const averageArithmeticId: Hash = objectId(
  "engine",
  new TextEncoder().encode(`stemma average ${averageArithmetic}`),
);

/** True if the version is an average of its bases, which no training made. */
export function isAverageStory({ provenance: { engine, committed } }: OpenedProvenance): boolean {
  return engine === undefined && Object.hasOwn(committed, "average");
}

/** The rule of a record for so many bases; undefined where it is malformed, or of another arithmetic. */
export function readAverageRule(value: CanonicalValue | undefined, bases: number): AverageRule | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value) || bases < 2) return undefined;
  const { arithmetic, rule, weights, trimmedEach } = value as Readonly<Record<string, CanonicalValue>>;
  if (arithmetic !== averageArithmetic) return undefined;
  if (rule === "mean") return { rule };
  if (rule === "weighted" && Array.isArray(weights) && weights.length === bases)
    return weights.every(isWeight) ? { rule, weights } : undefined;
  if (rule === "trimmed" && isTrimmed(trimmedEach, bases)) return { rule, trimmedEach };
  return undefined;
}

/** True for weights that float64 can sum up without losing any. */
export function isWeight(value: unknown): value is number {
  return typeof value === "number" && value >= 2 ** -20 && value <= 2 ** 53;
}

function isTrimmed(value: unknown, bases: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1 && 2 * (value as number) < bases;
}

/** The statement on an average for a version's provenance. */
export function averageRecord(rule: AverageRule, stated: Pick<AverageRecord, "chosen"> = {}): AverageRecord {
  return { arithmetic: averageArithmetic, ...rule, ...stated };
}
