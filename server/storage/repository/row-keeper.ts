/**
 * The versions of a fleet as short rows, for queries that look at many of them (server/learning/query). A query that
 * has to go through all versions leaves their rows here, which then follow what changes. Retired versions are left out
 * where they are not asked for, and those whose record cannot be read.
 */
import { LRUCache } from "lru-cache";
import { inSteps } from "../../../shared/concurrency/in-steps.js";
import { defined } from "../../../shared/defined.js";
import { StemmaError } from "../../../shared/errors.js";
import type { SaveRecord } from "../../../shared/model/model.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { VersionSummary } from "./answers/version-answers.js";
import type { VersionState } from "./state/version-state.js";
import { stateName, versionsIn, type VersionTable } from "./state/version-table.js";
import { makerOf } from "./state/version-state.js";

/** A version as far as a query may ask about it without its objects, and the ids of those that it may read. */
export interface VersionRow extends Pick<
  VersionState,
  "versionId" | "name" | "version" | "position" | "recordedAtMs" | "tensorBytes" | "ownBytes"
> {
  readonly storedBytes: number | undefined;
  readonly by: string | undefined;
  readonly state: VersionSummary["state"];
  readonly tags: readonly string[];
  readonly isHeld: boolean;
  readonly record: Pick<
    SaveRecord,
    "device" | "line" | "savedAtMs" | "approach" | "kind" | "scheme" | "architecture" | "bases"
  >;
  readonly objects: Pick<SaveRecord["objects"], "metadata" | "measurements" | "provenance" | "openings">;
  /**
   * Ids of architecture and names with a space between, the same text in memory for all versions that share them;
   * undefined: no network is known.
   */
  readonly network: string | undefined;
  readonly files: readonly string[];
  readonly checkpoints: number;
}

/** Conditions that need no look at all versions, or none at their records. */
export interface RowFilter {
  readonly name?: string;
  readonly device?: string;
  /** The only versions that are looked at. */
  readonly ids?: ReadonlySet<Hash>;
  /** True if retired ones among `ids` are found too; what is stored of them, leases hold. */
  readonly withRetired?: boolean;
  readonly namePrefix?: string;
  readonly recordedFromMs?: number;
}

export interface FoundRows {
  /** Oldest first. */
  readonly rows: readonly VersionRow[];
  /** The way by which they were found. */
  readonly by: "ids" | "name" | "device" | "all";
  /** Versions that were looked at. */
  readonly looked: number;
}

/** Rows that are kept in memory, or that a query gets: about 1 kB each. */
const maxRows = 100_000;

export class RowKeeper {
  #kept: Map<Hash, VersionRow> | undefined;
  /** The kept rows in the order of their positions; undefined after a change. */
  #ordered: readonly VersionRow[] | undefined;
  /** Resolves when all rows are kept. */
  #keeping: Promise<void> | undefined;
  #isAskedBefore = false;
  readonly #networks = new LRUCache<string, string>({ max: 20_000 });

  /** @param table of the open repository */
  constructor(private readonly table: VersionTable) {}

  /** Call when versions changed. */
  changed(versionIds: Iterable<Hash>): void {
    if (this.#kept === undefined) return;
    this.#ordered = undefined;
    for (const versionId of versionIds) {
      const row = this.#rowOf(this.table.state.versions.get(versionId));
      if (row === undefined) this.#kept.delete(versionId);
      else this.#kept.set(versionId, row);
    }
  }

  /** @throws QUERY_TOO_LARGE */
  async find(filter: RowFilter): Promise<FoundRows> {
    const { name, device, ids } = filter;
    const { state, byDevice } = this.table;
    if (ids !== undefined) return await this.#among(versionsIn(state, [...ids]), "ids", filter);
    if (name !== undefined) return await this.#among(versionsIn(state, state.names.of(name)), "name", filter);
    if (device !== undefined)
      return await this.#among(versionsIn(state, byDevice.of(device)), "device", filter);
    const isNarrowed = Object.keys(filter).length > 0;
    const kept = await this.#keepAll(isNarrowed);
    if (kept === undefined) return await this.#among(state.versions.values(), "all", filter);
    const ordered = (this.#ordered ??= [...kept.values()].sort(inOrder));
    const rows = isNarrowed ? ordered.filter((row) => fits(row, filter)) : ordered;
    return { rows, by: "all", looked: ordered.length };
  }

  basesOf(versionId: Hash): readonly Hash[] {
    return (this.#kept?.get(versionId)?.record ?? this.table.records.get(versionId))?.bases ?? [];
  }

  childrenOf(versionId: Hash): Iterable<Hash> {
    return this.table.byBase.of(versionId);
  }

  /** A process that asks once, and narrows, need not read the records of all versions. */
  async #keepAll(isNarrowed: boolean): Promise<ReadonlyMap<Hash, VersionRow> | undefined> {
    const isTooLarge = this.table.state.versions.size > maxRows;
    if (isTooLarge) [this.#kept, this.#keeping] = [undefined, undefined];
    const isLater = this.#isAskedBefore;
    this.#isAskedBefore = true;
    if (isTooLarge || (isNarrowed && !isLater)) return undefined;
    this.#keeping ??= this.#readAll();
    await this.#keeping;
    return this.#kept;
  }

  async #readAll(): Promise<void> {
    const kept = new Map<Hash, VersionRow>();
    // From here on, changes reach the rows; a version that is read after its change is read as it is then.
    this.#kept = kept;
    try {
      for await (const version of inSteps(this.table.state.versions.values())) {
        const row = this.#rowOf(version);
        if (row !== undefined) kept.set(row.versionId, row);
      }
    } catch (error) {
      [this.#kept, this.#keeping] = [undefined, undefined];
      throw error;
    }
  }

  async #among(states: Iterable<VersionState>, by: FoundRows["by"], filter: RowFilter): Promise<FoundRows> {
    const rows: VersionRow[] = [];
    let looked = 0;
    for await (const version of inSteps(states)) {
      looked++;
      if (!fits(version, filter)) continue;
      const row = this.#kept?.get(version.versionId) ?? this.#rowOf(version, filter.withRetired);
      if (row !== undefined && (filter.device === undefined || row.record.device === filter.device))
        rows.push(row);
      if (rows.length > maxRows) throw tooManyRows();
    }
    return { rows: rows.sort(inOrder), by, looked };
  }

  #rowOf(version: VersionState | undefined, withRetired = false): VersionRow | undefined {
    if (version === undefined || (version.retired !== undefined && !withRetired)) return undefined;
    const { versionId, name, position, recordedAtMs, tensorBytes, ownBytes, storedBytes, by, tags } = version;
    if (this.table.damaged.has(versionId)) return undefined;
    const record = this.table.records.get(versionId);
    if (record === undefined) return undefined;
    const { line, savedAtMs, approach, kind, scheme, bases, objects } = record;
    const { architecture, names, metadata, measurements, provenance, openings } = objects;
    return {
      ...{ versionId, name, version: version.version, position, recordedAtMs, tensorBytes, ownBytes },
      ...{ storedBytes, by, state: stateName(version), tags: [...tags], isHeld: version.hold !== undefined },
      record: {
        ...{
          device: makerOf(version, record),
          line,
          savedAtMs,
          approach,
          kind,
          bases,
          architecture: record.architecture,
        },
        ...(scheme === undefined ? {} : { scheme }),
      },
      objects: defined({ metadata, measurements, provenance, openings }),
      network: architecture && this.#networkOf(`${architecture} ${names}`),
      files: (objects.attachments ?? []).map((file) => file.name),
      checkpoints: record.uses?.checkpoints?.length ?? 0,
    };
  }

  #networkOf(network: string): string {
    const known = this.#networks.get(network);
    if (known !== undefined) return known;
    this.#networks.set(network, network);
    return network;
  }
}

function tooManyRows(): StemmaError {
  return new StemmaError(
    "QUERY_TOO_LARGE",
    `The query looks at more than ${maxRows} versions. Narrow it by a name, the beginning of a name, a device or ` +
      "a time of recording.",
  );
}

function inOrder(a: VersionRow, b: VersionRow): number {
  return a.position - b.position;
}

function fits(
  { versionId, name, recordedAtMs }: Pick<VersionRow, "versionId" | "name" | "recordedAtMs">,
  filter: RowFilter,
): boolean {
  return (
    (filter.name === undefined || name === filter.name) &&
    (filter.namePrefix === undefined || name.startsWith(filter.namePrefix)) &&
    (filter.ids === undefined || filter.ids.has(versionId)) &&
    (filter.recordedFromMs === undefined || recordedAtMs >= filter.recordedFromMs)
  );
}
