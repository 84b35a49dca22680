/** Errors of progressive evaluation. */
import { errorOf, StemmaError } from "../../../shared/errors.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";

const wrongUse = errorOf("USAGE");
const invalid = errorOf("ARCHITECTURE_INVALID");
const mismatch = errorOf("ARCHITECTURE_MISMATCH");

// Requests and answers.
export const topsNotAllowed = (asked: number, maxTops: number): StemmaError =>
  wrongUse(`The request asks for ${asked} top-k answers. Ask for 1 to ${maxTops}.`);
export const noClassesToRank = (data: string): StemmaError =>
  wrongUse(
    `The data ${data} is for a regression, which has no classes to rank. Evaluate without --progressive.`,
  );
export const answerDiffers = (
  top: number,
  version: Pick<VersionSummary, "versionId" | "name" | "version">,
): StemmaError =>
  new StemmaError(
    "PROGRESSIVE_DIFFERS",
    `A top-${top} answer from part of the bytes of ${version.name}:${version.version} is not the full-precision one. Check the store with \`stemma storage check\`; if that finds nothing, report this with the model.`,
    { versionId: version.versionId, top },
  );
export const threadEnded = (): StemmaError =>
  new StemmaError(
    "INTERNAL",
    "The thread that evaluates bounds ended without an answer. If memory is short, evaluate fewer samples (--limit).",
  );
export const evaluationStopped = (cause: unknown): StemmaError =>
  new StemmaError(
    "INTERRUPTED",
    "The evaluation was stopped. Nothing was saved. Start it again to get an answer.",
    { cause },
  );

// Models.
export const unsupported = (subject: string): StemmaError =>
  new StemmaError(
    "PROGRESSIVE_UNSUPPORTED",
    `Progressive evaluation does not support ${subject}. Evaluate this model with all its bytes (without --progressive).`,
    { subject },
  );
export const reshapedToOtherSize = (shape: readonly number[], target: readonly number[]): StemmaError =>
  invalid(
    `A layer reshapes [${shape.join(", ")}] to [${target.join(", ")}], which has another size. Check the model's architecture.`,
  );
export const windowTooLarge = (size: readonly [number, number], height: number, width: number): StemmaError =>
  invalid(
    `A window of ${size.join(" × ")} does not fit an input of ${height} × ${width}. Check the model's architecture.`,
  );
export const otherWeightCount = (expected: number, actual: number): StemmaError =>
  mismatch(
    `The architecture has ${expected} weight tensors, but ${actual} were given. Check that both come from one model.`,
  );
export const otherSampleSize = (expected: number, actual: number): StemmaError =>
  mismatch(
    `The model takes samples of ${expected} numbers, but the data has ${actual} for each sample. Choose data that was made for this model.`,
  );
export const bytesNotOfShape = (shape: readonly number[], expected: number, actual: number): StemmaError =>
  new StemmaError(
    "TENSOR_SIZE_MISMATCH",
    `A float32 tensor [${shape.join(", ")}] has ${expected} bytes, but ${actual} were read. Check the store with \`stemma storage check\`.`,
    { expected, actual },
  );
