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

/** Fields of a query that NeDB looks up in an index. */
const indexedFields = ["name", "device", "contentId", "base"] as const;
const plainFields = ["line", "approach", "kind", "state", "architecture"] as const;
const operators = { "=": undefined, "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte" } as const;

export function filterOf(query: VersionQuery): QueryFilter {
  const exact: Condition[] = [];
  for (const field of indexedFields) {
    const value = query[field];
    // NeDB matches a list, such as `bases`, if one of its members matches.
    if (value !== undefined) exact.push({ [field === "base" ? "bases" : field]: value });
  }
  const all = [...exact];
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
  return { indexed: exact.length === 0 ? undefined : (Object.assign({}, ...exact) as Condition), all };
}

function metadataFilter({ key, is, value }: MetadataCondition): Condition {
  const operator = operators[is];
  const compared = operator === undefined ? value : { [operator]: value };
  return { metadata: { $elemMatch: { key, type: typeof value, value: compared } } };
}
