/** Data and ports that the functions of an open repository share. */
import type { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import type { FileJournal } from "../../../shared/journal/file-journal.js";
import type { SaveRecord } from "../../../shared/model/model.js";
import type { PackStore } from "../../../shared/objects/pack-store.js";
import type { Clock, Files, Log, Random } from "../../../shared/ports.js";
import type { Environment } from "../../../shared/model/environment.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { LayeredValues } from "../index/layered-values.js";
import type { CandidateTable } from "../lineage/candidate-table.js";
import type { CatalogKeeper } from "./catalog-keeper.js";
import type { FactQueue } from "./commit-queue.js";
import type { DroppedTensors } from "./versions/dropped-tensors.js";
import type { ModelLeases } from "./model-leases.js";
import type { DecodedArchitectures } from "./decoded-architectures.js";
import type { PrefixKeeper } from "./prefix-keeper.js";
import type { RowKeeper } from "./row-keeper.js";
import type { RecordCache } from "./state/record-cache.js";
import type { StateIndex } from "./state/state-index.js";
import type { ReferenceIndex } from "./state/references.js";
import type { FleetState } from "./state/state.js";
import type { VersionIndexes } from "./state/version-table.js";

export interface RepositoryContext extends VersionIndexes {
  readonly fleet: string;
  readonly folder: string;
  readonly files: Files;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log | undefined;
  /** The environment of this process; recorded with models saved here unless the save names another one. */
  readonly environment: Environment;
  readonly objects: PackStore;
  readonly journal: FileJournal;
  readonly state: FleetState;
  /** The records of claims. */
  readonly claimRecords: Map<Hash, SaveRecord>;
  /** `records` to `damaged`: see VersionTable. */
  readonly records: LayeredValues<SaveRecord>;
  readonly damaged: Map<Hash, unknown>;
  readonly recordCache: RecordCache;
  readonly index: StateIndex;
  /** Writes the index where it lacks many facts. Call when no more will be applied. */
  readonly endIndex: () => Promise<void>;
  readonly queue: FactQueue;
  readonly references: ReferenceIndex;
  readonly catalog: CatalogKeeper;
  readonly prefixes: PrefixKeeper;
  readonly architectures: DecodedArchitectures;
  readonly rows: () => Promise<RowKeeper>;
  readonly leases: ModelLeases;
  readonly droppedTensors: DroppedTensors;
  /** Called after facts about these versions were applied. */
  readonly versionsChanged: (versionIds: readonly Hash[]) => void;
  /** Runs collections, checks and backups serially: a collection would delete packs that a backup copies. */
  readonly maintenanceQueue: SerialQueue;
  /** Changes the kept checkpoints serially. */
  readonly checkpointQueue: SerialQueue;
  /** Highest sequence number used by each device and line; keys are from sequenceKey. */
  readonly lastSequences: Map<string, number>;
  readonly candidates: CandidateTable;
}
