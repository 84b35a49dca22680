/**
 * The catalog in NeDB, in memory only: NeDB does not fsync, drops torn lines silently and lets
 * updates reach prototypes, so it never sees a file, an update operator or a field name from outside.
 * Meant for about 50,000 models; beyond, the fleet should move to another catalog.
 */
import NeDB from "nedb-promises";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { VersionQuery } from "../repository/fleet-repository.js";
import { checkQuery, defaultLimit, type Catalog, type CatalogEntry, type MetadataValue } from "./catalog.js";

/** A document: fixed field names, metadata as a list of pairs, so that its keys are values too. */
interface CatalogDocument extends Omit<CatalogEntry, "versionId" | "metadata"> {
  readonly _id: string;
  readonly metadata: readonly {
    readonly key: string;
    readonly type: string;
    readonly value: MetadataValue;
  }[];
}

type Condition = Readonly<Record<string, unknown>>;

/** Documents inserted in one call; NeDB copies each deeply on the way. */
const chunkEntries = 1000;

export async function openNedbCatalog(): Promise<Catalog> {
  const store = NeDB.create({ inMemoryOnly: true, timestampData: false });
  for (const fieldName of ["name", "position", "device", "contentId", "bases"])
    await store.ensureIndex({ fieldName });
  return {
    comfortableModels: 50_000,
    async put(entries) {
      for (let at = 0; at < entries.length; at += chunkEntries) {
        const documents = entries.slice(at, at + chunkEntries).map(documentOf);
        // Removed and inserted within one call of each: `update` would go through NeDB's operators.
        await store.remove({ _id: { $in: documents.map(({ _id }) => _id) } }, { multi: true });
        await store.insert(documents);
      }
    },
    async find(query) {
      const checked = checkQuery(query);
      const found = await store
        .find<CatalogDocument>(conditionsOf(checked), { _id: 1 })
        .sort({ position: checked.order === "oldest" ? 1 : -1 })
        .skip(checked.offset ?? 0)
        .limit(checked.limit ?? defaultLimit);
      return found.map(({ _id }) => _id as Hash);
    },
    count: () => store.count({}),
    async clear() {
      await store.remove({}, { multi: true });
    },
  };
}

function documentOf({ versionId, metadata, ...entry }: CatalogEntry): CatalogDocument {
  return {
    _id: versionId,
    ...entry,
    metadata: Object.entries(metadata).map(([key, value]) => ({ key, type: typeof value, value })),
  };
}

const operators = { "=": undefined, "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte" } as const;

/** NeDB's conditions for a checked query: every operator is written here, every value is a plain one. */
function conditionsOf(query: VersionQuery): Condition {
  const all: Condition[] = [];
  for (const field of [
    "name",
    "device",
    "line",
    "approach",
    "kind",
    "state",
    "contentId",
    "architecture",
  ] as const) {
    const value = query[field];
    if (value !== undefined) all.push({ [field]: value });
  }
  if (query.namePrefix !== undefined && query.namePrefix !== "")
    all.push({ name: { $gte: query.namePrefix, $lt: `${query.namePrefix}\uffff\uffff` } });
  if (query.tag !== undefined) all.push({ tags: query.tag });
  if (query.base !== undefined) all.push({ bases: query.base });
  if (query.recordedFromMs !== undefined) all.push({ recordedAtMs: { $gte: query.recordedFromMs } });
  if (query.recordedUntilMs !== undefined) all.push({ recordedAtMs: { $lt: query.recordedUntilMs } });
  if (query.includeRetired !== true && query.state === undefined)
    all.push({ state: { $in: ["recorded", "stored", "released"] } });
  for (const { key, is, value } of query.metadata ?? []) {
    const operator = operators[is];
    all.push({
      metadata: {
        $elemMatch: {
          key,
          type: typeof value,
          value: operator === undefined ? value : { [operator]: value },
        },
      },
    });
  }
  return all.length === 0 ? {} : { $and: all };
}
