/**
 * What can be asked of a home: one interface with two doors. `localOperations` (local-operations.ts)
 * answers in this process, over an open home; `httpOperations` (../http/client.ts) asks a running
 * server over its local socket or a URL. Commands and the demo speak to this and never care which.
 * Types only; knows nothing of HTTP, MQTT or files.
 */
import type { Hash } from "../../shared/tensor/tensor.js";
import type { JournalHead } from "../../shared/journal/journal.js";
import type { CollectionPlan } from "../../shared/objects/object-store.js";
import type { EnvironmentPolicy, EnvironmentVerdict, RecoverySteps } from "../../shared/recover/recovery.js";
import type { TrainingResult } from "../../shared/train/training.js";
import type { CheckReport, DeviceSummary, FleetMoment, ModelDiff, SaveReport, VersionSummary } from "../repository/fleet-repository.js";
import type { ServerEvent } from "../events/event-hub.js";

export interface Health {
  readonly status: "ok" | "stopping";
  readonly version: string;
  readonly home: string;
  readonly pid: number;
  readonly startedAtMs: number;
  readonly mqttUrl: string | null;
  readonly httpUrl: string | null;
  readonly fleets: readonly string[];
  /** Devices connected now. */
  readonly connected: number;
}

export interface FleetInfo { readonly fleet: string; readonly versions: number; readonly devices: number; readonly connected: number; readonly head: JournalHead; /** Base64 of the server's Ed25519 public key (SPKI DER or raw, as the trust room writes it). */ readonly publicKey: string }

export interface DeviceDetail extends DeviceSummary {
  readonly connected: boolean;
  /** Of the last birth seen by this server process. */
  readonly runtime?: string;
  readonly agentVersion?: string;
  readonly assignments: Readonly<Record<string, Hash>>;
  /** Newest version of each line. */
  readonly heads: Readonly<Record<string, Hash>>;
}

export interface EnrolRequest {
  readonly device: string;
  readonly lines: readonly string[];
  readonly profile?: string;
  /** How the device reaches the broker; the server's own URL when absent. */
  readonly mqttUrls?: readonly string[];
  readonly httpUrl?: string;
}
/** Content of the enrolment file, as JSON (its form belongs to shared/trust). It holds secrets: written 0600 by who asked. */
export type EnrolmentFile = Readonly<Record<string, unknown>>;

export interface ModelFilter { readonly name?: string; readonly device?: string; readonly line?: string; readonly includeRetired?: boolean }
export interface LeafDetail { readonly path: string; readonly name: string; readonly dtype: string; readonly shape: readonly number[]; readonly tensor: Hash; /** Version that brought this tensor. */ readonly owner: Hash }
export interface ModelDetail {
  readonly summary: VersionSummary;
  readonly bases: readonly VersionSummary[];
  readonly children: readonly VersionSummary[];
  readonly leaves: readonly LeafDetail[];
  readonly environment: Readonly<Record<string, string>>;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  readonly measurements: unknown;
  readonly provenance: unknown;
  readonly attachments: readonly { readonly name: string; readonly hash: Hash }[];
}

export interface RecoverRequest { readonly model: string; readonly environment?: EnvironmentPolicy }
/** A recovered model as the bytes of a safetensors file. Reading `chunks` to the end is the proof: it throws where a byte is not what was recorded. */
export interface RecoveredFile {
  readonly summary: VersionSummary;
  readonly byteLength: number;
  readonly root: Hash;
  readonly environment: EnvironmentVerdict;
  readonly steps: RecoverySteps;
  chunks(): AsyncIterable<Uint8Array>;
}

export interface ImportRequest {
  readonly name: string;
  /** model.json of tfjs, as text; without it the model is opaque. */
  readonly architectureJson?: string;
  /** References as a user writes them. */
  readonly bases?: readonly string[];
  readonly successorOf?: string;
  readonly approach?: "snapshot" | "update";
  readonly metadata?: Readonly<Record<string, string | number | boolean>>;
  readonly attachments?: readonly { readonly name: string; readonly base64: string }[];
}

export interface VerifyReport { readonly summary: VersionSummary; readonly root: Hash; readonly exact: true; readonly tensors: number; readonly bytes: number; readonly environment: EnvironmentVerdict; readonly steps: RecoverySteps }

export interface StorageStats { readonly fleet: string; readonly versions: number; readonly tensors: number; readonly objects: number; readonly packBytes: number; readonly journalBytes: number; readonly logicalBytes: number; readonly packs: number; readonly freeBytes: number }
export interface DatasetInfo { readonly name: string; readonly kind: string; readonly location: string; readonly hash: Hash | null }

export interface TrainRequest {
  /** Base model; absent: the recipe's own initialisation. */
  readonly base?: string;
  readonly recipe: string;
  /** A registered data set's name, or "reader" or "reader:location" of the training room's readers. */
  readonly data: string;
  /** Parameters of the reader (cells, slices, seeds …). */
  readonly dataParameters?: Readonly<Record<string, string | number | boolean | readonly string[]>>;
  readonly name: string;
  readonly parameters?: Readonly<Record<string, string | number | boolean>>;
  /** Decimal string; "0" when absent. */
  readonly seed?: string;
}
export interface TrainStatus {
  readonly job: string;
  readonly state: "running" | "done" | "failed" | "cancelled";
  readonly startedAtMs: number;
  readonly endedAtMs: number | null;
  readonly progress: { readonly epoch: number; readonly iteration: number; readonly loss: number | null } | null;
  readonly result: { readonly summary: VersionSummary; readonly metric: TrainingResult["metric"]; readonly epochs: number; readonly durationMs: number } | null;
  readonly error: { readonly code: string; readonly message: string } | null;
}

export interface CommandReply { readonly code: string; readonly result: unknown }

/** Every method names the fleet first; typed StemmaErrors come through both doors with their code. */
export interface ServerOperations {
  health(): Promise<Health>;
  fleets(): Promise<readonly FleetInfo[]>;

  devices(fleet: string): Promise<readonly DeviceDetail[]>;
  device(fleet: string, device: string): Promise<DeviceDetail>;
  enroll(fleet: string, request: EnrolRequest): Promise<EnrolmentFile>;
  revoke(fleet: string, device: string, because: string): Promise<void>;
  /** Gives a server model to a device's line as its initial model or update; offered until it is activated. */
  assign(fleet: string, device: string, line: string, model: string): Promise<VersionSummary>;
  /** A command to a device that is connected now: "train", "report", "activate". @throws SERVER_UNREACHABLE without a server, TIMED_OUT */
  command(fleet: string, device: string, name: string, body: unknown, timeoutMs?: number): Promise<CommandReply>;

  models(fleet: string, filter?: ModelFilter): Promise<readonly VersionSummary[]>;
  model(fleet: string, reference: string): Promise<ModelDetail>;
  log(fleet: string, reference: string): Promise<readonly VersionSummary[]>;
  diff(fleet: string, a: string, b: string): Promise<ModelDiff>;
  recover(fleet: string, request: RecoverRequest): Promise<RecoveredFile>;
  /** The fleet as of a moment, device by device and line by line. */
  asOf(fleet: string, atMs: number): Promise<readonly FleetMoment[]>;
  import(fleet: string, request: ImportRequest, file: AsyncIterable<Uint8Array>): Promise<SaveReport>;
  tag(fleet: string, name: string, tag: string, model: string | null): Promise<void>;
  hold(fleet: string, model: string, held: boolean, because: string): Promise<VersionSummary>;
  retire(fleet: string, model: string, because: string): Promise<VersionSummary>;
  verify(fleet: string, model: string): Promise<VerifyReport>;

  stats(fleet: string): Promise<StorageStats>;
  check(fleet: string, options?: { readonly sample?: number }): Promise<CheckReport>;
  planCollection(fleet: string): Promise<CollectionPlan>;
  collect(fleet: string, plan: CollectionPlan): Promise<{ readonly freedBytes: number }>;
  reindex(fleet: string): Promise<{ readonly versions: number }>;
  backup(fleet: string, folder: string): Promise<{ readonly position: number; readonly bytes: number }>;

  datasets(fleet: string): Promise<readonly DatasetInfo[]>;
  addDataset(fleet: string, dataset: { readonly name: string; readonly kind: string; readonly location: string; readonly hash?: Hash | null }): Promise<DatasetInfo>;
  removeDataset(fleet: string, name: string): Promise<void>;

  train(fleet: string, request: TrainRequest): Promise<TrainStatus>;
  trainStatus(fleet: string, job: string): Promise<TrainStatus>;
  trainJobs(fleet: string): Promise<readonly TrainStatus[]>;
  cancelTrain(fleet: string, job: string): Promise<TrainStatus>;

  /** What happens, as it happens; ends when `signal` aborts. Nothing is kept for who is not listening. */
  events(signal: AbortSignal): AsyncIterable<ServerEvent>;
}
