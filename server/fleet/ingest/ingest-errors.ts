/** Errors of what devices send and fetch, and of the commands that they get. */
import { errorOf, StemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";

const overQuota = errorOf("QUOTA_EXCEEDED");
const failedInside = errorOf("INTERNAL");
const badFetch = errorOf("ANNOUNCE_INVALID");
const notAllowed = errorOf("NOT_ALLOWED");
const unreachable = errorOf("SERVER_UNREACHABLE");

// Uploads.
export const tensorAmongObjects = (): StemmaError =>
  new StemmaError(
    "OBJECT_KIND_MISMATCH",
    "A transfer of small objects holds a tensor. Announce the version again.",
  );
export const tensorNotAnnounced = (tensor: Hash): StemmaError =>
  new StemmaError(
    "OBJECT_MISSING",
    `The tensor ${tensor} is not in a tree of the announced version. The device should announce the version again.`,
  );
export const ownChainTooLong = (id: Hash, ownDepth: number, maxOwnDepth: number): StemmaError =>
  new StemmaError(
    "CHAIN_TOO_LONG",
    `The tensor ${id} is coded against a chain of ${ownDepth} tensors of its own transfer; at most ${maxOwnDepth} are allowed. It is requested raw.`,
    { id },
  );
export const codedAgainstIncomplete = (id: Hash): StemmaError =>
  new StemmaError(
    "REFERENCE_MISSING",
    `The version ${id} that an interrupted transfer was coded against is not complete here any more. The transfer starts again.`,
  );
export const listedNotInVersion = (versionId: Hash): StemmaError =>
  new StemmaError(
    "TRANSFER_MANIFEST_INVALID",
    `An interrupted transfer of ${versionId} lists a tensor that the version does not have. Announce it again.`,
  );
export const spoolFull = (byteLength: number): StemmaError =>
  overQuota(
    `The server's space for unfinished transfers is used up, or this device's share of it (its last quarter is for devices that have little there), and ${byteLength} bytes more do not fit. The device tries again later; if this stays, raise the server's limits (spoolBytes, spoolBytesPerDevice) or free its disk.`,
  );
export const receivingFailed = (cause: unknown): StemmaError =>
  failedInside(
    "The server failed internally while receiving this version. Its log states the cause; the device keeps the model and tries again.",
    { cause },
  );

// Downloads.
export const partNotAllowed = (part: number, parts: number, maxParts: number): StemmaError =>
  badFetch(
    `A fetch has part ${part} of ${parts}; at most ${maxParts} parts are allowed. Ask for less at a time.`,
  );
export const partsChanged = (): StemmaError =>
  badFetch("A fetch changed the number of its parts. Ask again with a new transfer.");
export const objectFetchedTwice = (versionId: Hash): StemmaError =>
  badFetch(`A fetch of the version ${versionId} names an object twice. Ask for each object once.`);
export const objectNotOfVersion = (id: Hash, versionId: Hash): StemmaError =>
  notAllowed(
    `The object ${id} is not a part of the version ${versionId} that the device may have. Ask for what its tree and record name.`,
    { id },
  );
export const versionNotAssigned = (versionId: Hash, device: string): StemmaError =>
  notAllowed(
    `The version ${versionId} is not assigned to ${device}. Assign it with \`stemma device assign\`.`,
    { versionId },
  );
export const tensorsDropped = (model: string, version: number, versionId: Hash): StemmaError =>
  new StemmaError(
    "MODEL_DROPPED",
    `The server gave up the tensors of ${model}:${version}, which a replay gives again. Ask for it when somebody has stored them: stemma model keep ${model}:${version}.`,
    { versionId },
  );
export const tooManyDownloads = (maxDownloadsPerDevice: number): StemmaError =>
  overQuota(
    `The device downloads ${maxDownloadsPerDevice} models already. Ask again when one of them is complete.`,
  );
export const sendingFailed = (cause: unknown): StemmaError =>
  failedInside(
    "The server failed internally while sending a model to the device. Its log states the cause: look there, then let the device connect again.",
    { cause },
  );

// Commands.
export const commandTooLong = (bytes: number): StemmaError =>
  new StemmaError(
    "ENVELOPE_TOO_LARGE",
    `A command of ${bytes} bytes does not fit into one message. Send a smaller one.`,
  );
export const tooManyCommands = (maxWaiting: number): StemmaError =>
  overQuota(`${maxWaiting} commands wait for their results already. Try again when some are answered.`);
export const deviceNotConnected = (device: string): StemmaError =>
  unreachable(
    `The device ${device} is not connected, or its session has only begun. Ask again when it is there: \`stemma device show ${device}\`.`,
  );
export const commandUnanswered = (device: string, command: string, timeoutMs: number): StemmaError =>
  new StemmaError(
    "TIMED_OUT",
    `The device ${device} did not answer the command "${command}" within ${timeoutMs} ms. It may be busy or gone: look at it with \`stemma device show ${device}\`.`,
  );
export const connectionEnded = (device: string): StemmaError =>
  unreachable(`The connection to the device ${device} ended before it answered. Ask again when it is back.`);
export const answerNotJson = (device: string, cause: unknown): StemmaError =>
  new StemmaError(
    "ENVELOPE_MALFORMED",
    `The device ${device} answered a command with something that is not valid JSON. Update its agent.`,
    { cause },
  );
