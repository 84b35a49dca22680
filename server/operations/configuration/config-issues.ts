/**
 * Describes what is wrong with a configuration file: the key, the problem, and the nearest known key. Pure.
 */
import type * as z from "zod";

/** The part of JSON Schema that names an object's keys. */
interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly oneOf?: readonly SchemaNode[];
  readonly const?: unknown;
}

const maxProblems = 5;

/**
 * One text per problem, at most five.
 * @param schema JSON Schema of the value that was checked
 */
export function explainIssues(error: z.ZodError, schema: object, value: unknown): string[] {
  const problems = error.issues.flatMap((issue) => {
    const path = issue.path.map(String);
    if (issue.code !== "unrecognized_keys") return [`${path.join(".") || "the file"}: ${issue.message}`];
    const known = knownKeys(schema, value, path);
    return issue.keys.map(
      (key) => `${[...path, key].join(".")} is not a known key; ${suggestion(key, known)}`,
    );
  });
  const shown = problems.slice(0, maxProblems);
  return problems.length > shown.length ? [...shown, `and ${problems.length - shown.length} more`] : shown;
}

function suggestion(key: string, known: readonly string[]): string {
  const nearest = nearestOf(key, known);
  return nearest === undefined ? `known here: ${known.join(", ")}` : `did you mean ${nearest}?`;
}

/** The keys that the schema allows at a path of the value. */
function knownKeys(schema: SchemaNode, value: unknown, path: readonly string[]): string[] {
  let node: SchemaNode | undefined = branchOf(schema, value);
  let part = value;
  for (const key of path) {
    part = isObject(part) ? part[key] : undefined;
    const child: SchemaNode | undefined = node?.properties?.[key];
    node = child && branchOf(child, part);
  }
  return Object.keys(node?.properties ?? {});
}

/** Returns the alternative that the value has chosen, where `kind` distinguishes alternatives. */
function branchOf(node: SchemaNode, value: unknown): SchemaNode {
  const kind = isObject(value) ? value["kind"] : undefined;
  return node.oneOf?.find(({ properties }) => properties?.["kind"]?.const === kind) ?? node;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** The known name with the fewest edits from `name`; undefined where all are far from it. */
function nearestOf(name: string, known: readonly string[]): string | undefined {
  const maxEdits = Math.max(2, Math.floor(name.length / 3));
  const [nearest] = known
    .map((candidate) => ({ candidate, edits: editDistance(name.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ edits }) => edits <= maxEdits)
    .sort((a, b) => a.edits - b.edits);
  return nearest?.candidate;
}

/** Levenshtein distance: insertions, deletions and replacements of single characters. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const replaced = (row[j - 1] as number) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[to.length] as number;
}
