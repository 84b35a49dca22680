/** Says in which settings data differ from those that a record describes. Pure. */
import { encodeCanonical } from "../../../shared/model/canonical-json.js";
import { canonicalOf } from "../../../shared/provenance/make-provenance.js";
import type { DataDescription } from "../../../shared/provenance/provenance.js";
import { describedMembers } from "../../../shared/provenance/training-provenance.js";

/** Data as a reader found them. */
export interface FoundData {
  readonly reader: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly parts: Readonly<Record<string, number>>;
  /** The reader's description of the samples. */
  readonly description: Readonly<Record<string, unknown>>;
}

/** A reader's setting, or what follows from it, with both values as text. */
export interface DataDifference {
  /** `reader`, `parameters.splitSeed`, `columns.age.scale`, `split.seed`, `samples.train`. */
  readonly setting: string;
  readonly found: string;
  readonly recorded: string;
}

/** Longest text of a value, and the most differences that are told. */
const maxText = 80;
const maxDifferences = 20;

export function isSameJson(a: unknown, b: unknown): boolean {
  if (a === undefined || b === undefined) return a === b;
  return Buffer.from(encodeCanonical(canonicalOf(a))).equals(encodeCanonical(canonicalOf(b)));
}

/** Empty where all that is described is equal. */
export function differencesOf(recorded: DataDescription, found: FoundData): readonly DataDifference[] {
  const differences: DataDifference[] = [];
  const compare = (setting: string, now: unknown, before: unknown): void => {
    if (isSameJson(now, before) || differences.length === maxDifferences) return;
    const both = [membersOf(now), membersOf(before)] as const;
    const [these, those] = both;
    if (these === undefined || those === undefined)
      differences.push({ setting, found: textOf(now), recorded: textOf(before) });
    else
      for (const name of new Set([...Object.keys(these), ...Object.keys(those)]))
        compare(`${setting}.${name}`, these[name], those[name]);
  };
  compare("reader", found.reader, recorded.reader);
  compare("parameters", found.parameters, recorded.parameters ?? {});
  for (const member of describedMembers) compare(member, found.description[member], recorded[member]);
  if (recorded.samples !== undefined) compare("samples", found.parts, recorded.samples);
  return differences;
}

/** "splitSeed 7 (recorded: 5), samples.train 90 (recorded: 120)". */
export function differencesText(differences: readonly DataDifference[]): string {
  return differences
    .map(({ setting, found, recorded }) => `${setting} ${found} (recorded: ${recorded})`)
    .join(", ");
}

/** The members of an object, or of a list of named columns by their names. */
function membersOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  if (!Array.isArray(value)) return value as Readonly<Record<string, unknown>>;
  const list = value as readonly unknown[];
  const named = list.map((each) => (each as { readonly name?: unknown } | null)?.name);
  return named.every((name) => typeof name === "string") && new Set(named).size === named.length
    ? Object.fromEntries(list.map((each, at) => [named[at] as string, each]))
    : undefined;
}

function textOf(value: unknown): string {
  if (value === undefined) return "absent";
  const text =
    typeof value === "string"
      ? value
      : (JSON.stringify(value, (_, each: unknown): unknown =>
          typeof each === "bigint" ? Number(each) : each,
        ) ?? "");
  return text.length > maxText ? `${text.slice(0, maxText)}…` : text;
}
