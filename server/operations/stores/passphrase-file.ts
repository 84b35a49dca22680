/** Files with the passphrase that encrypts the server's key in backups. */
import { isAbsolute } from "node:path";
import { StemmaError } from "../../../shared/errors.js";
import type { Files } from "../../../shared/ports.js";

const maxFileBytes = 4096;

/**
 * The text of the file, without the end of its last line.
 * @throws USAGE where the path is relative or the file is not text of at most 4 KiB; FILE_MISSING
 */
export async function readPassphrase(files: Pick<Files, "read">, path: string): Promise<string> {
  const usage = (why: string): StemmaError =>
    new StemmaError("USAGE", `The passphrase file ${path} ${why}.`, { path });
  if (!isAbsolute(path)) throw usage("is relative. Name it from the root of the server's file system");
  const bytes = await files.read(path);
  if (bytes.length > maxFileBytes) throw usage(`has more than ${maxFileBytes} bytes. Name another one`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes).replace(/\r?\n$/u, "");
  } catch {
    throw usage("is not text. Name another one");
  }
}
