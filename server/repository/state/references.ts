/**
 * Finds the objects that must stay, by counting references from versions to objects (EV7: one for every
 * tensor of a version, including inherited ones). The index is built at first use from the trees in the
 * store, and is updated when versions are recorded. `settle` brings it up to date with the state. Save
 * records are never collected, so that the names, parents and times of retired versions remain.
 */
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { StemmaError } from "../../../shared/errors.js";
import type { LeafTable, SaveRecord } from "../../../shared/model/model.js";
import { objectsOf, type RecordObject } from "../../../shared/model/record-objects.js";
import type { ObjectReader } from "../../../shared/objects/object-store.js";
import { mayBeAbsent, referencesOf } from "../../../shared/objects/references.js";
import { readDistinctLeaves } from "../../../shared/objects/version-trees.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { decodeTree } from "../../../shared/model/tree-object.js";
import { versionsInUse, type FleetState } from "./state.js";

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

/** Versions whose objects must stay: all that are not retired, and retired ones that are held or in use. */
export function keptVersions(state: FleetState): ReadonlySet<Hash> {
  const inUse = versionsInUse(state);
  const kept = new Set<Hash>();
  for (const version of state.versions.values()) {
    if (version.retired === undefined || version.held !== undefined || inUse.has(version.versionId))
      kept.add(version.versionId);
  }
  return kept;
}

export class ReferenceIndex {
  readonly #counts = new Map<Hash, number>();
  readonly #counted = new Set<Hash>();
  /** Objects that versions name and the store may lack: engines, and openings, which can be redacted. */
  readonly #optional = new Map<Hash, RecordObject>();
  readonly #queue = new SerialQueue();
  #inUse = false;
  constructor(
    private readonly objects: Pick<ObjectReader, "read" | "has">,
    private readonly state: FleetState,
    private readonly records: ReadonlyMap<Hash, SaveRecord>,
  ) {}

  /**
   * Counts a version that was just recorded; `leaves` are those of all its trees. Does nothing before the
   * index is first used.
   */
  add(versionId: Hash, record: SaveRecord, leaves: LeafTable): void {
    if (this.#inUse) this.#count(versionId, record, leaves);
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
    const kept = keptVersions(this.state);
    for (const versionId of kept) {
      if (this.#counted.has(versionId)) continue;
      const { record, leaves } = await this.#read(versionId);
      this.#count(versionId, record, leaves);
    }
    for (const versionId of this.#counted) {
      // A version that is not retired stays counted: it was recorded after `kept` was computed.
      if (kept.has(versionId) || this.state.versions.get(versionId)?.retired === undefined) continue;
      const { record, leaves } = await this.#read(versionId);
      this.#discount(versionId, record, leaves);
    }
  }

  /** The live objects according to the current counts; call `settle` first. */
  live(): ReadonlySet<Hash> {
    const live = new Set<Hash>(this.#counts.keys());
    for (const versionId of this.state.versions.keys()) live.add(versionId);
    this.#dropOptional(live);
    return live;
  }

  /**
   * An engine that is not here yet does not keep a collection from running, and redacted openings are
   * collected.
   */
  #dropOptional(live: Set<Hash>): void {
    const isOptional = mayBeAbsent(this.state.redacted);
    for (const [id, object] of this.#optional)
      if (isOptional(object) && (object.presence === "redactable" || !this.objects.has(id))) live.delete(id);
  }

  /**
   * The objects that would be live if these versions were retired. None of them may be held or in use.
   * @throws COLLECTION_REFUSED
   */
  async liveWithout(retired: readonly Hash[]): Promise<ReadonlySet<Hash>> {
    const gone = new Map<Hash, number>();
    for (const versionId of new Set(retired)) {
      const { record, leaves } = await this.#read(versionId);
      for (const id of referencesOf({ state: "kept", versionId, record, leaves }))
        gone.set(id, (gone.get(id) ?? 0) + 1);
    }
    await this.settle();
    const live = new Set(this.live());
    for (const [id, count] of gone)
      if ((this.#counts.get(id) ?? 0) <= count && !this.state.versions.has(id)) live.delete(id);
    return live;
  }

  async #read(versionId: Hash): Promise<{ readonly record: SaveRecord; readonly leaves: LeafTable }> {
    try {
      const record = this.records.get(versionId);
      if (record === undefined)
        throw new StemmaError("OBJECT_MISSING", `The save record ${versionId} is not in the store.`, {
          id: versionId,
        });
      return { record, leaves: await readDistinctLeaves(this.objects, record) };
    } catch (cause) {
      throw new StemmaError(
        "COLLECTION_REFUSED",
        `The objects that ${versionId} needs cannot be determined, so nothing can be collected. Run \`stemma storage check\` and restore it, or retire that version.`,
        { versionId, cause },
      );
    }
  }

  #count(versionId: Hash, record: SaveRecord, leaves: LeafTable): void {
    if (this.#counted.has(versionId)) return;
    this.#counted.add(versionId);
    for (const object of objectsOf(record))
      if (object.presence !== "required") this.#optional.set(object.id, object);
    for (const id of referencesOf({ state: "kept", versionId, record, leaves }))
      this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
  }

  #discount(versionId: Hash, record: SaveRecord, leaves: LeafTable): void {
    if (!this.#counted.delete(versionId)) return;
    for (const id of referencesOf({ state: "kept", versionId, record, leaves })) {
      const count = (this.#counts.get(id) ?? 0) - 1;
      if (count > 0) this.#counts.set(id, count);
      else this.#counts.delete(id);
    }
  }
}
