/**
 * How fast the disk of a folder gives bytes that no cache holds: a file of its own, written durably and read
 * past the cache where the system can.
 */
import { constants } from "node:fs";
import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../shared/ports.js";

const blockBytes = 1024 * 1024;
const blocks = 8;
const rounds = 2;
/** Names of two processes must not meet; the folder is one process's own, so a count does. */
let measured = 0;

/**
 * Microseconds a byte. Where the disk cannot be read past its cache (a file system in memory), the cache's
 * own speed. @throws the file system's errors where the folder cannot be written
 */
export async function measureDiskUsPerByte(folder: string, clock: Clock): Promise<number> {
  const path = join(folder, `disk-speed-${process.pid}-${measured++}`);
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
  // Reads past the cache want memory that begins at a page, which that of a WebAssembly memory does.
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
