/**
 * Compares two provenances, as MERIT states their differences (ME11). Only members that differ are listed,
 * recursing where both sides have an object; a difference has the values of both sides under their labels, or
 * of the one side that has it. Pure.
 */
import type { CanonicalValue } from "../model/canonical-json.js";
import type { Environment } from "../model/environment.js";
import { shortOf } from "./encode-provenance.js";
import type { OpenedProvenance } from "./openings.js";

/** The stand-in for the value of a redacted member. */
export interface Redacted {
  /** The commitment, as base64url. */
  readonly redacted: string;
}

/** All members of a provenance; those that cannot be seen are `Redacted`. */
export type ProvenanceView = Readonly<Record<string, CanonicalValue | Redacted>>;

export type ProvenanceDifference = { readonly [member: string]: ProvenanceDifference | CanonicalValue };

export interface ProvenanceDiff {
  /** Empty where nothing differs. */
  readonly differences: ProvenanceDifference;
  /** Committed members of which one side at least is redacted, and that may differ. */
  readonly redacted: readonly string[];
  /** True if both tell the same story: only times differ, and nothing that could differ is hidden. */
  readonly sameStory: boolean;
}

export interface DiffLabels {
  readonly a: string;
  readonly b: string;
}
/** MERIT's labels, of a model and its replay. */
const replayLabels: DiffLabels = { a: "original", b: "reproduced" };

export interface DiffOptions {
  readonly labels?: DiffLabels;
  /** The environments of both, whose fields are then compared in the place of their hashes. */
  readonly environments?: readonly [Environment, Environment] | undefined;
}

export function viewOf({ provenance, openings }: OpenedProvenance): ProvenanceView {
  const { engine, recipe, exactness, bases, data, environment, committed } = provenance;
  return {
    ...(engine === undefined ? {} : { engine }),
    ...(recipe === undefined ? {} : { recipe: { ...recipe } }),
    exactness,
    bases: [...bases],
    dataHashes: [...data],
    environment,
    ...Object.fromEntries(
      Object.entries(committed).map(([name, commitment]) => [
        name,
        Object.hasOwn(openings, name) && openings[name] !== undefined
          ? openings[name].value
          : { redacted: shortOf(commitment) },
      ]),
    ),
  };
}

export function diffProvenance(
  a: OpenedProvenance,
  b: OpenedProvenance,
  { labels = replayLabels, environments }: DiffOptions = {},
): ProvenanceDiff {
  const [viewA, viewB] = [
    { ...viewOf(a), ...(environments && { environment: { ...environments[0] } }) },
    { ...viewOf(b), ...(environments && { environment: { ...environments[1] } }) },
  ];
  const redacted: string[] = [];
  const differences: Record<string, ProvenanceDifference | CanonicalValue> = {};
  const [committedA, committedB] = [a.provenance.committed, b.provenance.committed];
  for (const name of new Set([...Object.keys(viewA), ...Object.keys(viewB)])) {
    // Equal commitments have equal values, whether they are open or not.
    if (Object.hasOwn(committedA, name) && committedA[name] === committedB[name]) continue;
    if ([[a, viewA] as const, [b, viewB] as const].some(([side]) => isRedacted(side, name))) {
      redacted.push(name);
      differences[name] = pair(memberOf(viewA, name), memberOf(viewB, name), labels);
      continue;
    }
    const difference = differenceOf(memberOf(viewA, name), memberOf(viewB, name), labels);
    if (difference !== undefined) differences[name] = difference;
  }
  return {
    differences,
    redacted,
    sameStory: Object.keys(differences).every((name) => name === "times" && !redacted.includes(name)),
  };
}

function isRedacted({ provenance, openings }: OpenedProvenance, name: string): boolean {
  return Object.hasOwn(provenance.committed, name) && !Object.hasOwn(openings, name);
}

function memberOf(view: ProvenanceView, name: string): CanonicalValue | undefined {
  return Object.hasOwn(view, name) ? (view[name] as CanonicalValue) : undefined;
}

/** Returns the difference; undefined where both are equal. */
function differenceOf(
  a: CanonicalValue | undefined,
  b: CanonicalValue | undefined,
  labels: DiffLabels,
): ProvenanceDifference | undefined {
  if (!isObject(a) || !isObject(b)) return isEqual(a, b) ? undefined : pair(a, b, labels);
  const differences: Record<string, ProvenanceDifference> = {};
  for (const name of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const difference = differenceOf(ownOf(a, name), ownOf(b, name), labels);
    if (difference !== undefined)
      Object.defineProperty(differences, name, { value: difference, enumerable: true });
  }
  return Object.keys(differences).length === 0 ? undefined : differences;
}

function pair(
  a: CanonicalValue | undefined,
  b: CanonicalValue | undefined,
  labels: DiffLabels,
): ProvenanceDifference {
  return {
    ...(a === undefined ? {} : { [labels.a]: a }),
    ...(b === undefined ? {} : { [labels.b]: b }),
  };
}

type CanonicalObject = Readonly<Record<string, CanonicalValue | undefined>>;

function isObject(value: CanonicalValue | undefined): value is CanonicalObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function ownOf(value: CanonicalObject, name: string): CanonicalValue | undefined {
  return Object.hasOwn(value, name) ? value[name] : undefined;
}

/** Numbers by their bits, so that NaN equals NaN, and 0 is not −0. */
function isEqual(a: CanonicalValue | undefined, b: CanonicalValue | undefined): boolean {
  if (Array.isArray(a) && Array.isArray(b)) {
    const [listA, listB] = [a as readonly CanonicalValue[], b as readonly CanonicalValue[]];
    return listA.length === listB.length && listA.every((item, index) => isEqual(item, listB[index]));
  }
  if (isObject(a) && isObject(b)) {
    const names = Object.keys(a);
    return (
      names.length === Object.keys(b).length &&
      names.every((name) => Object.hasOwn(b, name) && isEqual(a[name], b[name]))
    );
  }
  return Object.is(a, b);
}
