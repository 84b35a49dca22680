/**
 * Answers queries for versions. Plain lists are read where the versions are, and so is every answer in a fleet that the
 * embedded catalog does not fit (version-finder.ts). For other queries the catalog is built from the records at the
 * first one, and before every later one updated with the versions that changed since. It can be rebuilt on demand.
 * Metadata is in separate objects of the store, so it is not read before a query first has a condition on
 * metadata.
 */
import { mapConcurrent } from "../../../shared/concurrency/map-concurrent.js";
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { isStemmaError } from "../../../shared/errors.js";
import { decodeMetadata, type ModelMetadata } from "../../../shared/model/metadata.js";
import type { SaveRecord } from "../../../shared/model/model.js";
import type { ObjectReader } from "../../../shared/objects/object-store.js";
import type { Log } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { Catalog, CatalogEntry, CatalogPage } from "../catalog/catalog.js";
import { maxSkipped, type VersionQuery } from "../catalog/version-query.js";
import type { VersionFinder } from "./version-finder.js";
import { summaryOf, type VersionTable } from "./state/version-table.js";
import { makerOf } from "./state/version-state.js";

export interface CatalogSource {
  readonly table: VersionTable;
  readonly objects: Pick<ObjectReader, "read">;
  readonly open: () => Promise<Catalog>;
  readonly log: Log | undefined;
  /** Default maxCatalogVersions. */
  readonly maxVersions?: number;
}

/** The number of versions from which on the embedded catalog is not used. */
export const maxCatalogVersions = 50_000;
/** Metadata objects read concurrently. */
const maxConcurrentReads = 32;

/** True for a page of all versions, or of those of a name, device or base: found without a look at any others. */
function isPlainList({
  order: _order,
  offset = 0,
  limit: _limit,
  includeRetired: _includeRetired,
  name,
  device,
  base,
  ...conditions
}: VersionQuery): boolean {
  const isOfOneList = name !== undefined || device !== undefined || base !== undefined;
  return (
    Object.values(conditions).every((value) => value === undefined) && (isOfOneList || offset <= maxSkipped)
  );
}

export class CatalogKeeper {
  readonly #source: CatalogSource;
  readonly #updates = new SerialQueue();
  #catalog: Catalog | undefined;
  #hasMetadata = false;
  /** Versions that changed since the catalog was built; absent before. */
  #changed: Set<Hash> | undefined;
  #finder: Promise<VersionFinder> | undefined;

  constructor(source: CatalogSource) {
    this.#source = source;
  }

  /** Finds versions, including all changes before the call. @throws HTTP_REQUEST_INVALID */
  async find(query: VersionQuery): Promise<CatalogPage> {
    const isLarge = this.#isLarge();
    if (isLarge) this.#catalog = undefined;
    if (isLarge || isPlainList(query)) return await (await (this.#finder ??= this.#openFinder())).find(query);
    const needsMetadata = (query.metadata ?? []).length > 0;
    const catalog = await this.#updates.run(() => this.#upToDate(needsMetadata));
    return await catalog.find(query);
  }

  /** Notes that these versions changed, so that the next query updates their entries. */
  changed(versionIds: Iterable<Hash>): void {
    void this.#finder?.then((finder) => {
      finder.changed(versionIds);
    });
    if (this.#isLarge()) this.#changed = undefined;
    else for (const versionId of versionIds) this.#changed?.add(versionId);
  }

  /** Loaded when it is needed first: many commands ask for no list. */
  async #openFinder(): Promise<VersionFinder> {
    const { VersionFinder: Finder } = await import("./version-finder.js");
    return new Finder({
      table: this.#source.table,
      metadataOf: (versionId, record) => this.#readMetadata(versionId, record),
    });
  }

  #isLarge(): boolean {
    return this.#source.table.state.versions.size > (this.#source.maxVersions ?? maxCatalogVersions);
  }

  /** @returns the number of versions in the catalog */
  async rebuild(): Promise<number> {
    if (this.#isLarge()) return this.#source.table.state.versions.size - this.#source.table.damaged.size;
    const catalog = await this.#updates.run(async () => {
      this.#catalog = undefined;
      return await this.#upToDate(this.#hasMetadata);
    });
    return await catalog.count();
  }

  async #upToDate(needsMetadata: boolean): Promise<Catalog> {
    const changed = this.#changed;
    this.#changed = new Set();
    const mustReadMetadata = needsMetadata && !this.#hasMetadata;
    this.#hasMetadata ||= needsMetadata;
    try {
      if (this.#catalog === undefined) this.#catalog = await this.#build();
      else if (mustReadMetadata) await this.#catalog.put(await this.#entriesOf(this.#allVersions()));
      else if (changed !== undefined && changed.size > 0)
        await this.#catalog.put(await this.#entriesOf(changed));
      return this.#catalog;
    } catch (error) {
      // The catalog may contain an incomplete change, so the next query rebuilds it.
      this.#catalog = undefined;
      throw error;
    }
  }

  async #build(): Promise<Catalog> {
    const catalog = await this.#source.open();
    await catalog.put(await this.#entriesOf(this.#allVersions()));
    return catalog;
  }

  #allVersions(): readonly Hash[] {
    return [...this.#source.table.state.versions.keys()];
  }

  async #entriesOf(versionIds: Iterable<Hash>): Promise<readonly CatalogEntry[]> {
    const entries = await mapConcurrent(versionIds, maxConcurrentReads, (versionId) =>
      this.#entryOf(versionId),
    );
    return entries.filter((entry) => entry !== undefined);
  }

  async #entryOf(versionId: Hash): Promise<CatalogEntry | undefined> {
    const { table } = this.#source;
    const state = table.state.versions.get(versionId);
    const record = table.records.get(versionId);
    if (state === undefined || record === undefined) return undefined;
    const summary = summaryOf(state, record);
    return {
      versionId,
      name: summary.name,
      version: summary.version,
      position: summary.position,
      state: summary.state,
      recordedAtMs: summary.recordedAtMs,
      tags: summary.tags,
      device: makerOf(state, record),
      line: record.line,
      kind: record.kind,
      approach: record.approach,
      contentId: record.contentId,
      architecture: record.architecture,
      bases: record.bases,
      // The metadata of a retired version may be collected; the version is still found by its other fields.
      metadata: summary.state === "retired" ? {} : await this.#metadataOf(versionId, record),
    };
  }

  /** Empty where the metadata is damaged: the query must not fail, and finds this version by other fields. */
  async #metadataOf(versionId: Hash, { objects }: SaveRecord): Promise<ModelMetadata> {
    return this.#hasMetadata ? await this.#readMetadata(versionId, { objects }) : {};
  }

  async #readMetadata(versionId: Hash, { objects }: Pick<SaveRecord, "objects">): Promise<ModelMetadata> {
    if (objects.metadata === undefined) return {};
    try {
      return decodeMetadata(await this.#source.objects.read("metadata", objects.metadata));
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      this.#source.log?.warn("metadata-unreadable", { versionId, error });
      return {};
    }
  }
}
