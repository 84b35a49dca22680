/** Errors of offered models: offers that are not believed, and models that are not taken. */
import { messageOf } from "../../shared/error-text.js";
import { StemmaError } from "../../shared/errors.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Offer } from "../../shared/wire/messages.js";

// Offers.
export const lineOfferedUnknown = (line: string, lines: readonly string[]): StemmaError =>
  new StemmaError(
    "LINE_UNKNOWN",
    `The server offers a model for the line "${line}", and this device has ${lines.join(", ")}. Enrol the device again with that line, or assign the model to another.`,
    { line },
  );
export const recordOfAnother = (versionId: Hash): StemmaError =>
  new StemmaError(
    "OBJECT_HASH_MISMATCH",
    `The record of the offered model ${versionId.slice(0, 12)} is another one's. It was altered on the way; the offer is ignored, and comes again at the next connection.`,
    { versionId },
  );
export const leavesOfAnother = (name: string, actual: Hash, expected: Hash): StemmaError =>
  new StemmaError(
    "ROOT_MISMATCH",
    `The leaves of the offered model "${name}" have the root ${actual.slice(0, 12)}, its record states ${expected.slice(0, 12)}. The offer is ignored; check the model on the server with \`stemma model verify\`.`,
    { expected, actual },
  );
export const notCosigned = (model: string, threshold: number, versionId: Hash): StemmaError =>
  new StemmaError(
    "COSIGNATURES_MISSING",
    `The server shows no cosigned journal with ${model} in it, and this device asks for cosignatures of ${threshold} witnesses. Nothing was installed; ask witnesses to cosign the journal, and bring what they answer with \`stemma journal cosign FILE\`.`,
    { versionId },
  );
export const notInCosigned = (model: string, versionId: Hash): StemmaError =>
  new StemmaError(
    "CHECKPOINT_INVALID",
    `The server does not prove that ${model} is in the journal that witnesses cosigned. Nothing was installed; somebody may be impersonating the server: ask who runs it.`,
    { versionId },
  );
export const historyNotShown = (model: string, versionId: Hash): StemmaError =>
  new StemmaError(
    "HISTORY_UNPROVEN",
    `The server does not prove that the journal which witnesses cosigned is the one that it shows this device. Nothing was installed; ${model} is offered again at the next connection.`,
    { versionId },
  );

// Models.
export const offeredNotStored = (offer: Pick<Offer, "name" | "version">, cause: unknown): StemmaError =>
  new StemmaError(
    "STORE_FAILED",
    `The offered model ${offer.name}:${offer.version} could not be kept: ${messageOf(cause)}. It is fetched again when the server offers it again.`,
    { cause },
  );
export const pipelineTooLong = (bytes: number, maxBytes: number, pipeline: Hash): StemmaError =>
  new StemmaError(
    "SIZE_OVER_LIMIT",
    `The input pipeline of the offered model has ${bytes} bytes; ${maxBytes} are taken. Release the version without it: stemma release create --no-pipeline.`,
    { pipeline },
  );
export const tensorNotAsked = (): StemmaError =>
  new StemmaError(
    "TRANSFER_MANIFEST_INVALID",
    "A stream holds a tensor that was not asked for. The transfer is dropped; the model is fetched again when the server offers it again.",
  );
export const downloadInterrupted = (): StemmaError =>
  new StemmaError("INTERRUPTED", "The agent stops; the download goes on when it is started again.");
