/**
 * Compares a replay's story with the recorded one: every member that the table of members says a replay rebuilds.
 * Pure.
 */
import { memberAt } from "../../../shared/provenance/story-members.js";
import { isComparable, type DescriptionSource, type MemberTree } from "./told-story.js";

/** The largest number of members that are named. */
const maxNamed = 20;

/** The roots that are compared by the tensors themselves, or by their hashes. */
const comparedApart: readonly string[] = ["record", "architecture"];

/**
 * Paths of the members that differ, such as `random.streams.shuffle`. What the record does not have, or what was
 * redacted of it, is not compared; of metadata only the names that the record has.
 */
export function differingMembers(
  original: MemberTree,
  replayed: MemberTree,
  description: DescriptionSource,
): readonly string[] {
  const found: string[] = [];
  const compare = (path: readonly string[], expected: unknown, actual: unknown): void => {
    if (isTree(expected) && isTree(actual)) {
      for (const name of new Set([...Object.keys(expected), ...Object.keys(actual)]))
        compare([...path, name], expected[name], actual[name]);
      return;
    }
    if (isEqual(expected, actual)) return;
    for (const differing of rowsOf(path, expected ?? actual)) {
      const row = memberAt(differing);
      if (row?.kind === "rebuilt" && isComparable(row, description)) found.push(differing.join("."));
    }
  };
  for (const [root, expected] of Object.entries(original)) {
    if (expected === undefined || comparedApart.includes(root)) continue;
    const actual = replayed[root];
    if (root === "metadata") compareNamed(compare, expected as MemberTree, actual as MemberTree);
    else compare([root], expected, actual);
  }
  return found.slice(0, maxNamed);
}

function compareNamed(
  compare: (path: readonly string[], expected: unknown, actual: unknown) => void,
  expected: MemberTree,
  actual: MemberTree,
): void {
  for (const [name, value] of Object.entries(expected)) compare(["metadata", name], value, actual[name]);
}

/** The path itself, or, where it is above rows of the table, the paths below it that have one. */
function rowsOf(path: readonly string[], value: unknown): readonly (readonly string[])[] {
  if (memberAt(path) !== undefined || !isTree(value)) return [path];
  return Object.entries(value).flatMap(([name, member]) => rowsOf([...path, name], member));
}

type Tree = Readonly<Record<string, unknown>>;

/** An object, or a list of objects; a list of plain values, such as words, is one value. */
function isTree(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && (!Array.isArray(value) || value.some(isTree));
}

function isEqual(expected: unknown, actual: unknown): boolean {
  if (Array.isArray(expected) && Array.isArray(actual))
    return expected.length === actual.length && expected.every((each, index) => isEqual(each, actual[index]));
  if (isTree(expected) || isTree(actual)) return isEmptyTree(expected) && isEmptyTree(actual);
  // A number may be an integer on one side and a double of the same value on the other.
  return (
    Object.is(expected, actual) ||
    (isNumber(expected) &&
      isNumber(actual) &&
      typeof expected !== typeof actual &&
      Number(expected) === Number(actual))
  );
}

function isEmptyTree(value: unknown): boolean {
  return isTree(value) && !Array.isArray(value) && Object.keys(value).length === 0;
}

function isNumber(value: unknown): boolean {
  return typeof value === "number" || typeof value === "bigint";
}
