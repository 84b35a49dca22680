/**
 * Defines the catalog port: an index over a fleet's versions, which finds them by any field and returns them
 * in pages. The catalog is disposable: everything in it is derived from the journal and the store, and it can
 * be rebuilt from them at any time. It does not access either.
 */
import type { Approach } from "../../../shared/model/model.js";
import type { ModelMetadata } from "../../../shared/model/metadata.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { VersionQuery, VersionStateName } from "./version-query.js";

/** One version in the catalog. */
export interface CatalogEntry {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  /** Position of the version's `recorded` fact in the journal; never changes. */
  readonly position: number;
  readonly device: string;
  readonly line: string;
  readonly kind: "architecture" | "opaque";
  readonly approach: Approach;
  readonly contentId: Hash;
  readonly architecture: Hash;
  readonly state: VersionStateName;
  readonly recordedAtMs: number;
  readonly tags: readonly string[];
  readonly bases: readonly Hash[];
  readonly metadata: ModelMetadata;
}

/** One page of the versions that a query finds. */
export interface CatalogPage {
  /** The ids in the order that the query names. */
  readonly versionIds: readonly Hash[];
  /** The number of versions that the query finds on all pages together. */
  readonly total: number;
}

export interface Catalog {
  /** Inserts entries, replacing those with the same version id. */
  put(entries: readonly CatalogEntry[]): Promise<void>;
  /** @throws HTTP_REQUEST_INVALID for a query that `checkQuery` refuses */
  find(query: VersionQuery): Promise<CatalogPage>;
  count(): Promise<number>;
  clear(): Promise<void>;
}
