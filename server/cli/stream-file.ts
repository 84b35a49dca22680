/** Writes a recovery or a data set to a file, which appears only once it is complete and verified. */
import { link, lstat, mkdir, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import type { ProvenStream } from "../interface/api/server-operations.js";

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
 * Writes under a temporary name, waits for the verification, then renames. So a wrong or partial model is
 * never found at `path`, and a file that is there already is replaced completely or not at all. Without a
 * path the bytes are only read and verified.
 * @throws FILE_EXISTS without `overwrite`, where a file of that name appeared meanwhile
 */
export async function writeStreamDurably<Report>(
  stream: Pick<ProvenStream<Report>, "chunks" | "report">,
  path: string | undefined,
  { overwrite }: { readonly overwrite: boolean },
  onBytes: (done: number) => void,
): Promise<Report> {
  // The report may reject while the stream is still being read; the await below handles that rejection.
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

/**
 * Gives a file its name only where nothing has that name: a rename would replace a file that appeared a
 * moment ago, a hard link does not.
 * @throws FILE_EXISTS
 */
async function renameToFree(temporary: string, path: string): Promise<void> {
  try {
    await link(temporary, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") throw exists(path);
    // On a file system without hard links, a check just before the rename has to suffice.
    await refuseExisting(path, false);
    await rename(temporary, path);
    return;
  }
  await rm(temporary);
}

/**
 * Writes to a pipe. The last chunk is written once the model is verified, so that what comes out of the pipe is
 * either correct or incomplete.
 */
export async function writeStreamTo<Report>(
  stream: ProvenStream<Report>,
  target: NodeJS.WritableStream,
): Promise<Report> {
  stream.report.catch(() => undefined);
  const write = (chunk: Uint8Array): Promise<void> =>
    new Promise((resolve, reject) => {
      target.write(chunk, (error) => {
        if (error === undefined || error === null) resolve();
        else reject(error);
      });
    });
  let held: Uint8Array | undefined;
  for await (const chunk of stream.chunks) {
    if (held !== undefined) await write(held);
    held = Uint8Array.from(chunk);
  }
  const report = await stream.report;
  if (held !== undefined) await write(held);
  return report;
}
