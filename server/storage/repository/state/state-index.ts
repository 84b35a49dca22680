/**
 * The index of a fleet: its state on the disk, as it was at a position of the journal. It is derived from the journal
 * and the save records, and may be deleted at any moment; what the journal has beyond it is applied at a start. Rows
 * hold versions, lists and records, which memory reads one by one; devices, rollouts and the rest are read at a start.
 *
 * The tables' head is JSON: the form of the state, the release of V8's serialization, the position, the journal's chain
 * hash there, and the number of versions.
 */
import { deserialize, serialize } from "node:v8";
import * as z from "zod";
import { nextTurn } from "../../../../shared/concurrency/in-steps.js";
import { messageOf } from "../../../../shared/error-text.js";
import type { StemmaError } from "../../../../shared/errors.js";
import { decodeCheckedRecord, encodeSaveRecord } from "../../../../shared/model/save-record.js";
import type { SaveRecord } from "../../../../shared/model/model.js";
import type { Files, FilesToReadNow, Log } from "../../../../shared/ports.js";
import {
  afterPrefix,
  DamagedTables,
  type Row,
  type RowRange,
  type Rows,
} from "../../../../shared/tables/row.js";
import { TableSet } from "../../../../shared/tables/table-set.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { orderOf, type LayeredPart, type SavedRows } from "../../index/layers.js";
import { LayeredValues } from "../../index/layered-values.js";
import { CandidateTable } from "../../lineage/candidate-table.js";
import type { DeviceState } from "./device-state.js";
import type { RolloutState } from "./rollout-state.js";
import { indexDamaged } from "./state-errors.js";
import { emptyState, type FleetState } from "./state.js";
import { stateTables } from "./state-tables.js";
import { versionIndexes, type VersionIndexes } from "./version-table.js";

/**
 * The form of what the rows hold. It is raised whenever the same facts give another state, so that no release reads the
 * state of another one; a test compares the code of this folder with it.
 */
export const stateForm = 7;
/** The second byte that V8 writes: older releases cannot read what newer ones wrote. */
const serializer = serialize(0)[1] ?? 0;
/** Rows that are made between two turns of the event loop. */
const rowsPerTurn = 256;

const headSchema = z.strictObject({
  form: z.literal(stateForm),
  serializer: z.int().max(serializer),
  position: z.int().min(1),
  chain: z.string(),
  versions: z.int().min(0),
});
type Head = z.infer<typeof headSchema>;

const layeredMembers = ["versions", "names", "activations", "unsettled", "evaluated", "replayed"] as const;
const otherMembersWithRows = ["devices", "rollouts", "changed"] as const;
type MemberWithRows = (typeof layeredMembers | typeof otherMembersWithRows)[number];
const membersWithRows = new Set<string>([...layeredMembers, ...otherMembersWithRows]);
/** The members of a state that one row holds. */
type Rest = Omit<FleetState, MemberWithRows>;

/** The state to which facts and records lead, on the disk and in memory. */
export interface IndexedState extends VersionIndexes {
  readonly state: FleetState;
  readonly records: LayeredValues<SaveRecord>;
  /** See RepositoryContext.lastSequences. */
  readonly lastSequences: Map<string, number>;
  /** The versions that the search for a nearest ancestor finds. */
  readonly candidates: CandidateTable;
}

export interface StateIndexOptions {
  readonly files: Files;
  readonly folder: string;
  readonly fleet: string;
  readonly log: Log | undefined;
  /** False: it is read beside whoever writes it. */
  readonly mayWrite: boolean;
  /** Called before each device is read; what it returns is waited for, and what it throws ends the opening. */
  readonly onItem?: (() => Promise<void> | undefined) | undefined;
}

/** Indexes that were found damaged by this process, which may not be able to remove them. */
const foundDamaged = new Set<string>();

/** True if the next opening of the index in this folder leaves out what is there. */
export function isFoundDamaged(folder: string): boolean {
  return foundDamaged.has(folder);
}

export class StateIndex {
  readonly indexed: IndexedState;
  #unread: readonly Hash[] = [];
  /** Resolves when rows were found damaged: the fleet has to be opened again. */
  readonly failed: Promise<StemmaError>;
  #reportFailed: (error: StemmaError) => void = () => undefined;
  readonly #saved: SavedRows;
  #head: Head | undefined;
  /** The bytes of records that are not on the disk yet. */
  readonly #recordBytes = new WeakMap<SaveRecord, Buffer>();
  #saving: Promise<boolean> | undefined;
  /** The removal of an index that was found damaged. */
  #removal: Promise<void> | undefined;
  #isClosed = false;

  private constructor(
    private readonly options: StateIndexOptions,
    private readonly tables: TableSet | undefined,
    head: Head | undefined,
  ) {
    this.failed = new Promise((resolve) => {
      this.#reportFailed = resolve;
    });
    this.#head = head;
    this.#saved = { rows: tables && this.#guarded(tables), commits: 0 };
    this.indexed = this.#empty();
  }

  /**
   * Opens the index of a fleet, or begins one without rows where there is none that this release can use. Nothing is
   * written before `save`. @throws FILE_FAILED
   */
  static async open(options: StateIndexOptions): Promise<StateIndex> {
    const { files: someFiles, folder, mayWrite } = options;
    const files = readable(someFiles);
    if (files === undefined) return StateIndex.#begun(options);
    if (foundDamaged.delete(folder)) return await StateIndex.#anew(options, "it was found damaged");
    let tables: TableSet | undefined;
    try {
      tables = await TableSet.open(files, folder);
      if (tables === undefined) return StateIndex.#begun(options);
      const head = headOf(tables.head);
      if (head === undefined) throw new DamagedIndex("another release wrote it");
      const index = new StateIndex(options, tables, head);
      await index.#read();
      if (mayWrite) await tables.removeRests();
      return index;
    } catch (error) {
      await tables?.close();
      const isDamage = error instanceof DamagedTables || error instanceof DamagedIndex;
      if (!isDamage && !foundDamaged.delete(folder)) throw error;
      return await StateIndex.#anew(options, messageOf(error));
    }
  }

  /** Begins an index without rows in the place of one that cannot be used. */
  static async #anew(options: StateIndexOptions, why: string): Promise<StateIndex> {
    const { files, folder, fleet, log, mayWrite } = options;
    log?.warn("index-made-anew", { fleet, why });
    if (mayWrite) await TableSet.remove(files, folder);
    return StateIndex.#begun(options);
  }

  static #begun(options: StateIndexOptions): StateIndex {
    const files = readable(options.files);
    const isKept = files !== undefined && options.mayWrite;
    return new StateIndex(options, isKept ? TableSet.empty(files, options.folder) : undefined, undefined);
  }

  /** Closes this index, which cannot be used, and begins another one in its place. */
  async anew(why: string): Promise<StateIndex> {
    await this.close();
    return await StateIndex.#anew(this.options, why);
  }

  /** The number of facts whose outcome is on the disk. */
  get position(): number {
    return this.#head?.position ?? 0;
  }
  /** The journal's chain hash at that position; undefined where nothing is on the disk. */
  get chain(): string | undefined {
    return this.#head?.chain;
  }
  /** Versions whose records could not be read when the index was written. */
  get unread(): readonly Hash[] {
    return this.#unread;
  }
  get fileCount(): number {
    return this.tables?.fileCount ?? 0;
  }
  get isSaving(): boolean {
    return this.#saving !== undefined;
  }

  /**
   * Writes the state as it is now. Facts may be applied meanwhile; they are part of the next saving.
   * @param chain the journal's chain hash after the state's facts
   * @returns false where this index is not written by this process
   * @throws DISK_FULL, FILE_FAILED, and the index is what it was
   */
  save(chain: string, damaged: Iterable<Hash>): Promise<boolean> {
    this.#saving ??= this.#save(chain, [...damaged]).finally(() => {
      this.#saving = undefined;
    });
    return this.#saving;
  }

  async #save(chain: string, damaged: readonly Hash[]): Promise<boolean> {
    const { tables } = this;
    if (tables === undefined || !this.options.mayWrite || this.#isClosed) return false;
    const { state, lastSequences, records, candidates, ...indexes } = this.indexed;
    const head: Head = {
      form: stateForm,
      serializer,
      position: state.length,
      chain,
      versions: state.versions.size,
    };
    const { devices, rollouts, changed } = state;
    const rest = Object.fromEntries(Object.entries(state).filter(([member]) => !membersWithRows.has(member)));
    const changedBefore = { devices: [...changed.devices], rollouts: [...changed.rollouts] };
    // Facts change devices and rollouts in place, so they are copied in this moment; layers are not changed any more.
    const rows: Row[] = [
      ...changedRows(stateTables.devices, devices, changed.devices),
      ...changedRows(stateTables.rollouts, rollouts, changed.rollouts),
      { key: restKey, value: serialize({ rest, lastSequences, damaged, candidates: candidates.size }) },
    ];
    changed.devices.clear();
    changed.rollouts.clear();
    const parts: readonly LayeredPart[] = [
      ...layeredMembers.map((member) => state[member]),
      records,
      ...candidates.parts,
      ...Object.values<LayeredPart>({ ...indexes }),
    ];
    const begun = parts.map((part) => part.beginCommit());
    try {
      for (const part of begun)
        for (const row of part) {
          rows.push(row);
          if (rows.length % rowsPerTurn === 0) await nextTurn();
        }
      rows.sort((a, b) => a.key.compare(b.key));
      await tables.commit(rows, Buffer.from(JSON.stringify(head)));
    } catch (error) {
      for (const part of parts) part.failed();
      for (const device of changedBefore.devices) changed.devices.add(device);
      for (const rollout of changedBefore.rollouts) changed.rollouts.add(rollout);
      throw error;
    }
    for (const part of parts) part.committed();
    this.#saved.commits++;
    this.#head = head;
    return true;
  }

  /** Adds the record of a version, whose bytes are kept as they were received. */
  addRecord(versionId: Hash, record: SaveRecord, bytes: Uint8Array): void {
    if (this.tables !== undefined) this.#recordBytes.set(record, Buffer.from(bytes));
    this.indexed.records.set(versionId, record);
  }

  #bytesOf(record: SaveRecord): Buffer {
    return this.#recordBytes.get(record) ?? Buffer.from(encodeSaveRecord(record));
  }

  /**
   * Compares all rows on the disk with their checksums; nothing is saved meanwhile.
   * @throws STORE_FAILED, HOME_CHANGED: open the fleet again, which builds the index again
   */
  async verify(): Promise<void> {
    await this.#saving?.catch(() => undefined);
    const verified = this.#verify();
    this.#saving = verified.then(
      () => false,
      () => false,
    );
    await verified.finally(() => {
      this.#saving = undefined;
    });
  }

  async #verify(): Promise<void> {
    if (this.#isClosed) return;
    try {
      await this.tables?.verify();
    } catch (error) {
      throw error instanceof DamagedTables ? this.#damaged(error) : error;
    }
  }

  /** Removes an index that is damaged, which ends the work: what else is wrong is not known. */
  #damaged(error: DamagedTables): StemmaError {
    const { folder, fleet, log, mayWrite, files } = this.options;
    foundDamaged.add(folder);
    log?.error("index-damaged", { fleet, message: error.message });
    if (mayWrite) this.#removal ??= TableSet.remove(files, folder).catch(() => undefined);
    const failure = indexDamaged({ fleet, folder, mayWrite }, error);
    this.#reportFailed(failure);
    return failure;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#saving?.catch(() => undefined);
    await this.#removal;
    await this.tables?.close();
  }

  #empty(): IndexedState {
    const saved = this.#saved;
    const state = emptyState(saved, this.#head?.versions ?? 0);
    const indexes = versionIndexes(saved);
    const records = new LayeredValues<SaveRecord>(
      stateTables.records,
      { encode: (record) => this.#bytesOf(record), decode: decodeCheckedRecord },
      saved,
      (versionId) => state.versions.positionOf(versionId),
    );
    const candidates = new CandidateTable(
      { ranked: stateTables.candidates, ranks: stateTables.candidateRanks },
      saved,
    );
    return { state, records, ...indexes, lastSequences: new Map(), candidates };
  }

  /** Reads what is kept in memory. */
  async #read(): Promise<void> {
    const { rows } = this.#saved;
    const { state, lastSequences, candidates } = this.indexed;
    const bytes = rows?.get(restKey);
    if (rows === undefined || bytes === undefined) throw new DamagedIndex("it lacks a row");
    const read = deserialize(bytes) as {
      readonly rest: Rest;
      readonly lastSequences: ReadonlyMap<string, number>;
      readonly damaged: readonly Hash[];
      readonly candidates: number;
    };
    if (read.rest.length !== this.position) throw new DamagedIndex("its rows are of another position");
    Object.assign(state, read.rest);
    for (const [line, sequence] of read.lastSequences) lastSequences.set(line, sequence);
    this.#unread = read.damaged;
    candidates.opened(read.candidates);
    for (const bytesOfDevice of valuesOf(rows, stateTables.devices)) {
      const look = this.options.onItem?.();
      if (look !== undefined) await look;
      const device = deserialize(bytesOfDevice) as DeviceState;
      state.devices.set(device.device, device);
    }
    for (const bytesOfRollout of valuesOf(rows, stateTables.rollouts)) {
      const rollout = deserialize(bytesOfRollout) as RolloutState;
      state.rollouts.set(rollout.name, rollout);
    }
  }

  #guarded(tables: TableSet): Rows {
    const guard = <T>(read: () => T): T => {
      try {
        return read();
      } catch (error) {
        if (!(error instanceof DamagedTables)) throw error;
        throw this.#damaged(error);
      }
    };
    return {
      get: (key: Buffer) => guard(() => tables.get(key)),
      page: (range: RowRange) => guard(() => tables.page(range)),
    };
  }
}

function readable(files: Files): FilesToReadNow | undefined {
  return files.openNow === undefined ? undefined : { ...files, openNow: files.openNow };
}

/** Rows that do not hold what they should. */
class DamagedIndex extends Error {}

function headOf(bytes: Buffer): Head | undefined {
  try {
    return headSchema.safeParse(JSON.parse(bytes.toString())).data;
  } catch {
    return undefined;
  }
}

const restKey = Buffer.of(stateTables.rest);

/** Rows of what changed of a map, in which nothing is removed, in the order of the map. */
function* changedRows(
  table: number,
  values: ReadonlyMap<string, unknown>,
  changed: ReadonlySet<string>,
): Iterable<Row> {
  if (changed.size === 0) return;
  let number = 0;
  for (const [name, value] of values) {
    if (changed.has(name))
      yield { key: Buffer.concat([Buffer.of(table), orderOf(number)]), value: serialize(value) };
    number++;
  }
}

const valuesPerPage = 512;

function* valuesOf(rows: Rows, table: number): Iterable<Buffer> {
  const until = afterPrefix(Buffer.of(table));
  for (let from: Buffer = Buffer.of(table); ;) {
    const page = rows.page({ from, until, limit: valuesPerPage });
    for (const { value } of page) yield value;
    const last = page.at(-1);
    if (last === undefined) return;
    from = Buffer.concat([last.key, Buffer.of(0)]);
  }
}
