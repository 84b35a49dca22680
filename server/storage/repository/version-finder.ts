/**
 * Finds versions by going through them where they are, for fleets that the embedded catalog would not fit: by the list
 * of a name, a device or a base, else by all versions. Reads the records only of versions whose state fits.
 *
 * How many versions a query finds in each window of the journal is remembered, so that a page reads only what it shows,
 * and after a change of a version only its window is counted again.
 */
import { LRUCache } from "lru-cache";
import { itemsPerStep, nextTurn } from "../../../shared/concurrency/in-steps.js";
import type { ModelMetadata } from "../../../shared/model/metadata.js";
import type { SaveRecord } from "../../../shared/model/model.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { CatalogPage } from "../catalog/catalog.js";
import {
  checkQuery,
  defaultLimit,
  type MetadataCondition,
  type VersionQuery,
} from "../catalog/version-query.js";
import { countVersions, stateName, versionsIn, type VersionTable } from "./state/version-table.js";
import type { VersionState } from "./state/version-state.js";
import { makerOf } from "./state/version-state.js";

const defaultWindowPositions = 1024;
const defaultMaxPassed = 256;
/** The number of queries whose counts are remembered. */
const rememberedQueries = 32;
const beingCounted = -1;

export interface VersionFinderParts {
  readonly table: VersionTable;
  readonly metadataOf: (versionId: Hash, record: SaveRecord) => Promise<ModelMetadata>;
  /** Journal positions of one window; default 1024. */
  readonly windowPositions?: number;
  /** The number of versions that are passed one by one before windows are counted; default 256. */
  readonly maxPassed?: number;
}

/** The part of a query that says which versions it finds. */
type Conditions = Omit<VersionQuery, "order" | "offset" | "limit">;

export class VersionFinder {
  /** Conditions as JSON → how many versions they find in each window; undefined where one changed since. */
  readonly #counts = new LRUCache<string, (number | undefined)[]>({ max: rememberedQueries });

  readonly #windowPositions: number;
  readonly #maxPassed: number;

  constructor(private readonly parts: VersionFinderParts) {
    this.#windowPositions = parts.windowPositions ?? defaultWindowPositions;
    this.#maxPassed = parts.maxPassed ?? defaultMaxPassed;
  }

  /** @throws HTTP_REQUEST_INVALID */
  async find(query: VersionQuery): Promise<CatalogPage> {
    const { order = "newest", offset = 0, limit = defaultLimit, ...conditions } = checkQuery(query);
    const page: PageRange = { reverse: order === "newest", offset, limit };
    const { state, byDevice, byBase } = this.parts.table;
    const { base, name, device } = conditions;
    if (base !== undefined) return await this.#inList(byBase.of(base), conditions, page);
    if (name !== undefined) return await this.#inList(state.names.of(name), conditions, page);
    if (device !== undefined) return await this.#inList(byDevice.of(device), conditions, page);
    const total = this.#totalOf(conditions);
    if (total === undefined || offset > this.#maxPassed)
      return await this.#inWindows(conditions, page, total);
    return { versionIds: await this.#someOf(this.#all(page.reverse), conditions, page), total };
  }

  /** Call when versions changed. */
  changed(versionIds: Iterable<Hash>): void {
    for (const versionId of versionIds) {
      const position = this.parts.table.state.versions.positionOf(versionId);
      if (position === undefined) continue;
      for (const counts of this.#counts.values())
        counts[Math.floor(position / this.#windowPositions)] = undefined;
    }
  }

  #all(reverse: boolean, from = 0, until = Infinity): Iterable<VersionState> {
    const { versions } = this.parts.table.state;
    return reverse ? versions.reversed(from, until) : versions.values(from, until);
  }

  /** The number of versions where that needs no look at them; else undefined. */
  #totalOf({ includeRetired, ...others }: Conditions): number | undefined {
    if (Object.values(others).some((value) => value !== undefined)) return undefined;
    return countVersions(this.parts.table, includeRetired);
  }

  async #inList(
    versionIds: Iterable<Hash>,
    conditions: Conditions,
    { reverse, offset, limit }: PageRange,
  ): Promise<CatalogPage> {
    const found: Hash[] = [];
    for await (const versionId of this.#matching(versionsIn(this.parts.table.state, versionIds), conditions))
      found.push(versionId);
    if (reverse) found.reverse();
    return { versionIds: found.slice(offset, offset + limit), total: found.length };
  }

  /** @param total the number of versions that the query finds, where it is known: then few windows are counted */
  async #inWindows(
    conditions: Conditions,
    { reverse, offset, limit }: PageRange,
    total?: number,
  ): Promise<CatalogPage> {
    const windows = Math.ceil(this.parts.table.state.length / this.#windowPositions);
    const counter = this.#counterOf(conditions);
    let sum = 0;
    for (let window = 0; window < windows && total === undefined; window++) sum += await counter(window);
    const versionIds: Hash[] = [];
    let skipped = 0;
    for (let step = 0; step < windows && versionIds.length < limit; step++) {
      const window = reverse ? windows - 1 - step : step;
      if (skipped < offset) {
        const count = await counter(window);
        if (skipped + count <= offset) {
          skipped += count;
          continue;
        }
      }
      const from = window * this.#windowPositions;
      const versions = this.#all(reverse, from, from + this.#windowPositions);
      const page = { reverse, offset: offset - skipped, limit: limit - versionIds.length };
      versionIds.push(...(await this.#someOf(versions, conditions, page)));
      skipped = offset;
    }
    return { versionIds, total: total ?? sum };
  }

  /** Counts what a query finds in a window; each one once for a page, and only once where it does not change. */
  #counterOf(conditions: Conditions): (window: number) => Promise<number> {
    const key = JSON.stringify(conditions);
    const counts = this.#counts.get(key) ?? [];
    this.#counts.set(key, counts);
    const counted = new Map<number, number>();
    return async (window) => {
      const before = counted.get(window) ?? counts[window];
      if (before !== undefined && before !== beingCounted) return before;
      const from = window * this.#windowPositions;
      let count = 0;
      // A version that changes meanwhile makes its window unknown again.
      counts[window] = beingCounted;
      for await (const _ of this.#matching(this.#all(false, from, from + this.#windowPositions), conditions))
        count++;
      if (counts[window] === beingCounted)
        // The newest window still grows.
        counts[window] = from + this.#windowPositions <= this.parts.table.state.length ? count : undefined;
      counted.set(window, count);
      return count;
    };
  }

  async #someOf(
    versions: Iterable<VersionState>,
    conditions: Conditions,
    { offset, limit }: Pick<PageRange, "offset" | "limit">,
  ): Promise<readonly Hash[]> {
    const found: Hash[] = [];
    let passed = 0;
    for await (const versionId of this.#matching(versions, conditions)) {
      if (passed++ < offset) continue;
      found.push(versionId);
      if (found.length === limit) break;
    }
    return found;
  }

  /** The ids of those versions that meet all conditions, in steps between which the event loop has its turn. */
  async *#matching(
    versions: Iterable<VersionState>,
    conditions: Conditions,
  ): AsyncGenerator<Hash, void, undefined> {
    const { records, damaged } = this.parts.table;
    const ofRecord = recordFields.some((field) => conditions[field] !== undefined);
    const metadata = conditions.metadata ?? [];
    let looked = 0;
    for (const version of versions) {
      if (++looked % itemsPerStep === 0) await nextTurn();
      const { versionId } = version;
      if (!fitsState(version, conditions) || damaged.has(versionId)) continue;
      if (ofRecord || metadata.length > 0) {
        const record = records.get(versionId);
        if (record === undefined || !fitsRecord(version, record, conditions)) continue;
        if (metadata.length > 0 && !(await this.#hasMetadata(version, record, metadata))) continue;
      }
      yield versionId;
    }
  }

  async #hasMetadata(
    version: VersionState,
    record: SaveRecord,
    conditions: readonly MetadataCondition[],
  ): Promise<boolean> {
    // The metadata of a retired version may be collected.
    const metadata =
      version.retired === undefined ? await this.parts.metadataOf(version.versionId, record) : {};
    return conditions.every((condition) => fitsMetadata(metadata, condition));
  }
}

interface PageRange {
  readonly reverse: boolean;
  readonly offset: number;
  readonly limit: number;
}

const recordFields = ["device", "line", "approach", "kind", "contentId", "architecture", "base"] as const;

function fitsState(version: VersionState, conditions: Conditions): boolean {
  const { name, namePrefix, state, tag, recordedFromMs, recordedUntilMs, includeRetired } = conditions;
  return (
    (includeRetired === true || state !== undefined || version.retired === undefined) &&
    (name === undefined || version.name === name) &&
    (namePrefix === undefined || version.name.startsWith(namePrefix)) &&
    (state === undefined || stateName(version) === state) &&
    (tag === undefined || version.tags.has(tag)) &&
    (recordedFromMs === undefined || version.recordedAtMs >= recordedFromMs) &&
    (recordedUntilMs === undefined || version.recordedAtMs < recordedUntilMs)
  );
}

function fitsRecord(
  version: VersionState,
  record: SaveRecord,
  { base, device, ...conditions }: Conditions,
): boolean {
  return (
    (device === undefined || makerOf(version, record) === device) &&
    (["line", "approach", "kind", "contentId", "architecture"] as const).every(
      (field) => conditions[field] === undefined || record[field] === conditions[field],
    ) &&
    (base === undefined || record.bases.includes(base))
  );
}

function fitsMetadata(metadata: ModelMetadata, { key, is, value, text }: MetadataCondition): boolean {
  const actual = Object.hasOwn(metadata, key) ? metadata[key] : undefined;
  return [value, text].some((wanted) => wanted !== undefined && compares(actual, is, wanted));
}

function compares(actual: unknown, is: MetadataCondition["is"], wanted: string | number | boolean): boolean {
  if (typeof actual !== typeof wanted) return false;
  const [a, b] = [actual as typeof wanted, wanted];
  if (is === "=") return a === b;
  if (is === "<") return a < b;
  if (is === "<=") return a <= b;
  return is === ">" ? a > b : a >= b;
}
