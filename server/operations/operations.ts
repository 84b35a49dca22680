/**
 * Everything a person can ask of a server or of a home without one: one interface, two doors. The
 * local door (local-operations.ts) works on an opened home in this process; the remote door
 * (../http/client.ts) asks a running server over HTTP or its unix socket. Commands know only this.
 * All answers are plain JSON values, except where bytes stream.
 */
import type { Hash } from "../../shared/tensor/tensor.js";
import type { EnvironmentPolicy, EnvironmentVerdict } from "../../shared/model/environment.js";
import type { RecoverySteps } from "../../shared/recover/recovery.js";
import type { DatasetReference, Measurement, TrainingResult } from "../../shared/train/training.js";
import type { Difference } from "../../shared/schemes/difference.js";
import type { EvaluationResult } from "../../shared/train/evaluation-job.js";
import type { Metric } from "../../shared/train/recipes/recipe.js";
import type { CollectionPlan } from "../../shared/objects/object-store.js";
import type { ApplyReport } from "../archive/apply-plan.js";
import type { ArchivePlan } from "../archive/archive-plan.js";
import type { PlanArchiveOptions } from "../archive/plan-archive.js";
import type { ServerEvent } from "../events/event-hub.js";
import type {
  ProgressiveEvaluationReport,
  ProgressiveEvaluationRequest,
} from "../progressive/progressive-request.js";
import type {
  RetentionForecast,
  RetentionOptions,
  RetentionOutcome,
  RetentionSetting,
} from "../repository/retention/fleet-retention.js";
import type { RetentionScope } from "../repository/retention/retention-plan.js";
import type {
  CheckReport,
  DeviceSummary,
  FleetMoment,
  ModelDiff,
  VersionSummary,
} from "../repository/fleet-repository.js";

/** A fleet and a model reference in it: name, name:version, name:tag, version id or prefix. */
export interface ModelReference {
  readonly fleet: string;
  readonly model: string;
}

export interface ModelDescription extends VersionSummary {
  readonly leaves: readonly {
    readonly path: string;
    readonly name: string;
    readonly dtype: string;
    readonly shape: readonly number[];
    readonly bytes: number;
    readonly owner: { readonly versionId: Hash; readonly name: string; readonly version: number };
  }[];
  readonly layers?: readonly { readonly name: string; readonly className: string }[];
  readonly environment: Readonly<Record<string, string>>;
  readonly measurements?: readonly Measurement[];
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly provenance?: unknown;
  readonly bases: readonly {
    readonly versionId: Hash;
    readonly name: string;
    readonly version: number;
    readonly state: string;
  }[];
  readonly derived: readonly { readonly versionId: Hash; readonly name: string; readonly version: number }[];
}

export interface RecoveryReport {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly root: Hash;
  readonly byteLength: number;
  readonly tensors: number;
  readonly steps: RecoverySteps;
  readonly environment: EnvironmentVerdict;
  /** The float scheme of a reduced model; absent: exact, as it was trained. */
  readonly scheme?: string;
}
/**
 * A recovered model as one safetensors stream; `report` resolves when the stream has ended and the root was
 * verified.
 */
export interface RecoveryStream {
  readonly byteLength: number;
  readonly chunks: AsyncIterable<Uint8Array>;
  readonly report: Promise<RecoveryReport>;
  /** What the report will say if the bytes prove it. */ readonly expected: RecoveryReport;
}

export interface ImportOptions {
  readonly fleet: string;
  readonly name: string;
  readonly base?: string;
  /** tfjs model.json text: gives the tensors an architecture. */
  readonly architecture?: string;
  readonly device?: string;
  readonly line?: string;
  readonly metadata?: Readonly<Record<string, string | number | boolean>>;
  readonly attachments?: readonly { readonly name: string; readonly bytes: Uint8Array }[];
  readonly dryRun?: boolean;
}
export interface ImportReport {
  readonly summary: VersionSummary | undefined;
  readonly approach: "snapshot" | "update";
  readonly changed: number;
  readonly tensors: number;
  readonly tensorBytes: number;
  readonly newTensorBytes: number;
  readonly overheadBytes: number;
  readonly unchanged: boolean;
}

export interface EnrolmentOptions {
  readonly fleet: string;
  readonly device: string;
  readonly lines: readonly string[];
  readonly profile: string;
  readonly initial?: Readonly<Record<string, string>>;
  /** Initial models may be reduced ones. */ readonly allowReduced?: boolean;
  readonly dryRun?: boolean;
}
/** The enrolment file's content (see shared/trust): secret, given once. */
export interface Enrolment {
  readonly [field: string]: unknown;
}

export interface TrainRequest {
  readonly fleet: string;
  readonly recipe: string;
  readonly data: string;
  readonly name: string;
  readonly base?: string;
  readonly parameters?: Readonly<Record<string, string | number | boolean>>;
  readonly seed?: string;
}
export type TrainProgress = {
  readonly state: "running";
  readonly line: string;
  readonly iteration?: number;
  readonly loss?: number;
};
export interface TrainReport {
  readonly summary: VersionSummary;
  readonly result: TrainingResult;
}

/** `top`: a classification's top-k beside its top-1; `limit`: the first so many held-out samples. */
export interface EvaluationRequest extends ModelReference {
  readonly data: string;
  readonly top?: number;
  readonly limit?: number;
}
/** `scheme`: the float scheme of a reduced model, null for an exact one. */
export interface EvaluationReport extends EvaluationResult {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly scheme: string | null;
  readonly data: string;
  readonly metric: Metric & { readonly value: number };
}

/**
 * `scheme` as --scheme has it; `seed`: what random tables are drawn from ("0" where none is given); `name`:
 * of the reduced model.
 */
export interface ReduceRequest extends ModelReference {
  readonly scheme: string;
  readonly name: string;
  readonly seed?: string;
  readonly dryRun?: boolean;
}
/**
 * `storedBytes`: of all tensors that a reader of the reduced model needs, as they lie in the store; `ratio`:
 * raw over stored; `packBytes`: what this save added.
 */
export interface ReduceReport {
  readonly base: { readonly versionId: Hash; readonly name: string; readonly version: number };
  /** Null of a dry run. */
  readonly summary: VersionSummary | null;
  readonly scheme: string;
  readonly tensors: number;
  /** The others stay exact. */
  readonly reducedTensors: number;
  readonly rawBytes: number;
  readonly storedBytes: number;
  readonly ratio: number;
  readonly packBytes: number;
  /** Of the reduced numbers from the exact ones. */
  readonly difference: Difference;
}

/** `parameters`: what the reader is told (cells, vehicle …). */
export interface DatasetSummary {
  readonly name: string;
  readonly kind: string;
  readonly location: string;
  readonly parameters: DatasetReference["parameters"];
  readonly hash: string | null;
}

export interface StorageStats {
  readonly versions: number;
  readonly tensors: number;
  /**
   * Tensors that do not lie raw: their bytes on disk and in full, and how many others the deepest needs, one
   * decoded after the other.
   */
  readonly coded: {
    readonly tensors: number;
    readonly storedBytes: number;
    readonly byteLength: number;
    readonly deepest: number;
  };
  readonly objects: number;
  readonly packs: number;
  readonly packBytes: number;
  readonly journalBytes: number;
  /** What snapshots of every version would take. */ readonly logicalBytes: number;
}

/** `freedBytes`: where it was collected in the same go. */
export interface RetentionReport extends RetentionOutcome {
  readonly freedBytes?: number;
}

/**
 * `ratio` α: what a version may cost to rebuild against all stored for speed; null: whatever.
 * `readBytesPerSecond`: instead of measuring the disk; `measure`: disk and processor anew.
 */
export interface StoragePlanOptions extends Pick<
  PlanArchiveOptions,
  "ratio" | "scheme" | "layout" | "timeLimitMs"
> {
  readonly readBytesPerSecond?: number;
  readonly measure?: boolean;
}
/** A plan made before is checked against what is stored now; without one, one is made. */
export interface StorageApplyOptions extends StoragePlanOptions {
  readonly plan?: ArchivePlan;
  readonly diskBytes?: number;
  readonly timeMs?: number;
  readonly dryRun?: boolean;
}
/** What was planned, without every tensor's place, and what came of it. */
export interface StorageApplied {
  readonly planned: Omit<ArchivePlan, "plan" | "members">;
  readonly report: ApplyReport;
}

export type { ServerEvent };

export interface FleetSummary {
  readonly fleet: string;
  readonly versions: number;
  readonly devices: number;
  readonly online: number;
  readonly journalLength: number;
}

export interface ServerOperations {
  health(): Promise<{
    readonly version: string;
    readonly pid: number;
    readonly home: string;
    readonly mqttUrl?: string;
    readonly httpUrl?: string;
    readonly publicKey: string;
    readonly fleets: readonly string[];
  }>;

  fleets(): Promise<readonly FleetSummary[]>;

  /** `runs`: what each line runs, as name:version where it is known here. */
  devices(
    fleet: string,
  ): Promise<
    readonly (DeviceSummary & { readonly online: boolean; readonly runs: Readonly<Record<string, string>> })[]
  >;
  device(
    fleet: string,
    device: string,
  ): Promise<DeviceSummary & { readonly online: boolean; readonly versions: number }>;
  enroll(options: EnrolmentOptions): Promise<Enrolment>;
  revoke(fleet: string, device: string, because: string): Promise<void>;
  /**
   * Gives a model to a device's line as initial model or update. A reduced one only where that is allowed.
   * @throws MODEL_REDUCED
   */
  assign(
    fleet: string,
    device: string,
    line: string,
    model: string,
    options?: { readonly allowReduced?: boolean },
  ): Promise<VersionSummary>;
  /** Asks a connected device to train now. */
  trainOnDevice(
    fleet: string,
    device: string,
    line: string,
    parameters?: Readonly<Record<string, string | number | boolean>>,
  ): Promise<{ readonly accepted: boolean; readonly message: string }>;

  /**
   * Any command a connected device answers ("train", "report", "activate"). @throws SERVER_UNREACHABLE
   * without a server, DEVICE_UNKNOWN, TIMED_OUT
   */
  command(
    fleet: string,
    device: string,
    name: string,
    body: unknown,
    timeoutMs?: number,
  ): Promise<{ readonly code: string; readonly result: unknown }>;

  models(
    fleet: string,
    filter?: {
      readonly name?: string;
      readonly device?: string;
      readonly line?: string;
      readonly all?: boolean;
    },
  ): Promise<readonly VersionSummary[]>;
  model(reference: ModelReference): Promise<ModelDescription>;
  log(reference: ModelReference): Promise<readonly VersionSummary[]>;
  diff(a: ModelReference, b: ModelReference): Promise<ModelDiff>;
  recover(
    reference: ModelReference,
    options?: { readonly environment?: EnvironmentPolicy },
  ): Promise<RecoveryStream>;
  /** Recovers and hashes without handing the bytes out. */
  verify(reference: ModelReference): Promise<RecoveryReport>;
  asOf(fleet: string, atMs: number): Promise<readonly FleetMoment[]>;
  import(
    stream: { readonly byteLength: number; readonly chunks: AsyncIterable<Uint8Array> },
    options: ImportOptions,
  ): Promise<ImportReport>;
  tag(reference: ModelReference, tag: string, remove?: boolean): Promise<VersionSummary>;
  /**
   * A hold keeps a version from retention rules and retirement. `by`: who, as they name themselves. @throws
   * MODEL_HELD where it is held already, MODEL_RETIRED
   */
  hold(reference: ModelReference, held: boolean, because: string, by?: string): Promise<VersionSummary>;
  /** @throws MODEL_HELD, MODEL_IN_USE; with `dryRun` too, and nothing is retired */
  retire(
    reference: ModelReference,
    because: string,
    options?: { readonly dryRun?: boolean },
  ): Promise<VersionSummary>;
  train(
    request: TrainRequest,
    onProgress?: (progress: TrainProgress) => void,
    signal?: AbortSignal,
  ): Promise<TrainReport>;
  /** A smaller, lossy form of a model, as a version of its own whose base is the exact one. */
  reduce(request: ReduceRequest): Promise<ReduceReport>;
  /** Measures a model on the held-out part of named data; saves nothing. */
  evaluate(request: EvaluationRequest, signal?: AbortSignal): Promise<EvaluationReport>;
  /** The k most likely classes, from part of the weights' bytes where that is certain. */
  evaluateProgressively(
    request: ProgressiveEvaluationRequest,
    signal?: AbortSignal,
  ): Promise<ProgressiveEvaluationReport>;

  datasets(fleet: string): Promise<readonly DatasetSummary[]>;
  addDataset(
    fleet: string,
    dataset: {
      readonly name: string;
      readonly kind: string;
      readonly location: string;
      readonly parameters?: DatasetReference["parameters"];
    },
  ): Promise<DatasetSummary>;
  checkDataset(
    fleet: string,
    name: string,
  ): Promise<{
    readonly ok: boolean;
    readonly samples: number;
    readonly hash: string;
    readonly expected: string | null;
    readonly message: string;
  }>;

  stats(fleet: string): Promise<StorageStats>;
  check(fleet: string, options?: { readonly sample?: number }): Promise<CheckReport>;
  planCollection(fleet: string): Promise<CollectionPlan>;
  collect(fleet: string, plan: CollectionPlan): Promise<{ readonly freedBytes: number }>;
  /** Retention rules, the fleet's first. */
  retention(fleet: string): Promise<readonly RetentionSetting[]>;
  /** Sets a scope's rule, or lifts it (null). @throws RETENTION_RULE_INVALID, NOT_FOUND */
  setRetention(
    fleet: string,
    scope: RetentionScope,
    rule: string | null,
    by?: string,
  ): Promise<readonly RetentionSetting[]>;
  /** What would be retired now, or under a rule that is tried, and what a collection would then free. */
  forecastRetention(
    fleet: string,
    options?: Pick<RetentionOptions, "trying" | "listKept">,
  ): Promise<RetentionForecast>;
  /** Retires what the rules say; with `collect` frees the space too. */
  applyRetention(fleet: string, options?: { readonly collect?: boolean }): Promise<RetentionReport>;
  /**
   * How everything could be stored in less within budgets of what a recovery costs; changes nothing. One plan
   * or application at a time in a fleet. @throws BUDGET_UNREACHABLE, QUOTA_EXCEEDED
   */
  planStorage(
    fleet: string,
    options: StoragePlanOptions,
    onProgress?: (line: string) => void,
    signal?: AbortSignal,
  ): Promise<ArchivePlan>;
  /**
   * Stores everything as planned, while everything else goes on; stopped or killed, the next one goes on.
   * @throws PLAN_INVALID, BUDGET_UNREACHABLE, QUOTA_EXCEEDED
   */
  applyStorage(
    fleet: string,
    options: StorageApplyOptions,
    onProgress?: (line: string) => void,
    signal?: AbortSignal,
  ): Promise<StorageApplied>;
  reindex(fleet: string): Promise<{ readonly versions: number }>;
  backup(fleet: string, folder: string): Promise<{ readonly position: number; readonly bytes: number }>;

  /**
   * Follows what happens until the signal aborts; the local door has no events of its own and throws
   * SERVER_UNREACHABLE.
   */
  events(signal: AbortSignal): AsyncIterable<ServerEvent>;
  close(): Promise<void>;
}

/**
 * Restoring happens to an empty home, without a server: a function of its own (restore.ts),
 * `restoreHome(folder, home)`.
 */
