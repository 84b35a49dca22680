/** Takes a recovery's stream to a file that appears only once it is complete and verified, or nowhere. */
import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import type { RecoveryReport, RecoveryStream } from "../operations/operations.js";

/**
 * Writes under a temporary name, waits for the verification, then renames: a wrong or half model never
 * bears the name asked for. With no path the bytes are only read and verified.
 */
export async function writeStreamDurably(stream: RecoveryStream, path: string | undefined, onBytes: (done: number) => void): Promise<RecoveryReport> {
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
      for (let at = 0; at < chunk.length;) at += (await file.write(chunk, at, chunk.length - at)).bytesWritten;
      onBytes((done += chunk.length));
    }
    const report = await stream.report;
    await file.sync();
    await file.close();
    await rename(temporary, path);
    const folder = await open(dirname(path), "r");
    await folder.sync().finally(() => folder.close());
    return report;
  } catch (error) {
    await file.close().catch(() => undefined);
    await rm(temporary, { force: true });
    throw error;
  }
}
