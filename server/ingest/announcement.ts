/**
 * Judges an announcement as received: whether it is the device's own, well-formed and within bounds, and
 * which objects came with it. Pure; what the server knows of the device comes in as data.
 */
import { messageOf } from "../../shared/error-text.js";
import { type ErrorCode, isStemmaError } from "../../shared/errors.js";
import { objectId } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { decodeSaveRecord, versionIdOf } from "../../shared/model/save-record.js";
import { decodeTree } from "../../shared/model/tree-object.js";
import { treeRoot } from "../../shared/model/tree.js";
import type { LeafTable, ObjectKind, SaveRecord } from "../../shared/model/model.js";
import { verifyAnnounce } from "../../shared/trust/signatures.js";
import type { Announce } from "../../shared/wire/messages.js";
import type { IngestLimits } from "./limits.js";
import { smallObjectsOf } from "../../shared/model/record-objects.js";

/** What the server knows of the device that announces. */
export interface Announcer {
  readonly fleet: string;
  readonly device: string;
  readonly publicKey: string;
  readonly lines: readonly string[];
  /**
   * The version that has this sequence number in the line since the device was last enrolled; undefined:
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
  readonly record: SaveRecord;
  readonly recordBytes: Uint8Array;
  readonly tensorBytes: number;
  readonly objects: ReadonlyMap<Hash, HeldObject>;
}
export interface Refused {
  readonly verdict: "refused";
  readonly versionId: Hash;
  readonly code: ErrorCode;
  readonly message: string;
}

export function judgeAnnouncement(
  announce: Announce,
  announcer: Announcer,
  limits: Pick<IngestLimits, "maxModelBytes">,
): Accepted | Refused {
  const versionId = versionIdOf(announce.record);
  const refuse = (code: ErrorCode, message: string): Refused => ({
    verdict: "refused",
    versionId,
    code,
    message,
  });
  let record: SaveRecord;
  try {
    record = decodeSaveRecord(announce.record);
  } catch (error) {
    return refuse(isStemmaError(error) ? error.code : "ANNOUNCE_INVALID", messageOf(error));
  }
  // The owner is checked first: a device that announces for another learns nothing about the other's models.
  if (record.fleet !== announcer.fleet || record.device !== announcer.device) {
    return refuse(
      "IDENTITY_FOREIGN",
      `The record is of ${record.fleet}/${record.device}, and ${announcer.fleet}/${announcer.device} announced it. A device reports its own models only; check which enrolment file it uses.`,
    );
  }
  if (!announcer.lines.includes(record.line))
    return refuse(
      "IDENTITY_FOREIGN",
      `The device ${announcer.device} has no line "${record.line}" (it has ${announcer.lines.join(", ")}). Enrol it again with this line, or name the right one.`,
    );
  try {
    verifyAnnounce(announcer.publicKey, versionId, announce.signature);
  } catch {
    return refuse(
      "SIGNATURE_INVALID",
      `The announcement of ${versionId} is not signed by the key that ${announcer.device} was enrolled with. If the device was set up again, enrol it again.`,
    );
  }
  const holder = announcer.versionAt(record.line, record.sequence);
  if (holder !== undefined && holder !== versionId)
    return refuse(
      "ANNOUNCE_INVALID",
      `Number ${record.sequence} of ${announcer.device}/${record.line} is ${holder} already. A device counts each model of a line once; if its disk was restored to an older state, enrol it again.`,
    );
  if (announce.tensorBytes > limits.maxModelBytes)
    return refuse(
      "SIZE_OVER_LIMIT",
      `The announcement declares ${announce.tensorBytes} bytes of tensors; this server takes ${limits.maxModelBytes} for one model. Raise the server's limit, or report a smaller model.`,
    );
  const wanted = new Map(smallObjectsOf(record).map(({ kind, id }) => [id, kind]));
  const objects = new Map<Hash, HeldObject>();
  for (const { kind, data } of announce.objects) {
    const id = objectId(kind, data);
    if (wanted.get(id) !== kind)
      return refuse(
        "ANNOUNCE_INVALID",
        `The announcement carries an object of kind ${kind} that its record does not name. The device should announce the model again.`,
      );
    objects.set(id, { kind, bytes: data });
  }
  return {
    verdict: "accepted",
    versionId,
    record,
    recordBytes: announce.record,
    tensorBytes: announce.tensorBytes,
    objects,
  };
}

/**
 * The leaves of a tree object; undefined where it is malformed, or has another kind or root than the record.
 */
export function leavesOf(
  record: Pick<SaveRecord, "kind" | "root">,
  treeBytes: Uint8Array,
): LeafTable | undefined {
  try {
    const { kind, leaves } = decodeTree(treeBytes);
    return kind === record.kind && treeRoot(leaves) === record.root ? leaves : undefined;
  } catch {
    return undefined;
  }
}
