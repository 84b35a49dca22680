/**
 * Reads from a version's provenance what computing an average again needs. Where something lacks, the reason is typed.
 * Pure.
 */
import { averageArithmetic, type AverageRule } from "../../../shared/average/average-numbers.js";
import { isAverageStory, readAverageRule } from "../../../shared/average/average-record.js";
import { valueOf, type OpenedProvenance } from "../../../shared/provenance/openings.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { Unreplayable, UnreplayableReason } from "./story.js";

export interface AverageStory {
  readonly rule: AverageRule;
  /** The version ids, in the order of the sums. */
  readonly bases: readonly Hash[];
}

export type ReadAverageStory =
  | { readonly story: AverageStory; readonly opened: OpenedProvenance; readonly unreplayable?: never }
  | { readonly unreplayable: Unreplayable };

/** @returns undefined where the version is not an average */
export function averageStoryOf(opened: OpenedProvenance | undefined): ReadAverageStory | undefined {
  if (opened === undefined || !isAverageStory(opened)) return undefined;
  const cannot = (reason: UnreplayableReason, text: string): ReadAverageStory => ({
    unreplayable: { reason, text },
  });
  const value = valueOf(opened, "average");
  if (value === undefined)
    return cannot("redacted", "its rule was redacted, so nobody can compute the average again.");
  const { bases } = opened.provenance;
  const rule = readAverageRule(value, bases.length);
  const isOrdered = bases.every((base, i) => i === 0 || (bases[i - 1] ?? "") < base);
  if (rule === undefined || !isOrdered)
    return cannot(
      "unsupported",
      `what it states of its average has a form that this release (arithmetic ${averageArithmetic}) does not compute.`,
    );
  return { opened, story: { rule, bases } };
}
