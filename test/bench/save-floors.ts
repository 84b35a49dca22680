/**
 * Times the work that every save and every recovery needs: the floors by which the benchmarks of saving and
 * recovering divide.
 */
import { createHash } from "node:crypto";
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Tensor } from "../../shared/tensor/tensor.js";

export type Named = Tensor & { readonly name: string };

/** Of an even count the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] as number;
  return sorted.length % 2 === 1 || upper === Infinity ? upper : ((sorted[middle - 1] as number) + upper) / 2;
}
export async function timed(run: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await run();
  return performance.now() - started;
}

let floors = 0;
export interface Cost {
  readonly clockMs: number;
  readonly processorMs: number;
}
/** By the clock, and by processor time of all threads (which other work on the machine disturbs less). */
export async function spent(work: () => unknown): Promise<Cost> {
  const before = process.cpuUsage();
  const clockMs = await timed(async () => {
    await work();
  });
  const { user, system } = process.cpuUsage(before);
  return { clockMs, processorMs: (user + system) / 1000 };
}
/** SHA-256 of the bytes in `hashed`, and the bytes in `stored` written to one new file in one call and fsynced. */
export async function saveFloor(
  folder: string,
  hashed: readonly { readonly bytes: Uint8Array }[],
  stored: readonly { readonly bytes: Uint8Array }[],
): Promise<number> {
  return await timed(async () => {
    for (const { bytes } of hashed) createHash("sha256").update(bytes).digest();
    const file = await open(join(folder, `floor-${floors++}`), "w");
    const { bytesWritten } = await file.writev(stored.map(({ bytes }) => bytes));
    const expected = stored.reduce((sum, { bytes }) => sum + bytes.length, 0);
    if (bytesWritten !== expected) throw new Error(`The floor wrote ${bytesWritten} of ${expected} bytes.`);
    await file.sync();
    await file.close();
  });
}

/** A cached read of all bytes, and SHA-256. */
export async function recoverFloor(path: string): Promise<number> {
  return await timed(async () =>
    createHash("sha256")
      .update(await readFile(path))
      .digest(),
  );
}
