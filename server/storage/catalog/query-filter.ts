/** Converts a checked query into NeDB conditions. All operators are from this file; all values are plain. */
import type { MetadataCondition, VersionQuery } from "./version-query.js";

export type Condition = Readonly<Record<string, unknown>>;

/** Conditions that must all hold. */
export interface QueryFilter {
  /** The conditions on indexed fields; undefined where the query has none. */
  readonly indexed: Condition | undefined;
  /** All conditions, including those on indexed fields. */
  readonly all: readonly Condition[];
}

/**
 * Fields of a query that NeDB looks up in an index, and the fields of the index. NeDB searches all documents of
 * a key when it removes one. So that a fleet with one name does not make every change a search of all its
 * versions, the keys of an index are values with positions: no two documents have the same.
 */
const indexedFields = {
  name: "nameKey",
  device: "deviceKey",
  contentId: "contentKey",
  base: "baseKeys",
} as const;

/** The key of a value in an index, at a version's position. */
export function indexKey(value: string, position: number): string {
  return `${value}\u0000${String(position).padStart(16, "0")}`;
}

/** The condition that finds a value at all positions, and perhaps other values: the exact one is checked too. */
function keysOf(value: string): Condition {
  return { $gte: `${value}\u0000`, $lt: `${value}\u0001` };
}

const plainFields = ["line", "approach", "kind", "state", "architecture"] as const;
const operators = { "=": undefined, "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte" } as const;

export function filterOf(query: VersionQuery): QueryFilter {
  const indexed: Record<string, Condition> = {};
  const all: Condition[] = [];
  for (const field of ["name", "device", "contentId", "base"] as const) {
    const value = query[field];
    if (value === undefined) continue;
    indexed[indexedFields[field]] = keysOf(value);
    // NeDB matches a list, such as `bases`, if one of its members matches.
    all.push({ [field === "base" ? "bases" : field]: value });
  }
  for (const field of plainFields) {
    const value = query[field];
    if (value !== undefined) all.push({ [field]: value });
  }
  if (query.namePrefix !== undefined && query.namePrefix !== "")
    all.push({ name: { $gte: query.namePrefix, $lt: `${query.namePrefix}\uffff\uffff` } });
  if (query.tag !== undefined) all.push({ tags: query.tag });
  if (query.recordedFromMs !== undefined) all.push({ recordedAtMs: { $gte: query.recordedFromMs } });
  if (query.recordedUntilMs !== undefined) all.push({ recordedAtMs: { $lt: query.recordedUntilMs } });
  if (query.includeRetired !== true && query.state === undefined)
    all.push({ state: { $in: ["recorded", "stored", "released"] } });
  for (const condition of query.metadata ?? []) all.push(metadataFilter(condition));
  return { indexed: Object.keys(indexed).length === 0 ? undefined : indexed, all };
}

function metadataFilter({ key, is, value, text }: MetadataCondition): Condition {
  const operator = operators[is];
  const matches = (one: string | number | boolean): Condition => {
    const compared = operator === undefined ? one : { [operator]: one };
    return { metadata: { $elemMatch: { key, type: typeof one, value: compared } } };
  };
  return text === undefined ? matches(value) : { $or: [matches(value), matches(text)] };
}
