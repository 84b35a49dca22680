/**
 * Finds the objects that must stay, by counting references from versions to objects (EV7: one for every
 * tensor of a version, including inherited ones). The counts are kept by the store, a few bytes an object; they are
 * made at first use from the trees in the store, and change when versions are recorded. `settle` brings them up to date
 * with the state, in steps beside other work. Save records are never collected, so that the names, parents and times of
 * retired versions remain.
 */
import { isDeepStrictEqual } from "node:util";
import { inSteps } from "../../../../shared/concurrency/in-steps.js";
import { SerialQueue } from "../../../../shared/concurrency/serial-queue.js";
import { defined } from "../../../../shared/defined.js";
import type { LeafTable, SaveRecord } from "../../../../shared/model/model.js";
import { readManifest, usedDataOf, type UsedData } from "../../../../shared/data/stored-data.js";
import type { LiveObjects, ObjectPruner, ObjectReader } from "../../../../shared/objects/object-store.js";
import { referencesOf } from "../../../../shared/objects/references.js";
import { readDistinctLeaves } from "../../../../shared/objects/version-trees.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { decodeTree } from "../../../../shared/model/tree-object.js";
import type { Dropped } from "../answers/version-answers.js";
import { evaluationObjectsOf } from "./evaluation-state.js";
import { needsUnknown, recordMissing } from "./state-errors.js";
import { PositionSet } from "./position-set.js";
import { versionsInUse } from "./versions-in-use.js";
import type { FleetState } from "./state.js";
import type { VersionState } from "./version-state.js";
import type { SaveRecords } from "./version-table.js";

/**
 * The leaves of a version's model from its stored tree. @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH,
 * TREE_MALFORMED
 */
export async function readLeaves(
  objects: Pick<ObjectReader, "read">,
  record: SaveRecord,
): Promise<LeafTable> {
  return decodeTree(await objects.read("tree", record.objects.tree)).leaves;
}

/** True if a version's objects must stay: it is not retired, or held or in use. */
type IsKept = (version: VersionState) => boolean;

/** Decides it by the state of this moment. */
export function isKeptIn(state: FleetState): IsKept {
  const inUse = versionsInUse(state);
  return ({ versionId, retired, hold }) =>
    retired === undefined || hold !== undefined || inUse.has(versionId);
}

/** Versions whose objects must stay. */
export function keptVersions(state: FleetState): ReadonlySet<Hash> {
  const isKept = isKeptIn(state);
  const kept = new Set<Hash>();
  for (const version of state.versions.values()) if (isKept(version)) kept.add(version.versionId);
  return kept;
}

/** The parts that a version needs, as the store has it. */
export interface ReadVersion {
  readonly record: SaveRecord;
  /** The leaves of all its trees. */
  readonly leaves: LeafTable;
  readonly data: UsedData;
}

/** A dropped version needs what its replay needs, in place of its tensors. */
interface NeedyVersion extends ReadVersion {
  readonly dropped?: DroppedNeeds | undefined;
}
type DroppedNeeds = Pick<Dropped, "engine" | "data"> & { readonly dataChunks: readonly Hash[] };

const noData: UsedData = { chunks: [], elsewhere: [] };

type IndexedObjects = Pick<ObjectReader, "read" | "has" | "stat" | "openStream"> &
  Pick<ObjectPruner, "references">;

export class ReferenceIndex {
  /** Content hash of a data set that is not in the chunks of the version itself → versions that name it. */
  readonly #contents = new Map<Hash, number>();
  /** Manifest of a stored data set → its chunks: those that are registered, or that versions name by content. */
  readonly #storedData = new Map<Hash, readonly Hash[]>();
  /** Versions of which the record is counted. */
  readonly #recorded = new PositionSet();
  /** Versions of which everything is counted that they need. */
  readonly #counted = new PositionSet();
  /** Engines that versions name. The store may lack them. */
  readonly #engines = new Set<Hash>();
  /** Objects that the store may lack, and that the replay of a dropped version needs: their absence is damage. */
  readonly #required = new Map<Hash, number>();
  /** The counted versions without tensors, as they were counted; without their leaves. */
  readonly #dropped = new Map<Hash, NeedyVersion>();
  readonly #queue = new SerialQueue();
  #inUse = false;
  /** The length of the journal when the counts were settled last. */
  #settledLength = -1;
  constructor(
    private readonly objects: IndexedObjects,
    private readonly state: FleetState,
    private readonly records: SaveRecords,
  ) {}

  /** Call when the fact is applied: from then on a collection may remove the tensors, and needs what a replay needs. */
  tensorsDropped(versionId: Hash, before: ReadVersion, dropped: DroppedNeeds): void {
    if (!this.#isCounted(versionId)) return;
    this.#discount(versionId, before);
    this.#count(versionId, { ...before, dropped });
  }

  /** Call when the fact is applied. Reads nothing: the replay's inputs may be damaged, and then this matters most. */
  tensorsKept(versionId: Hash, leaves: LeafTable): void {
    const before = this.#dropped.get(versionId);
    if (before === undefined) return;
    this.#discount(versionId, before);
    this.#count(versionId, { record: before.record, leaves, data: before.data });
  }

  /** Call when the fact is applied: from then on a collection may remove what only this version needed of its data. */
  dataDropped(versionId: Hash, before: ReadVersion): void {
    if (!this.#isCounted(versionId)) return;
    this.#discount(versionId, before);
    this.#count(versionId, { ...before, data: noData });
  }

  /**
   * Counts a version that was just recorded. Does nothing before the index is first used.
   */
  add(versionId: Hash, version: ReadVersion): void {
    if (!this.#inUse) return;
    this.#countRecord(versionId, version.record);
    this.#count(versionId, version);
  }

  /** True if a version names this engine, retired ones too. Call `settle` first. */
  namesEngine(engine: Hash): boolean {
    return this.#engines.has(engine);
  }

  /** Call when the fact is applied that names the manifest of a stored data set. */
  addStoredData(object: Hash, chunks: readonly Hash[]): void {
    this.#storedData.set(object, chunks);
  }

  /**
   * Counts exactly the versions that the state keeps.
   * @throws COLLECTION_REFUSED where a kept version cannot be read
   */
  async settle(): Promise<void> {
    this.#inUse = true;
    await this.#queue.run(() => this.#settleNow());
  }

  async #settleNow(): Promise<void> {
    const { length } = this.state;
    if (length !== this.#settledLength) {
      const isKept = isKeptIn(this.state);
      for await (const version of inSteps(this.state.versions.values()))
        await this.#settleVersion(version, isKept(version));
      // Facts that came meanwhile are looked at the next time.
      this.#settledLength = length;
    }
    await this.#readStoredData();
  }

  async #settleVersion({ versionId, position, retired }: VersionState, isKept: boolean): Promise<void> {
    if (!this.#recorded.has(position)) this.#countRecord(versionId, this.records.get(versionId));
    if (isKept === this.#counted.has(position)) return;
    if (isKept)
      await this.#withVersion(versionId, (version) => {
        this.#count(versionId, version);
      });
    else if (retired !== undefined)
      await this.#withVersion(versionId, (version) => {
        this.#discount(versionId, version);
      });
  }

  /** Reads the chunks of the stored data sets that must stay. */
  async #readStoredData(): Promise<void> {
    const wanted = this.#wantedData(this.#contents);
    for (const object of this.#storedData.keys()) if (!wanted.has(object)) this.#storedData.delete(object);
    for (const object of wanted) {
      if (this.#storedData.has(object)) continue;
      const manifest = await readManifest(this.objects, object);
      if (manifest !== undefined)
        this.#storedData.set(
          object,
          manifest.chunks.map(({ id }) => id),
        );
    }
  }

  /** Manifests of stored data sets that are registered or that versions name by their content. */
  #wantedData(contents: Iterable<readonly [Hash, number]>): ReadonlySet<Hash> {
    const wanted = [...this.#wantedContents(contents)];
    return new Set(wanted.flatMap((hash) => this.state.dataObjects.get(hash) ?? []));
  }

  /** Content hashes of data sets that are registered or that versions name by their content. */
  #wantedContents(contents: Iterable<readonly [Hash, number]>): ReadonlySet<Hash> {
    const registered = [...this.state.datasets.values()].flatMap(({ hash }) => hash ?? []);
    return new Set([...registered, ...[...contents].map(([content]) => content)]);
  }

  /**
   * Stored data sets may be lost without damage to a version that names them by content only, so what is not here
   * keeps no collection from running.
   */
  #addStoredData(live: Set<Hash>, contents: Iterable<readonly [Hash, number]>): void {
    for (const hash of this.#wantedContents(contents)) {
      const object = this.state.dataObjects.get(hash);
      if (object === undefined) continue;
      const descriptions = this.state.dataDescriptions.get(hash) ?? [];
      for (const id of [object, ...descriptions, ...(this.#storedData.get(object) ?? [])])
        if (this.objects.has(id)) live.add(id);
    }
  }

  /** The live objects according to the counts, which may change meanwhile; call `settle` first. */
  live(): LiveObjects {
    const others = this.#otherObjects();
    this.#addStoredData(others, this.#contents);
    return this.#liveBy((id) => this.objects.references.of(id) > 0, others);
  }

  #liveBy(isCounted: (id: Hash) => boolean, others: ReadonlySet<Hash>): LiveObjects {
    const has = (id: Hash): boolean => others.has(id) || (isCounted(id) && !this.#mayBeAbsent(id));
    const { references } = this.objects;
    return {
      has,
      *keys() {
        for (const id of references.absent()) if (has(id)) yield id;
        yield* others;
      },
    };
  }

  /**
   * Objects that are not counted: of evaluations and releases.
   * @param gone versions that are looked at as if they were retired
   */
  #otherObjects(gone: ReadonlySet<Hash> = new Set()): Set<Hash> {
    const others = new Set<Hash>();
    const isKept = isKeptIn(this.state);
    for (const position of this.state.evaluated.values()) {
      const version = this.state.versions.at(position);
      if (version !== undefined && !gone.has(version.versionId) && isKept(version))
        for (const id of evaluationObjectsOf(version)) others.add(id);
    }
    if (this.state.releases !== undefined) others.add(this.state.releases);
    return others;
  }

  /**
   * An engine that is not here yet does not keep a collection from running; redacted openings are collected, and so is
   * an engine that was removed after others had proved all its versions.
   */
  #mayBeAbsent(id: Hash): boolean {
    if (this.#required.has(id)) return false;
    if (this.state.redacted.has(id)) return true;
    return this.#engines.has(id) && (!this.objects.has(id) || this.state.removedEngines.has(id));
  }

  /**
   * The objects that would be live if these versions were retired. None of them may be held or in use.
   * @throws COLLECTION_REFUSED
   */
  async liveWithout(retired: readonly Hash[]): Promise<LiveObjects> {
    const gone = new Map<Hash, number>();
    const goneContents = new Map<Hash, number>();
    const versionIds = new Set(retired);
    for await (const versionId of inSteps(versionIds)) {
      const version = await this.#read(versionId);
      // Its record stays, as that of every version.
      for (const id of neededBy(versionId, version)) if (id !== versionId) change(gone, id, 1);
      for (const content of version.data.elsewhere) change(goneContents, content, 1);
    }
    await this.settle();
    const others = this.#otherObjects(versionIds);
    const contents = [...this.#contents].filter(([id, count]) => count > (goneContents.get(id) ?? 0));
    this.#addStoredData(others, contents);
    return this.#liveBy((id) => this.objects.references.of(id) > (gone.get(id) ?? 0), others);
  }

  /**
   * Reads a version, again where its tensors were dropped, or stored again, meanwhile: what is counted is what it needs
   * in this moment, so nothing may come between the last look and `use`.
   */
  async #withVersion(versionId: Hash, use: (version: NeedyVersion) => void): Promise<void> {
    for (;;) {
      const counted = this.#dropped.get(versionId);
      if (counted !== undefined) return use(counted);
      const { dropped, dataDropped } = this.state.versions.get(versionId) ?? {};
      const version = await this.#read(versionId);
      const now = this.state.versions.get(versionId);
      if (isDeepStrictEqual([now?.dropped, now?.dataDropped], [dropped, dataDropped])) return use(version);
    }
  }

  async #read(versionId: Hash): Promise<NeedyVersion> {
    try {
      const { dropped, dataDropped } = this.state.versions.get(versionId) ?? {};
      const record = this.records.get(versionId);
      if (record === undefined) throw recordMissing(versionId);
      return {
        record,
        leaves: await readDistinctLeaves(this.objects, record),
        data: dataDropped === undefined ? await usedDataOf(this.objects, record.uses?.data) : noData,
        ...defined({ dropped: dropped && (await neededByReplay(this.objects, dropped)) }),
      };
    } catch (cause) {
      throw needsUnknown(versionId, cause);
    }
  }

  #isCounted(versionId: Hash): boolean {
    const position = this.state.versions.positionOf(versionId);
    return position !== undefined && this.#counted.has(position);
  }

  /** Counts a version's record, which stays for ever, and notes the engine that it names. */
  #countRecord(versionId: Hash, record: SaveRecord | undefined): void {
    const position = this.state.versions.positionOf(versionId);
    if (position === undefined || !this.#recorded.add(position)) return;
    this.objects.references.change(versionId, 1);
    if (record?.uses?.engine !== undefined) this.#engines.add(record.uses.engine);
  }

  #count(versionId: Hash, version: NeedyVersion): void {
    const position = this.state.versions.positionOf(versionId);
    if (position === undefined || !this.#counted.add(position)) return;
    for (const id of requiredByReplay(version)) change(this.#required, id, 1);
    if (version.dropped !== undefined) this.#dropped.set(versionId, { ...version, leaves: [] });
    for (const id of neededBy(versionId, version)) this.objects.references.change(id, 1);
    for (const content of version.data.elsewhere) change(this.#contents, content, 1);
  }

  #discount(versionId: Hash, version: NeedyVersion): void {
    const position = this.state.versions.positionOf(versionId);
    if (position === undefined || !this.#counted.delete(position)) return;
    for (const id of requiredByReplay(version)) change(this.#required, id, -1);
    this.#dropped.delete(versionId);
    for (const id of neededBy(versionId, version)) this.objects.references.change(id, -1);
    for (const content of version.data.elsewhere) change(this.#contents, content, -1);
  }
}

function neededBy(versionId: Hash, { record, leaves, data, dropped }: NeedyVersion): ReadonlySet<Hash> {
  const { chunks } = data;
  if (dropped === undefined)
    return referencesOf({ state: "kept", versionId, record, leaves, dataChunks: chunks });
  const needed = referencesOf({
    state: "kept",
    versionId,
    record,
    leaves: [],
    dataChunks: [...chunks, ...dropped.dataChunks],
  });
  return new Set([...needed, dropped.engine, ...(dropped.data === null ? [] : [dropped.data])]);
}

/** Returns the objects that only a record may name, and a replay needs. */
function requiredByReplay({ record, dropped }: NeedyVersion): readonly Hash[] {
  if (dropped === undefined) return [];
  const { openings } = record.objects;
  return openings === undefined ? [dropped.engine] : [dropped.engine, openings];
}

/** Returns what a replay needs, with the chunks of its data. @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH */
export async function neededByReplay(
  objects: Pick<ObjectReader, "read" | "stat" | "openStream" | "has">,
  { engine, data }: Pick<Dropped, "engine" | "data">,
): Promise<DroppedNeeds> {
  const { chunks } = await usedDataOf(objects, data === null ? [] : [data]);
  return { engine, data, dataChunks: chunks };
}

function change(counts: Map<Hash, number>, id: Hash, by: 1 | -1): void {
  const count = (counts.get(id) ?? 0) + by;
  if (count > 0) counts.set(id, count);
  else counts.delete(id);
}
