/**
 * Judges an announcement as received: whether it is the device's own, well-formed and within bounds, and
 * which objects came with it. Pure; what the server knows of the device comes in as data.
 */
import { messageOf } from "../../../../shared/error-text.js";
import { type ErrorCode, isStemmaError } from "../../../../shared/errors.js";
import { objectId } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { decodeSaveRecord, versionIdOf } from "../../../../shared/model/save-record.js";
import type { ObjectKind, SaveRecord } from "../../../../shared/model/model.js";
import { verifyAnnounce } from "../../../../shared/trust/signatures.js";
import type { Announce } from "../../../../shared/wire/messages.js";
import type { IngestLimits } from "../limits.js";
import { sentStreamsOf, smallObjectsOf } from "../../../../shared/model/record-objects.js";

/** The server's knowledge of the device that announces. */
export interface Announcer {
  readonly fleet: string;
  readonly device: string;
  /** Generation of the device that announces. */
  readonly generation: number;
  readonly publicKey: string;
  readonly lines: readonly string[];
  /**
   * The version that this generation of the device sent with this sequence number of the line; undefined:
   * none.
   */
  versionAt(line: string, sequence: number): Hash | undefined;
}

/** A small object that was received but is not in the store yet. */
export interface HeldObject {
  readonly kind: ObjectKind;
  readonly bytes: Uint8Array;
}

/**
 * An accepted announcement. `objects` contains only objects that the record names, by their ids, which are
 * their hashes.
 */
export interface Accepted {
  readonly verdict: "accepted";
  readonly versionId: Hash;
  /** Generation of the device that announced it. */
  readonly generation: number;
  readonly record: SaveRecord;
  readonly recordBytes: Uint8Array;
  /** Declared sizes; the trees, and the streams themselves, must agree with them. */
  readonly declared: DeclaredSizes;
  readonly objects: ReadonlyMap<Hash, HeldObject>;
  /** The server is to make the tensors itself, where it can. */
  readonly isClaim: boolean;
}
export interface DeclaredSizes {
  /** The size of the model's tensors. */
  readonly tensorBytes: number;
  /** The size of the tensors of checkpoints and optimizer state. */
  readonly usesTensorBytes: number;
  /** The size of each object that streams and that the device sends. */
  readonly streamed: ReadonlyMap<Hash, number>;
}
export interface Refused {
  readonly verdict: "refused";
  readonly versionId: Hash;
  readonly code: ErrorCode;
  readonly message: string;
}

type Problem = Pick<Refused, "code" | "message">;

export function judgeAnnouncement(
  announce: Announce,
  announcer: Announcer,
  limits: Pick<IngestLimits, "maxModelBytes" | "maxUsesBytes">,
): Accepted | Refused {
  const versionId = versionIdOf(announce.record);
  const refuse = (problem: Problem): Refused => ({ verdict: "refused", versionId, ...problem });
  let record: SaveRecord;
  try {
    record = decodeSaveRecord(announce.record);
  } catch (error) {
    const code = isStemmaError(error) ? error.code : "ANNOUNCE_INVALID";
    return refuse({ code, message: messageOf(error) });
  }
  // The owner is checked first: a device that announces for another learns nothing about the other's models.
  const problem =
    judgeOwner(record, announcer) ??
    judgeSignature(announce, announcer, versionId) ??
    judgeSequence(record, announcer, versionId) ??
    judgeSize(announce, record, limits);
  if (problem !== undefined) return refuse(problem);
  const objects = namedObjects(announce, record);
  if ("code" in objects) return refuse(objects);
  return {
    verdict: "accepted",
    versionId,
    generation: announcer.generation,
    record,
    recordBytes: announce.record,
    declared: declaredSizes(announce, record),
    objects: objects.named,
    isClaim: announce.claim === true,
  };
}

function judgeOwner(record: SaveRecord, { fleet, device, lines }: Announcer): Problem | undefined {
  if (record.fleet !== fleet || record.device !== device)
    return {
      code: "IDENTITY_FOREIGN",
      message: `The record is of ${record.fleet}/${record.device}, and ${fleet}/${device} announced it. A device reports its own models only; check which enrolment file it uses.`,
    };
  if (!lines.includes(record.line))
    return {
      code: "IDENTITY_FOREIGN",
      message: `The device ${device} has no line "${record.line}" (it has ${lines.join(", ")}). Enrol it again with this line, or name one of those.`,
    };
  return undefined;
}

function judgeSignature(
  { signature }: Announce,
  { device, publicKey }: Announcer,
  versionId: Hash,
): Problem | undefined {
  try {
    verifyAnnounce(publicKey, versionId, signature);
    return undefined;
  } catch {
    return {
      code: "SIGNATURE_INVALID",
      message: `The announcement of ${versionId} is not signed by the key that ${device} was enrolled with. If the device was set up again, enrol it again.`,
    };
  }
}

/** A line must not have two versions with the same sequence number. */
function judgeSequence(
  { line, sequence }: SaveRecord,
  announcer: Announcer,
  versionId: Hash,
): Problem | undefined {
  const holder = announcer.versionAt(line, sequence);
  if (holder === undefined || holder === versionId) return undefined;
  return {
    code: "ANNOUNCE_INVALID",
    message: `Number ${sequence} of ${announcer.device}/${line} is ${holder} already. A device counts each model of a line once; if its disk was restored to an older state, enrol it again.`,
  };
}

function judgeSize(
  { tensorBytes, usesTensorBytes = 0, streamedBytes = [] }: Announce,
  record: SaveRecord,
  { maxModelBytes, maxUsesBytes }: Pick<IngestLimits, "maxModelBytes" | "maxUsesBytes">,
): Problem | undefined {
  if (tensorBytes > maxModelBytes)
    return {
      code: "SIZE_OVER_LIMIT",
      message:
        `The announcement declares ${tensorBytes} bytes of tensors; this server accepts at ` +
        `most ${maxModelBytes} for one model. Raise the server's limit, or report a smaller model.`,
    };
  const expected = sentStreamsOf(record).length;
  if (streamedBytes.length !== expected)
    return {
      code: "ANNOUNCE_INVALID",
      message:
        `The announcement declares the sizes of ${streamedBytes.length} data sets and recipes, and its ` +
        `record uses ${expected}. The device should announce the model again.`,
    };
  const usesBytes = streamedBytes.reduce((sum, bytes) => sum + bytes, usesTensorBytes);
  if (usesBytes > maxUsesBytes)
    return {
      code: "SIZE_OVER_LIMIT",
      message:
        `The announcement declares ${usesBytes} bytes of data sets, recipe, checkpoints and optimizer ` +
        `state; this server accepts at most ${maxUsesBytes} for one model. Raise the server's limit ` +
        "(maxUsesBytes), or let the device keep fewer of them (its profile).",
    };
  return undefined;
}

function declaredSizes(
  { tensorBytes, usesTensorBytes = 0, streamedBytes = [] }: Announce,
  record: SaveRecord,
): DeclaredSizes {
  const streamed = new Map(sentStreamsOf(record).map(({ id }, index) => [id, streamedBytes[index] ?? 0]));
  return { tensorBytes, usesTensorBytes, streamed };
}

/** The objects that came with the announcement; each must be one that the record names. */
function namedObjects(
  announce: Announce,
  record: SaveRecord,
): Problem | { readonly named: ReadonlyMap<Hash, HeldObject> } {
  const kinds = new Map(smallObjectsOf(record).map(({ kind, id }) => [id, kind]));
  const named = new Map<Hash, HeldObject>();
  for (const { kind, data } of announce.objects) {
    const id = objectId(kind, data);
    if (kinds.get(id) !== kind)
      return {
        code: "ANNOUNCE_INVALID",
        message: `The announcement carries an object of kind ${kind} that its record does not name. The device should announce the model again.`,
      };
    named.set(id, { kind, bytes: data });
  }
  return { named };
}
