/** Threads for kernels: every part runs once, errors come back, and nothing is left behind. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { instantiateKernels } from "../../../../../shared/train/kernels/kernel-module.js";
import type { KernelThreads } from "../../../../../shared/train/kernels/kernel-threads.js";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../../../../..");
const pages = 32;
const pageBytes = 65_536;

let memory: WebAssembly.Memory;
let threads: KernelThreads;
before(async () => {
  memory = new WebAssembly.Memory({ initial: pages, maximum: 65_536, shared: true });
  const bytes = await readFile(`${root}/shared/train/kernels/kernels.wasm`);
  ({ threads } = await instantiateKernels(bytes, memory, 3));
});
after(() => threads.close());

const floats = (): Float32Array => new Float32Array(memory.buffer);
const noScratch = { scratch: 0, scratchBytes: 0 };

test("every part runs exactly once, in thousands of calls one after the other", () => {
  const parts = Array.from({ length: 64 }, (_, index) => [0, 4 * (1 + index * 16), 16]);
  for (let round = 1; round <= 3000; round++) {
    // Ones are added to 64 rows of 16 numbers, by one part each.
    floats().fill(1, 0, 1);
    threads.run({ kernel: "addBias", parts: parts.map(([, row]) => [row!, 0, 16, 1]), ...noScratch });
    if (round % 500 === 0)
      assert.ok(
        floats()
          .subarray(1, 1 + 64 * 16)
          .every((value) => value === round),
        `round ${round}`,
      );
  }
});

test("each thread has scratch memory of its own", () => {
  // packs a [2,4] matrix and multiplies it with itself; the scratch memory holds what was packed.
  const values = Float32Array.from({ length: 8 }, (_, index) => index + 1);
  floats().set(values, 0);
  const [K, M] = [2, 4];
  const out = 4096;
  const parts = Array.from({ length: 48 }, (_, index) => [
    ...[0, M, 0, M, 1, out + index * 64, M],
    ...[M, M, K],
  ]);
  threads.run({ kernel: "matMulTransposed", parts, scratch: 65_536, scratchBytes: 1024 });
  const expected = Array.from({ length: M * M }, (_, index) => {
    const [row, column] = [Math.floor(index / M), index % M];
    return values[row]! * values[column]! + values[M + row]! * values[M + column]!;
  });
  for (let index = 0; index < 48; index++)
    assert.deepEqual([...floats().subarray(out / 4 + index * 16, out / 4 + (index + 1) * 16)], expected);
});

test("a kernel that fails on any thread is an error, and later calls work", () => {
  const outside = pages * pageBytes;
  for (let round = 0; round < 20; round++)
    assert.throws(() =>
      threads.run({
        kernel: "zero",
        parts: Array.from({ length: 16 }, () => [outside, pageBytes]),
        ...noScratch,
      }),
    );
  floats().fill(7, 0, 64);
  threads.run({ kernel: "zero", parts: Array.from({ length: 4 }, (_, i) => [i * 64, 64]), ...noScratch });
  assert.ok(
    floats()
      .subarray(0, 64)
      .every((value) => value === 0),
  );
});
