/**
 * Defines the messages of the protocol as plain values. They are those of stemma.proto, with hashes as hex, counts as
 * safe integers and absent values as `undefined` or `null`. Types only; codec.ts encodes them. (docs/protocol.md)
 */
import type { ObjectKind } from "../model/model.js";
import type { Hash } from "../tensor/tensor.js";

export interface Envelope {
  /** The protocol version: 1. */
  readonly protocol: number;
  /** The device's session counter; messages of the server repeat it. */
  readonly session: number;
  /** Counts this sender's messages in this session. */
  readonly sequence: number;
  /** Chosen by the sender of a request and repeated in its answer; "" for none. */
  readonly correlation: string;
  /** The time after `issuedMs` when a server's message expires, in milliseconds; 0: never. */
  readonly expiresMs: number;
  /** The server's clock when it signed the message, in milliseconds since 1970; absent in a device's messages. */
  readonly issuedMs?: number | undefined;
  readonly body: Body;
}

/**
 * Retained on the topic `state`; also the MQTT will, so that CONNECT already carries the session.
 * `previousSession`: the session of the last accepted CONNECT; 0: unknown.
 */
export interface State {
  readonly type: "state";
  readonly online: boolean;
  readonly previousSession: number;
  /** Generation of the device's enrolment, from 1; sessions count within it. Absent: not stated. */
  readonly generation?: number | undefined;
  /** The device's signature over the session that the envelope names and the members above (`signSession`). */
  readonly signature?: string | undefined;
}
export interface LineHead {
  readonly line: string;
  readonly sequence: number;
  readonly versionId?: Hash | undefined;
  readonly activeVersionId?: Hash | undefined;
  /** The number of that activation (`Activated.number`); absent: not known. */
  readonly activeNumber?: number | undefined;
}
export interface Birth {
  readonly type: "birth";
  readonly agentVersion: string;
  readonly profile: string;
  readonly runtime: string;
  readonly oldestProtocol: number;
  readonly heads: readonly LineHead[];
  readonly seenJournalLength: number;
  readonly seenJournalChain?: Hash | undefined;
  readonly unreleased: number;
  readonly clockMs: number;
  /** The error of the clock; null: unknown. */
  readonly clockErrorMs: number | null;
  /** The generation as in `State`. */
  readonly generation?: number | undefined;
  /** The root of the same head as `seenJournalLength`. */
  readonly seenJournalRoot?: Hash | undefined;
  /** Position in the journal: the next page of restores begins there or later. Absent: the first page. */
  readonly restoresFrom?: number | undefined;
  /** The set of metadata of releases that the device has taken last; absent: none. */
  readonly releaseSet?: Hash | undefined;
  /** `required` or `accepted`; absent: the device does not look at releases. */
  readonly releasePolicy?: string | undefined;
}
/**
 * The proof that the first `length` entries of a head's log are a log that the receiver knows (merkle-log.ts
 * checks it).
 */
export interface StartProof {
  readonly length: number;
  readonly hashes: readonly Hash[];
}
/** The proof that an entry is at `position` in a head's log. */
export interface ProvenFact {
  readonly position: number;
  readonly entry: Uint8Array;
  readonly hashes: readonly Hash[];
  /** The owner's signature of a fact `restored`; absent: not signed, or not published. */
  readonly approval?: WireApproval | undefined;
}
/** The owner's signature of a restore (shared/trust/releases/restore-approval.ts). */
export interface WireApproval {
  readonly text: string;
  /** The proof that the log which it names is the start of the head's. */
  readonly hashes: readonly Hash[];
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
  readonly head?: WireHead | undefined;
  readonly clockMs: number;
  /** True after a restore, for people: a device goes back only to the position of a proven fact in `restores`. */
  readonly restored: boolean;
  readonly restoredPosition: number;
  readonly known: readonly LineHead[];
  readonly blockBytes: number;
  readonly window: number;
  /** The proof from the head that the birth names to `head`; absent where the journal does not begin with it. */
  readonly start?: StartProof | undefined;
  /** A page of the facts `restored` that the device may not know, oldest first. */
  readonly restores?: readonly ProvenFact[] | undefined;
  /** The position as in the birth that is answered. */
  readonly restoresFrom?: number | undefined;
  /** More of them follow: the device asks for the next page with another birth. Absent: no. */
  readonly moreRestores?: boolean | undefined;
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
  /** The size of the model's tensors. */
  readonly tensorBytes: number;
  /**
   * Bytes of each object that streams and that the device sends, in the record's order; absent where there is
   * none (record format 1).
   */
  readonly streamedBytes?: readonly number[] | undefined;
  /** Bytes of all tensors of checkpoints and optimizer state; absent where there are none. */
  readonly usesTensorBytes?: number | undefined;
  /** The server may make the tensors itself, from the provenance; it asks for them where it does not. */
  readonly claim?: boolean | undefined;
}
export type WantReason = "tensors" | "objects" | "base" | "raw";
export interface Want extends CodingTerms {
  readonly type: "want";
  readonly reason: WantReason;
  readonly versionId: Hash;
  /** "" where nothing is transferred (reason `base`). */
  readonly transfer: string;
  /** The objects of the stream: first the tensors of `tensorIndices`, then these. */
  readonly objects: readonly ObjectRef[];
  readonly bases: readonly Hash[];
  readonly blockBytes: number;
  /** The number of this part, `part` of `parts` of one list, which is split where it is longer than a message. */
  readonly part: number;
  readonly parts: number;
  readonly more: boolean;
  /** Indices into the leaves of all trees of the version, one tree after the other in the order of `treesOf`. */
  readonly tensorIndices: readonly number[];
  /** True if tensors may be coded against tensors that come before them in this stream. */
  readonly ownReferences?: boolean | undefined;
  /** A version whose optimizer's state that of the wanted version may be coded against. */
  readonly optimizerReference?: Hash | undefined;
}
/**
 * The coded tensors that the receiver of a stream accepts; repeated in every part of its want or fetch. All
 * members are absent where a peer knows only raw tensors.
 */
export interface CodingTerms {
  /** Newest format of tensor coding that the receiver decodes; absent: raw only. */
  readonly codec?: number | undefined;
  /**
   * Versions that the receiver has completely and keeps for this transfer: tensors may be coded against their
   * tensors.
   */
  readonly references?: readonly Hash[] | undefined;
  /** The length that the manifest of a resumed transfer declared. */
  readonly streamBytes?: number | undefined;
}
/**
 * The encoding of an object of the stream. `code` 0: raw; `byteLength`: its length in the stream; `against`,
 * `previous`, `references`: the tensors it is coded against, in this order.
 */
export interface Encoding {
  readonly code: number;
  readonly byteLength: number;
  readonly against?: Hash | undefined;
  readonly previous?: Hash | undefined;
  readonly references?: readonly Hash[] | undefined;
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
  /** Counts within the generation. */
  readonly session: number;
  /** Generation of the device; absent in the signed form 1. */
  readonly generation?: number | undefined;
  readonly position: number;
  readonly head?: WireHead | undefined;
  readonly backedUpTo: number;
  readonly name: string;
  readonly version: number;
  readonly publicKey: string;
  readonly signature: string;
  /** The proof from the head that was last sent to the device in this session to `head`. */
  readonly start?: StartProof | undefined;
  /** The fact `recorded` at `position`. */
  readonly fact?: ProvenFact | undefined;
}
export interface Refusal {
  readonly type: "refusal";
  readonly code: string;
  readonly message: string;
  readonly versionId?: Hash | undefined;
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
  /** Position among all activations of the line on the device, from 1; absent: from an agent that does not count. */
  readonly number?: number | undefined;
}
/** The server has recorded the line's activations up to this one. Only for agents that number them. */
export interface ActivationReceipt {
  readonly type: "activationReceipt";
  readonly line: string;
  readonly number: number;
}
export interface Event {
  readonly type: "event";
  readonly name: string;
  readonly text: string;
  readonly line: string;
  /** The version that it is about. */
  readonly versionId?: Hash | undefined;
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
  /** Generation of the device that it is for; absent in the signed form 1. */
  readonly generation?: number | undefined;
  /** True if it is to be fetched and kept, and run only after an offer that is not staged. */
  readonly staged?: boolean | undefined;
  /** The release of the version, where the fleet's owner released it. */
  readonly release?: OfferedRelease | undefined;
  /** The pipeline; absent: it has none, or goes out without it. */
  readonly pipeline?: OfferedPipeline | undefined;
  /** The proof that it is in the journal that witnesses cosigned; absent: none cosigned a state with it. */
  readonly logged?: LoggedVersion | undefined;
}
/** A version's place in a cosigned journal (shared/trust/checkpoint.ts). */
export interface LoggedVersion {
  /** The checkpoint with its cosignatures. */
  readonly checkpoint: string;
  /** The fact `recorded`, proven in the checkpoint's journal. */
  readonly fact: ProvenFact;
  /** The proof that of that journal and the head sent last in this session the shorter one is the other's start. */
  readonly start?: StartProof | undefined;
}
/**
 * An input pipeline, object of kind "pipeline". It is not among the offer's objects: agents of a release that does not
 * know the kind would not read the offer.
 */
export interface OfferedPipeline {
  readonly id: Hash;
  /** The pipeline's bytes; absent: it is fetched as the version's other objects are. */
  readonly data?: Uint8Array | undefined;
}
export interface OfferedRelease {
  readonly name: string;
  readonly manifest: Uint8Array;
}
/** A part of a fleet's metadata of releases (shared/trust/releases/release-set.ts). */
export interface ReleasePart {
  readonly type: "releasePart";
  /** SHA-256 of all parts together. */
  readonly set: Hash;
  readonly part: number;
  readonly parts: number;
  readonly data: Uint8Array;
}
/** The owner's statement of the time (shared/trust/releases/owner-time.ts). */
export interface OwnerTime {
  readonly type: "ownerTime";
  readonly statement: string;
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
  | ActivationReceipt
  | Offer
  | Fetch
  | Command
  | CommandResult
  | TransferDone
  | Parked
  | Event
  | ReleasePart
  | OwnerTime;
export type BodyType = Body["type"];
export type BodyOf<Type extends BodyType> = Extract<Body, { type: Type }>;
