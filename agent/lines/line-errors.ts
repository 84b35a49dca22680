/** Errors of lines that install or switch to a model. */
import { errorOf, StemmaError } from "../../shared/errors.js";
import type { Hash } from "../../shared/tensor/tensor.js";

/** Characters of what a hook wrote that its error has. */
const maxErrorCharacters = 400;

const notHere = errorOf("MODEL_NOT_FOUND");

// Models.
export const versionNotHere = (line: string, versionId: Hash): StemmaError =>
  notHere(
    `The line ${line} has no version ${versionId.slice(0, 12)} on this device. Choose one that \`stemma agent status\` lists, or assign it on the server.`,
    { line, versionId },
  );
export const baseNotHere = (line: string, versionId: Hash): StemmaError =>
  notHere(
    `The model ${versionId.slice(0, 12)}, from which ${line} was training, is not on this device any more. The line trains again from the model that it runs.`,
    { line, versionId },
  );
export const noReceiptYet = (line: string, versionId: Hash): StemmaError =>
  new StemmaError(
    "TRAINING_REFUSED",
    `The version ${versionId.slice(0, 12)} of ${line} has no receipt of the server yet, and the profile activates after-receipt. Wait until it is recorded.`,
    { line, versionId },
  );

// Switches.
export function hookFailed(field: string, how: string, errors: string, cause?: unknown): StemmaError {
  const wrote = errors === "" ? "" : ` It wrote: ${errors.slice(-maxErrorCharacters)}`;
  return new StemmaError(
    "HOOK_FAILED",
    `The hook ${field} of agent.json ${how}, so the line runs what it ran. See what the hook checks; the model is tried again when it is assigned again or the device connects again.${wrote}`,
    { field, cause },
  );
}
export const switchInterrupted = (): StemmaError =>
  new StemmaError("INTERRUPTED", "The agent stops; the switch goes on when it is started again.");
