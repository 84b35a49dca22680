/**
 * The operations of a server, or of a home without one: one interface with two implementations.
 * server/operations works on an opened home in this process; server/interface/http/client.ts sends requests to a
 * running server over HTTP or its unix socket. Commands use only this interface. The methods of calls derive
 * from the table of operations; those of streams and jobs are declared here. Answers are plain JSON values or
 * streams of bytes. Types only.
 */
import type * as z from "zod";
import type { ArchivePlan } from "../../storage/archive/archive-plan.js";
import type { ServerEvent } from "./event-schemas.js";
import type { InputOf, ValueOf } from "./operation.js";
import type { OperationTable } from "./operation-table.js";
import type { FetchedData } from "./models/dataset-schemas.js";
import type { EvaluatedModels } from "./models/enumeration-schemas.js";
import type { ProgramFile } from "../../../shared/programs/program-settings.js";
import type { TrainProgress, TrainReport } from "./models/evaluation-schemas.js";
import type { StorageApplied } from "./stores/planning-schemas.js";
import type { RecoveryReport } from "./models/version-schemas.js";
import type { importOptions, ImportReport, localFile } from "./models/import-schemas.js";

type NamesOfKind<Kind extends string> = {
  [Name in keyof OperationTable]: OperationTable[Name] extends { readonly kind: Kind } ? Name : never;
}[keyof OperationTable];
export type CallName = NamesOfKind<"call">;

/** Members of path, query and body of an operation, as one object. */
export type OperationInput<Name extends keyof OperationTable> = InputOf<OperationTable[Name]>;
/** The answer of a call. */
export type CallOutput<Name extends CallName> = ValueOf<OperationTable[Name]["output"]>;

export interface CallOptions {
  /** Stops the work where the operation can be stopped; otherwise it only ends the wait for the answer. */
  readonly signal?: AbortSignal | undefined;
}
export interface JobOptions<Progress> extends CallOptions {
  /** The id of the job under which a caller knows this work; events about it carry it. */
  readonly job?: string | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

type CallMethod<Name extends CallName> =
  Record<never, never> extends OperationInput<Name>
    ? (input?: OperationInput<Name>, options?: CallOptions) => Promise<CallOutput<Name>>
    : (input: OperationInput<Name>, options?: CallOptions) => Promise<CallOutput<Name>>;

/** The operations of the table that are one request and one JSON answer. */
export type CallOperations = { readonly [Name in CallName]: CallMethod<Name> };

/** A recovered model or a stored data set as one stream of bytes. */
export interface ProvenStream<Report> {
  readonly byteLength: number;
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Resolves when the stream has ended and its root or hash was verified. */
  readonly report: Promise<Report>;
  /** The report that `report` resolves with if the bytes are the recorded ones. */
  readonly expected: Report;
}
export type RecoveryStream = ProvenStream<RecoveryReport>;
export type DataStream = ProvenStream<FetchedData>;

export interface ImportOptions extends Readonly<
  Omit<z.input<typeof importOptions>, "attachments" | "localFile">
> {
  readonly fleet: string;
  readonly attachments?: readonly { readonly name: string; readonly bytes: Uint8Array }[] | undefined;
}
/** A file of this machine as its client saw it, so that a server in another file system does not take another. */
export type LocalFile = Readonly<z.infer<typeof localFile>>;

export interface ImportStream {
  /** -1 where it is not known. */
  readonly byteLength: number;
  readonly chunks: AsyncIterable<Uint8Array>;
  /** The same bytes as a file of this machine: a server that can read it reads it in place. */
  readonly localFile?: LocalFile | undefined;
}

export interface ServerOperations extends CallOperations {
  /** A version whose tensors were dropped is trained again first, which can take minutes. */
  recover(input: OperationInput<"recover">, options?: CallOptions): Promise<RecoveryStream>;
  fetchDataset(input: OperationInput<"fetchDataset">): Promise<DataStream>;
  import(stream: ImportStream, options: ImportOptions): Promise<ImportReport>;
  /** Entries of objects, as docs/formats.md, "Bundle" has them. */
  bundleObjects(input: OperationInput<"bundleObjects">): Promise<AsyncIterable<Uint8Array>>;
  depositObjects(
    input: OperationInput<"depositObjects">,
    entries: AsyncIterable<Uint8Array>,
  ): Promise<{ readonly taken: number }>;
  train(input: OperationInput<"train">, options?: JobOptions<TrainProgress>): Promise<TrainReport>;
  /** @throws TRAINING_STOPPED where it was stopped: the same call goes on */
  evaluateQuery(
    input: OperationInput<"evaluateQuery">,
    options?: JobOptions<TrainProgress> & {
      /** A program of the caller's own that trains. No request has it: a server runs nothing that somebody sent. */
      readonly program?: ProgramFile | undefined;
    },
  ): Promise<EvaluatedModels>;
  /**
   * A fleet runs one plan or application at a time.
   * @throws BUDGET_UNREACHABLE, QUOTA_EXCEEDED
   */
  planStorage(input: OperationInput<"planStorage">, options?: JobOptions<string>): Promise<ArchivePlan>;
  /** @throws PLAN_INVALID, BUDGET_UNREACHABLE, QUOTA_EXCEEDED */
  applyStorage(input: OperationInput<"applyStorage">, options?: JobOptions<string>): Promise<StorageApplied>;
  /** Follows the events until the signal aborts. @throws SERVER_UNREACHABLE without a running server */
  events(signal: AbortSignal): AsyncIterable<ServerEvent>;
  close(): Promise<void>;
}
