/** Reads the small JSON files of the owner with a size limit; a typed error names the file and the field. */
import { type ErrorCode } from "../../shared/errors.js";
import type { Files } from "../../shared/ports.js";
import { fileTooLong, noFile, notJson } from "./settings-errors.js";

const maxBytes = 1024 * 1024;

/**
 * Reads and parses a JSON file of at most 1 MiB.
 * @throws the given code when it is missing, too long or not JSON
 */
export async function parseJsonFile(files: Files, path: string, code: ErrorCode): Promise<unknown> {
  const stat = await files.stat(path);
  if (stat === undefined) throw noFile(path, code);
  if (stat.size > maxBytes) throw fileTooLong(path, stat.size, maxBytes, code);
  const text = new TextDecoder().decode(await files.read(path));
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw notJson(path, cause, code);
  }
}
