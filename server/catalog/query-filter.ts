/** Turns a checked query into conditions of NeDB: every operator is written here, every value is plain. */
import type { MetadataCondition, VersionQuery } from "./version-query.js";

export type Condition = Readonly<Record<string, unknown>>;

/** Conditions that must all hold. */
export interface QueryFilter {
  /** On fields that the index looks up directly; absent where the query names none of them. */
  readonly indexed: Condition | undefined;
  readonly all: readonly Condition[];
}

/** Fields by whose values documents are looked up. */
export const indexedFields = ["name", "device", "contentId", "base"] as const;
const plainFields = ["line", "approach", "kind", "state", "architecture"] as const;
const operators = { "=": undefined, "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte" } as const;

export function filterOf(query: VersionQuery): QueryFilter {
  const exact: Condition[] = [];
  for (const field of indexedFields) {
    const value = query[field];
    // A list matches where one of its members does.
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
