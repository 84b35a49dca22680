/** Errors of evaluations and of reductions. */
import { errorOf, StemmaError } from "../../../shared/errors.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import { counted } from "../../../shared/printable.js";

const wrongUse = errorOf("USAGE");

/** The first words of a list, for people. */
function listOf(words: readonly string[]): string {
  const shown = words.slice(0, 12).map((word) => word.slice(0, 40));
  return `${shown.join(", ")}${words.length > shown.length ? ", …" : ""}`;
}

// Evaluations.
export const predictionsNotStored = (): StemmaError =>
  wrongUse("Predictions are stored with the evaluation. Store it, or leave the predictions out.");
export const countNotAllowed = (option: string, count: number, most: number): StemmaError =>
  wrongUse(`${option} is ${count}; it takes a whole number from 1 to ${most}.`, { option });
export const predictionsTooLarge = (evaluated: number, bytes: number, maxBytes: number): StemmaError =>
  new StemmaError(
    "SIZE_OVER_LIMIT",
    `The predictions for ${counted(evaluated, "sample")} have ${bytes} bytes; at most ${maxBytes} are stored. Evaluate fewer samples with --limit, or leave out --predictions.`,
    { bytes },
  );
export const classesInOtherOrder = (
  version: Pick<VersionSummary, "name" | "version">,
  model: readonly string[],
  data: readonly string[],
): StemmaError =>
  new StemmaError(
    "ARCHITECTURE_MISMATCH",
    `The data have the classes ${listOf(data)}, and ${version.name}:${version.version} was trained on ${listOf(model)}: the same words in another order, so every figure would be wrong. Register the data again with the order of the model (for a table --set classNames=…).`,
    { model, data },
  );
export const evaluationMissing = (fleet: string, id: string): StemmaError =>
  new StemmaError(
    "NOT_FOUND",
    `The fleet ${fleet} has no evaluation ${id.slice(0, 64)}. \`stemma model evals\` shows those that it has; those of retired versions are not kept.`,
    { id: id.slice(0, 64) },
  );
export const evaluationAmbiguous = (id: string, found: number): StemmaError =>
  new StemmaError(
    "MODEL_AMBIGUOUS",
    `${found} evaluations have ids that begin with ${id}. Give more digits.`,
    { id: id.slice(0, 64) },
  );

// Reductions.
export const reducedAlready = (
  version: Pick<VersionSummary, "versionId" | "name" | "version" | "record">,
): StemmaError =>
  new StemmaError(
    "MODEL_REDUCED",
    `${version.name}:${version.version} is already reduced by ${version.record.scheme}, and two losses could not be separated. Reduce the exact model: see \`stemma model log ${version.name}:${version.version}\`.`,
    { versionId: version.versionId },
  );
export const seedInvalid = (seed: string): StemmaError =>
  wrongUse(`--seed ${seed.slice(0, 40)} is not an unsigned 64-bit number. Give it in decimal digits.`);
