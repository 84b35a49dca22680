/**
 * Measures how fast a folder's disk reads bytes that are not cached. Writes a temporary file durably, and
 * reads it without the operating system's cache where that is possible.
 */
import { constants } from "node:fs";
import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../../shared/ports.js";

const blockBytes = 1024 * 1024;
const blocks = 8;
const rounds = 2;
/** Makes file names unique within the process; the process id makes them unique between processes. */
let measurementCount = 0;

/**
 * Returns microseconds per byte. Where the cache cannot be bypassed (a file system in memory), this is the
 * cache's own speed.
 * @throws the file system's errors where the folder cannot be written
 */
export async function measureDiskUsPerByte(folder: string, clock: Clock): Promise<number> {
  const path = join(folder, `disk-speed-${process.pid}-${measurementCount++}`);
  try {
    const file = await open(path, "w");
    try {
      const block = new Uint8Array(blockBytes).map((_, i) => (i * 2654435761) >>> 11);
      for (let i = 0; i < blocks; i++) await file.write(block, 0, blockBytes, i * blockBytes);
      await file.sync();
    } finally {
      await file.close();
    }
    return (
      (await timeReading(path, clock, constants.O_RDONLY | constants.O_DIRECT)) ??
      (await timeReading(path, clock, constants.O_RDONLY)) ??
      0.01
    );
  } finally {
    await rm(path, { force: true });
  }
}

async function timeReading(path: string, clock: Clock, flags: number): Promise<number | undefined> {
  // Reading without the cache needs page-aligned memory; a WebAssembly memory is page-aligned.
  const target = new Uint8Array(new WebAssembly.Memory({ initial: blockBytes / 65_536 }).buffer);
  const file = await open(path, flags).catch(() => undefined);
  if (file === undefined) return undefined;
  try {
    let bestMs = Number.POSITIVE_INFINITY;
    for (let round = 0; round < rounds; round++) {
      const startMs = clock.monotonic();
      for (let i = 0; i < blocks; i++)
        if ((await file.read(target, 0, blockBytes, i * blockBytes)).bytesRead !== blockBytes)
          return undefined;
      bestMs = Math.min(bestMs, clock.monotonic() - startMs);
    }
    return Math.max((bestMs * 1000) / (blocks * blockBytes), 1e-6);
  } catch {
    return undefined;
  } finally {
    await file.close();
  }
}
