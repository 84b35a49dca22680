/**
 * The catalog port: an index over a fleet's versions that pages through them by any of their fields.
 * Disposable: it is rebuilt from the journal whenever it is missing or doubted, and nothing exists in it
 * alone. Knows no store and no journal.
 */
import type { Approach } from "../../shared/model/model.js";
import type { ModelMetadata } from "../../shared/model/metadata.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { VersionQuery, VersionStateName } from "./version-query.js";

/** One version as the index keeps it. */
export interface CatalogEntry {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  /** Of the `recorded` fact in the journal; never changes. */
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

/** One page of what a query finds. */
export interface CatalogPage {
  /** In the order that the query names. */
  readonly versionIds: readonly Hash[];
  /** How many versions the query finds on all pages together. */
  readonly total: number;
}

export interface Catalog {
  /** Versions up to which this implementation is meant to serve. */
  readonly comfortableVersions: number;
  /** Inserts, or replaces by version id. */
  put(entries: readonly CatalogEntry[]): Promise<void>;
  /** @throws HTTP_REQUEST_INVALID for what `checkQuery` refuses */
  find(query: VersionQuery): Promise<CatalogPage>;
  count(): Promise<number>;
  clear(): Promise<void>;
}
