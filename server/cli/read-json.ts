/** Reads a model.json that a command is given. */
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { regularFiles } from "../../shared/files/regular-files.js";

/** @throws USAGE where it cannot be read, or is not a JSON object */
export async function readJson(path: string): Promise<Record<string, unknown>> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(new TextDecoder().decode(await regularFiles().read(path)));
  } catch (cause) {
    if (isStemmaError(cause, "FILE_NOT_REGULAR")) throw cause;
    throw new StemmaError(
      "USAGE",
      `${path} could not be read as JSON: ${(cause as Error).message}. Give the model.json that TensorFlow.js saved.`,
      { cause },
    );
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed))
    throw new StemmaError("USAGE", `${path} is not a model.json: it is not a JSON object.`);
  return parsed as Record<string, unknown>;
}
