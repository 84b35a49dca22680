/**
 * Compares a replay's story with the recorded one: numbers drawn from the random streams, the course, the
 * samples. What a replay need not repeat is left out: times, machine, caller, notes, and where the data and
 * parameters came from. Pure.
 */
import { valueOf, type OpenedProvenance } from "../../../shared/provenance/openings.js";

/** The largest number of members that are named. */
const maxNamed = 20;

/**
 * Paths of the members that differ, such as `random.streams.shuffle`. A member that was redacted in the original is
 * not compared.
 */
export function differingMembers(original: OpenedProvenance, replayed: OpenedProvenance): readonly string[] {
  const found: string[] = [];
  for (const name of ["recipe", "parameters", "random", "state", "course", "samples"] as const) {
    const expected = comparable(original, name);
    if (expected !== undefined) collect(name, expected, comparable(replayed, name), found);
  }
  found.push(...differingDomains(original, replayed));
  return found.slice(0, maxNamed);
}

/**
 * The features and outputs that have other names or another number (ME6): equal samples with other names mean
 * something else. Data that were read in another form name nothing that could be compared.
 */
function differingDomains(original: OpenedProvenance, replayed: OpenedProvenance): readonly string[] {
  const [expected, actual] = [setsOf(original), setsOf(replayed)];
  const isComparable = expected.every((set, i) => memberOf(set, "reader") === memberOf(actual[i], "reader"));
  if (!isComparable) return [];
  const differs = (role: "input" | "target"): boolean =>
    expected.some((set, i) => {
      const [names, others] = [namesOf(set, role), namesOf(actual[i], role)];
      return names !== undefined && others !== undefined && names !== others;
    });
  return [...(differs("input") ? ["domain.features"] : []), ...(differs("target") ? ["domain.outputs"] : [])];
}

function setsOf(opened: OpenedProvenance): readonly unknown[] {
  const sets: unknown = valueOf(opened, "data");
  return Array.isArray(sets) ? sets : [];
}

function namesOf(set: unknown, role: "input" | "target"): string | undefined {
  const columns = memberOf(set, "columns");
  if (!Array.isArray(columns)) return undefined;
  return JSON.stringify(
    columns.filter((column) => memberOf(column, "role") === role).map((column) => memberOf(column, "name")),
  );
}

function comparable(opened: OpenedProvenance, name: string): unknown {
  if (name === "recipe") return opened.provenance.recipe;
  const value: unknown = valueOf(opened, name === "samples" ? "data" : name);
  if (name === "samples") return Array.isArray(value) ? value.map((set) => memberOf(set, "samples")) : value;
  if (name !== "parameters" || value === undefined) return value;
  return Object.fromEntries(
    Object.entries(value as object).map(([parameter, given]) => [parameter, memberOf(given, "value")]),
  );
}

function memberOf(value: unknown, name: string): unknown {
  return isObject(value) ? value[name] : undefined;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function collect(path: string, expected: unknown, actual: unknown, found: string[]): void {
  if (isObject(expected) && isObject(actual)) {
    for (const name of new Set([...Object.keys(expected), ...Object.keys(actual)]))
      collect(`${path}.${name}`, expected[name], actual[name], found);
    return;
  }
  // A number may be an integer on one side and a double of the same value on the other.
  const isSame =
    Object.is(expected, actual) ||
    (isNumber(expected) && isNumber(actual) && Number(expected) === Number(actual));
  if (!isSame) found.push(path);
}

function isNumber(value: unknown): boolean {
  return typeof value === "number" || typeof value === "bigint";
}
