/** Errors of operations on models, data, recipes and engines. */
import { errorOf, StemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";

const cutOff = errorOf("SAFETENSORS_TRUNCATED");
const notAllowed = errorOf("NOT_ALLOWED");
const notFound = errorOf("NOT_FOUND");

// Imports.
export const changedWhileImported = (name: string, path: string): StemmaError =>
  new StemmaError(
    "FILE_CHANGED",
    `${name} changed while it was imported, so nothing was saved. Import it again when it is complete.`,
    { path },
  );
export const fileNotShared = (reason: string, path: string, cause: unknown): StemmaError =>
  new StemmaError("FILE_NOT_SHARED", `The server ${reason}. Send the file itself.`, { path, cause });
export const importCutOff = (actual: number, expected: number): StemmaError =>
  cutOff(`The import was cut off: ${actual} of its ${expected} bytes arrived. Send the file again.`, {
    expected,
    actual,
  });
export const partCutOff = (name: string, actual: number, expected: number): StemmaError =>
  cutOff(`${name} was cut off: ${actual} of its ${expected} bytes arrived. Send the import again.`, {
    expected,
    actual,
  });
export const partTwice = (): StemmaError =>
  new StemmaError(
    "HTTP_REQUEST_INVALID",
    "The import has two checkpoints after one iteration, or two states of the optimizer. Give each once.",
  );
export const notOnto = (other: string): StemmaError =>
  notAllowed(`--onto does not go with ${other}. Leave one of them out.`);
export const leaseBesideBase = (): StemmaError =>
  notAllowed(
    "--lease does not go with --base or --onto: the leased model is the base. Leave one of them out.",
  );
export const notTheStorysModel = (where: string, reason: string, cause?: unknown): StemmaError =>
  new StemmaError(
    "STORY_MISMATCH",
    `${where} is not the model that its story is of: ${reason}. If the file was damaged, copy or export it again; if another program changed it on purpose, import it with --no-story.`,
    { cause },
  );

// Recoveries.
export const optimizerOfCheckpoint = (): StemmaError =>
  notAllowed(
    "The optimizer's state is that of the end of the training and belongs to no checkpoint. Recover one after the other.",
  );
export const optimizerWithoutLayers = (): StemmaError =>
  notAllowed("The optimizer's state has no layers, so it has no model.json. Recover it as safetensors.");
export const modelJsonOfLayers = (): StemmaError =>
  notAllowed(
    "A model.json describes all weights of a model, so form tfjs has all of them. Recover single layers as safetensors.",
  );
export const leaseOfAnother = (id: string, leased: Hash, versionId: Hash): StemmaError =>
  notAllowed(`The lease ${id} is on ${leased.slice(0, 12)}, not on this model. Name that one.`, {
    versionId,
  });
export const leaseWithChoice = (): StemmaError =>
  notAllowed(
    "A lease gives the tensors that a child takes over, as safetensors. Leave layers, form, part and checkpoint out.",
  );
export const originalOfPart = (): StemmaError =>
  notAllowed(
    "Form original is the whole file that was saved. Leave part, checkpoint, layers and lease out, or name safetensors.",
  );
export const layoutWithoutArchitecture = (): StemmaError =>
  notAllowed(
    "A layout belongs to all tensors of a model that has an architecture. Give one with --arch, and leave out --onto.",
  );
export const layoutOfPart = (): StemmaError =>
  notAllowed(
    "A layout gives one safetensors file of a whole model. Leave form, part, checkpoint, layers and lease out.",
  );
export const noLayout = ({ name, version }: Pick<VersionSummary, "name" | "version">): StemmaError =>
  new StemmaError(
    "MODEL_PART_MISSING",
    `Neither ${name}:${version} nor a version with its architecture from which it came was imported with a layout. ` +
      "Recover it as safetensors, or import the file again with --layout.",
  );
export const originalNotKept = ({ name, version }: Pick<VersionSummary, "name" | "version">): StemmaError =>
  new StemmaError(
    "MODEL_PART_MISSING",
    `Of ${name}:${version} the tensors are kept, their names, order and metadata, and not the rest of the file that ` +
      "they came from. Recover it as safetensors.",
  );

export const noSuchFile = (
  { name, version }: { readonly name: string; readonly version: number },
  file: string,
  files: readonly { readonly name: string }[],
): StemmaError =>
  new StemmaError(
    "MODEL_PART_MISSING",
    `${name}:${version} has no file ${JSON.stringify(file)}. ` +
      (files.length === 0
        ? "No files are kept with it."
        : `Its files: ${files.map((each) => each.name).join(", ")}.`),
  );

// Data, recipes and engines.
export const samplesNotStored = (name: string): StemmaError =>
  notFound(
    `The samples of ${name} are not in the server's store. Store them with \`stemma data push ${name}\`.`,
    { name },
  );
export const recipeBuiltIn = (recipe: string): StemmaError =>
  new StemmaError(
    "RECIPE_NOT_APPROVED",
    `${recipe} is built in: it is part of the engine, and nobody approves it alone. Name an own recipe.`,
    { recipe },
  );
export const otherBundle = (actual: Hash, expected: string): StemmaError =>
  new StemmaError(
    "RECIPE_INVALID",
    `The bundle is ${actual.slice(0, 12)} and not ${expected.slice(0, 12)}: its bytes are others than those that were looked at. Approve the right file, or the right hash.`,
    { expected, actual },
  );
export const engineNotRun = (cause: unknown): StemmaError =>
  new StemmaError(
    "ENGINE_INVALID",
    `The engine did not run a short training here, so it is not approved: ${cause instanceof Error ? cause.message : String(cause)}`,
    { cause },
  );
