/**
 * The words of the protocol as plain values: what stemma.proto says, with hashes as hex, counts as
 * safe integers and absent things as `undefined` or `null`. Types only; codec.ts turns them into bytes.
 */
import type { ObjectKind } from "../model/model.js";
import type { Hash } from "../tensor/tensor.js";

export interface Envelope {
  /** 1. */
  readonly protocol: number;
  /** The device's session counter (up), or the one that is answered (down). */
  readonly session: number;
  /** Counts this sender's messages in this session. */
  readonly sequence: number;
  /** Chosen by who asks, echoed by who answers; "" for none. */
  readonly correlation: string;
  /** Relative to arrival; 0 = never. */
  readonly expiresMs: number;
  readonly body: Body;
}

/**
 * Retained on `state`; also the will, so that CONNECT already tells the session. `previousSession`: of the
 * last accepted CONNECT, 0 = unknown.
 */
export interface State {
  readonly type: "state";
  readonly online: boolean;
  readonly previousSession: number;
}
export interface LineHead {
  readonly line: string;
  readonly sequence: number;
  readonly versionId?: Hash;
  readonly activeVersionId?: Hash;
}
export interface Birth {
  readonly type: "birth";
  readonly agentVersion: string;
  readonly profile: string;
  readonly runtime: string;
  readonly oldestProtocol: number;
  readonly heads: readonly LineHead[];
  readonly seenJournalLength: number;
  readonly seenJournalChain?: Hash;
  readonly unreleased: number;
  readonly clockMs: number;
  /** null: unknown. */
  readonly clockErrorMs: number | null;
}
/** A journal head with its signature; keys and signatures are lower-case hex (32 and 64 bytes). */
export interface WireHead {
  readonly length: number;
  readonly chain: Hash;
  readonly root: Hash;
  readonly publicKey: string;
  readonly signature: string;
}
export interface Welcome {
  readonly type: "welcome";
  readonly serverVersion: string;
  readonly protocol: number;
  readonly head?: WireHead;
  readonly clockMs: number;
  readonly restored: boolean;
  readonly restoredPosition: number;
  readonly known: readonly LineHead[];
  readonly blockBytes: number;
  readonly window: number;
}
export interface SmallObject {
  readonly kind: ObjectKind;
  readonly data: Uint8Array;
}
export interface ObjectRef {
  readonly kind: ObjectKind | "tensor";
  readonly id: Hash;
  readonly byteLength: number;
}
export interface Announce {
  readonly type: "announce";
  readonly record: Uint8Array;
  readonly signature: string;
  readonly objects: readonly SmallObject[];
  readonly tensorBytes: number;
}
export type WantReason = "tensors" | "objects" | "base" | "raw";
export interface Want extends CodingTerms {
  readonly type: "want";
  readonly reason: WantReason;
  readonly versionId: Hash;
  /** "" where nothing is transferred (reason `base`). */
  readonly transfer: string;
  readonly objects: readonly ObjectRef[];
  readonly bases: readonly Hash[];
  readonly blockBytes: number;
  /** Part `part` of `parts` of one list, cut where it is longer than a word; the reader joins them. */
  readonly part: number;
  readonly parts: number;
  readonly more: boolean;
  /** Indices into the version's tree instead of `objects`. */
  readonly tensorIndices: readonly number[];
}
/**
 * What the receiver of a stream says of coded tensors, in every part of its want or fetch; all absent where a
 * peer knows only raw ones.
 */
export interface CodingTerms {
  /** Newest format of tensor coding that the receiver decodes; absent: raw only. */
  readonly codec?: number;
  /**
   * Versions that the receiver holds whole and keeps for this transfer: their tensors may be coded against.
   */
  readonly references?: readonly Hash[];
  /** A transfer that goes on: the length that its manifest declared. */
  readonly streamBytes?: number;
}
/**
 * How an object of the stream is coded: 0 = raw. `byteLength` in the stream; `against`, `previous`: the
 * tensors it was coded against.
 */
export interface Encoding {
  readonly code: number;
  readonly byteLength: number;
  readonly against?: Hash;
  readonly previous?: Hash;
}
export interface ManifestPart {
  readonly type: "manifest";
  readonly transfer: string;
  readonly part: number;
  readonly parts: number;
  readonly byteLength: number;
  readonly blockBytes: number;
  readonly blockHashes: readonly Hash[];
  readonly encodings: readonly Encoding[];
}
export interface BlockRequest {
  readonly type: "blockRequest";
  readonly transfer: string;
  readonly blocks: readonly number[];
  readonly manifestParts: readonly number[];
}
export interface Block {
  readonly type: "block";
  readonly index: number;
  readonly data: Uint8Array;
}
export interface TransferDone {
  readonly type: "transferDone";
  readonly transfer: string;
}
export type ReceiptKind = "recorded" | "stored" | "released";
export interface Receipt {
  readonly type: "receipt";
  readonly kind: ReceiptKind;
  readonly versionId: Hash;
  readonly fleet: string;
  readonly device: string;
  readonly session: number;
  readonly position: number;
  readonly head?: WireHead;
  readonly backedUpTo: number;
  readonly name: string;
  readonly version: number;
  readonly publicKey: string;
  readonly signature: string;
}
export interface Refusal {
  readonly type: "refusal";
  readonly code: string;
  readonly message: string;
  readonly versionId?: Hash;
  readonly transfer: string;
  readonly retry: boolean;
  readonly retryAfterMs: number;
}
export interface Parked {
  readonly type: "parked";
  readonly versionId: Hash;
  readonly expiresMs: number;
}
export interface Activated {
  readonly type: "activated";
  readonly versionId: Hash;
  readonly line: string;
  readonly atMs: number;
  readonly clockErrorMs: number | null;
}
export interface Event {
  readonly type: "event";
  readonly name: string;
  readonly text: string;
  readonly line: string;
}
export interface Offer {
  readonly type: "offer";
  readonly line: string;
  readonly versionId: Hash;
  readonly record: Uint8Array;
  readonly objects: readonly SmallObject[];
  readonly signature: string;
  readonly name: string;
  readonly version: number;
}
export interface Fetch extends CodingTerms {
  readonly type: "fetch";
  readonly versionId: Hash;
  readonly transfer: string;
  readonly objects: readonly ObjectRef[];
  readonly blockBytes: number;
  readonly part: number;
  readonly parts: number;
}
export interface Command {
  readonly type: "command";
  readonly name: string;
  readonly json: string;
}
export interface CommandResult {
  readonly type: "commandResult";
  readonly code: string;
  readonly json: string;
}

export type Body =
  | State
  | Birth
  | Welcome
  | Announce
  | Want
  | ManifestPart
  | BlockRequest
  | Block
  | Receipt
  | Refusal
  | Activated
  | Offer
  | Fetch
  | Command
  | CommandResult
  | TransferDone
  | Parked
  | Event;
export type BodyType = Body["type"];
export type BodyOf<Type extends BodyType> = Extract<Body, { type: Type }>;
