/** Writes a recovery to a file, which appears only once it is complete and verified. */
import { link, lstat, mkdir, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import type { RecoveryReport } from "../api/version-schemas.js";
import type { RecoveryStream } from "../api/server-operations.js";

function exists(path: string): StemmaError {
  return new StemmaError(
    "FILE_EXISTS",
    `${path} exists already, and was left as it is. Name another file, or overwrite it with --force.`,
    { path },
  );
}

/** Refuses early, before anything is recovered. @throws FILE_EXISTS, USAGE where it is a folder */
export async function refuseExisting(path: string, overwrite: boolean): Promise<void> {
  const found = await lstat(path).catch(() => undefined);
  if (found?.isDirectory() === true)
    throw new StemmaError("USAGE", `${path} is a folder. Name a file in it.`, { path });
  if (found !== undefined && !overwrite) throw exists(path);
}

/**
 * Writes under a temporary name, waits for the verification, then renames: a wrong or partial model
 * never gets that name, and a file that has it already is replaced completely or not at all. With no
 * path the bytes are only read and verified.
 * @throws FILE_EXISTS without `overwrite`, where the name was taken meanwhile
 */
export async function writeStreamDurably(
  stream: RecoveryStream,
  path: string | undefined,
  { overwrite }: { readonly overwrite: boolean },
  onBytes: (done: number) => void,
): Promise<RecoveryReport> {
  // The report may reject while the stream is still read; its reader below sees that rejection.
  stream.report.catch(() => undefined);
  let done = 0;
  if (path === undefined) {
    for await (const chunk of stream.chunks) onBytes((done += chunk.length));
    return stream.report;
  }
  await mkdir(dirname(path), { recursive: true });
  const temporary = `${path}.${process.pid}.part`;
  const file = await open(temporary, "w");
  try {
    for await (const chunk of stream.chunks) {
      for (let offset = 0; offset < chunk.length;)
        offset += (await file.write(chunk, offset, chunk.length - offset)).bytesWritten;
      onBytes((done += chunk.length));
    }
    const report = await stream.report;
    await file.sync();
    await file.close();
    await (overwrite ? rename(temporary, path) : renameToFree(temporary, path));
    const folder = await open(dirname(path), "r");
    await folder.sync().finally(() => folder.close());
    return report;
  } catch (error) {
    await file.close().catch(() => undefined);
    await rm(temporary, { force: true });
    throw error;
  }
}

/** A rename replaces what is there; a link does not, even if it came a moment ago. @throws FILE_EXISTS */
async function renameToFree(temporary: string, path: string): Promise<void> {
  try {
    await link(temporary, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") throw exists(path);
    // A file system without hard links: the check a moment before must do.
    await refuseExisting(path, false);
    await rename(temporary, path);
    return;
  }
  await rm(temporary);
}
