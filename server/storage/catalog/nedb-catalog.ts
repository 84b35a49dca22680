/**
 * The catalog in NeDB, in memory only. NeDB does not fsync, drops torn lines silently, and lets updates
 * change prototypes. So it gets no file, no update operator, and no field name from outside. Designed for
 * about 50,000 versions; a larger fleet does without (repository/catalog-keeper.ts). Measured with 50,000
 * versions: 2 s to build or to replace, 80 ms to count the versions that a new query finds, then 2 ms per page.
 */
import { LRUCache } from "lru-cache";
import NeDB from "nedb-promises";
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { Catalog, CatalogEntry, CatalogPage } from "./catalog.js";
import { filterOf, indexKey, type Condition, type QueryFilter } from "./query-filter.js";
import { checkQuery, defaultLimit, type VersionQuery } from "./version-query.js";
import { VersionWindows, windowVersions, type Window } from "./version-windows.js";

/**
 * A document has fixed field names. Metadata is a list of key-value pairs, so that its keys are values too.
 */
interface CatalogDocument extends Omit<CatalogEntry, "versionId" | "metadata"> {
  readonly _id: string;
  readonly metadata: readonly {
    readonly key: string;
    readonly type: string;
    readonly value: string | number | boolean;
  }[];
  // The keys of the indexes; see query-filter.ts.
  readonly nameKey: string;
  readonly deviceKey: string;
  readonly contentKey: string;
  readonly baseKeys: readonly string[];
}

/** The fields that have an index. Every key of one finds a single document. */
export const indexNames = ["nameKey", "position", "deviceKey", "contentKey", "baseKeys"] as const;

/** Documents inserted in one call, at most; NeDB makes a deep copy of each. */
const chunkEntries = 1000;
/** Candidates are searched directly, without windows, if an indexed field leaves at most this many. */
const maxDirectCandidates = 2 * windowVersions;
/** The number of queries whose counts are remembered. */
const rememberedQueries = 32;

interface Range {
  readonly order: 1 | -1;
  readonly offset: number;
  readonly limit: number;
}

export async function openNedbCatalog(): Promise<Catalog> {
  const store: NeDB<CatalogDocument> = NeDB.create({ inMemoryOnly: true, timestampData: false });
  for (const fieldName of indexNames) await store.ensureIndex({ fieldName });
  return new NedbCatalog(store);
}

class NedbCatalog implements Catalog {
  readonly #store: NeDB<CatalogDocument>;
  readonly #windows = new VersionWindows();
  /**
   * Filter as JSON → number of versions that it finds in each window; undefined where a version changed
   * since.
   */
  readonly #counts = new LRUCache<string, (number | undefined)[]>({ max: rememberedQueries });
  /** Runs one call at a time, so that a search never sees an incomplete change. */
  readonly #queue = new SerialQueue();

  constructor(store: NeDB<CatalogDocument>) {
    this.#store = store;
  }

  put(entries: readonly CatalogEntry[]): Promise<void> {
    return this.#queue.run(async () => {
      for (let start = 0; start < entries.length; start += chunkEntries) {
        const documents = entries.slice(start, start + chunkEntries).map(documentOf);
        // Removed and inserted again, because `update` would interpret NeDB's operators.
        await this.#store.remove({ _id: { $in: documents.map(({ _id }) => _id) } }, { multi: true });
        await this.#store.insert(documents);
      }
      this.#forgetCounts(entries);
    });
  }

  find(query: VersionQuery): Promise<CatalogPage> {
    return this.#queue.run(async () => {
      const checked = checkQuery(query);
      const range: Range = {
        order: checked.order === "oldest" ? 1 : -1,
        offset: checked.offset ?? 0,
        limit: checked.limit ?? defaultLimit,
      };
      const filter = filterOf(checked);
      return (await this.#isSelective(filter))
        ? await this.#findDirectly(filter, range)
        : await this.#findInWindows(filter, range);
    });
  }

  count(): Promise<number> {
    return this.#queue.run(async () => await this.#store.count({}));
  }

  clear(): Promise<void> {
    return this.#queue.run(async () => {
      await this.#store.remove({}, { multi: true });
      this.#windows.clear();
      this.#counts.clear();
    });
  }

  #forgetCounts(entries: readonly CatalogEntry[]): void {
    const changed = new Set(entries.map(({ position }) => this.#windows.add(position)));
    for (const counts of this.#counts.values()) for (const index of changed) counts[index] = undefined;
  }

  /** True if an indexed field alone leaves few candidates. */
  async #isSelective({ indexed, all }: QueryFilter): Promise<boolean> {
    if (indexed === undefined || this.#counts.has(keyOf(all))) return false;
    return (await this.#store.count(indexed)) <= maxDirectCandidates;
  }

  async #findDirectly({ indexed, all }: QueryFilter, range: Range): Promise<CatalogPage> {
    // NeDB uses an index only for conditions at the top level, not for those under $and.
    const condition = { ...indexed, $and: all };
    return { versionIds: await this.#ids(condition, range), total: await this.#store.count(condition) };
  }

  async #findInWindows(filter: QueryFilter, { order, offset, limit }: Range): Promise<CatalogPage> {
    const counts = await this.#countWindows(filter);
    const total = counts.reduce((sum, count) => sum + count, 0);
    const versionIds: Hash[] = [];
    let skipped = 0;
    for (let step = 0; step < counts.length && versionIds.length < limit; step++) {
      const index = order === 1 ? step : counts.length - 1 - step;
      const count = counts[index] ?? 0;
      const within = offset - skipped;
      if (within >= count) {
        skipped += count;
        continue;
      }
      const condition = windowCondition(filter, this.#windows.window(index));
      const page = { order, offset: Math.max(within, 0), limit: limit - versionIds.length };
      versionIds.push(...(await this.#ids(condition, page)));
      skipped = offset;
    }
    return { versionIds, total };
  }

  async #countWindows(filter: QueryFilter): Promise<readonly number[]> {
    const key = keyOf(filter.all);
    const known = this.#counts.get(key) ?? [];
    const counts: number[] = [];
    for (let index = 0; index < this.#windows.length; index++)
      counts.push(
        known[index] ?? (await this.#store.count(windowCondition(filter, this.#windows.window(index)))),
      );
    this.#counts.set(key, [...counts]);
    return counts;
  }

  async #ids(condition: Condition, { order, offset, limit }: Range): Promise<readonly Hash[]> {
    const found = await this.#store
      .find<CatalogDocument>(condition, { _id: 1 })
      .sort({ position: order })
      .skip(offset)
      .limit(limit);
    return found.map(({ _id }) => _id as Hash);
  }
}

function keyOf(conditions: readonly Condition[]): string {
  return JSON.stringify(conditions);
}

/**
 * The range of positions is the only condition at the top level, so that NeDB uses the index of positions.
 */
function windowCondition({ all }: QueryFilter, { from, until }: Window): Condition {
  const position = { $gte: from, $lt: until };
  return all.length === 0 ? { position } : { position, $and: all };
}

/** @internal Exported for the test of its index keys. */
export function documentOf({ versionId, metadata, ...entry }: CatalogEntry): CatalogDocument {
  const { position } = entry;
  return {
    _id: versionId,
    ...entry,
    nameKey: indexKey(entry.name, position),
    deviceKey: indexKey(entry.device, position),
    contentKey: indexKey(entry.contentId, position),
    baseKeys: entry.bases.map((base) => indexKey(base, position)),
    metadata: Object.entries(metadata).map(([key, value]) => ({ key, type: typeof value, value })),
  };
}
