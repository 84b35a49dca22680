/**
 * Times the work that every save and every recovery needs: the floors by which the benchmarks of saving and
 * recovering divide.
 */
import { createHash } from "node:crypto";
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Tensor } from "../../shared/tensor/tensor.js";

export type Named = Tensor & { readonly name: string };

/** MobileNetV2's 262 tensors, as Keras counts them: 3.5 million float32, most of them in few large kernels. */
export function mobileNetShapes(): readonly (readonly number[])[] {
  const shapes: number[][] = [[3, 3, 3, 32], [32], [32], [32], [32]];
  const blocks: readonly (readonly [expand: number, from: number, to: number])[] = [
    [1, 32, 16],
    [6, 16, 24],
    [6, 24, 24],
    [6, 24, 32],
    [6, 32, 32],
    [6, 32, 32],
    [6, 32, 64],
    [6, 64, 64],
    [6, 64, 64],
    [6, 64, 64],
    [6, 64, 96],
    [6, 96, 96],
    [6, 96, 96],
    [6, 96, 160],
    [6, 160, 160],
    [6, 160, 160],
    [6, 160, 320],
  ];
  for (const [expand, from, to] of blocks) {
    const expanded = expand * from;
    if (expand > 1) shapes.push([1, 1, from, expanded], [expanded], [expanded], [expanded], [expanded]);
    shapes.push(
      [3, 3, expanded, 1],
      [expanded],
      [expanded],
      [expanded],
      [expanded],
      [1, 1, expanded, to],
      [to],
      [to],
      [to],
      [to],
    );
  }
  shapes.push([1, 1, 320, 1280], [1280], [1280], [1280], [1280], [1280, 1000], [1000]);
  return shapes;
}

export function byteLengthOf(shape: readonly number[]): number {
  return 4 * shape.reduce((product, size) => product * size, 1);
}

export const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
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
