/**
 * Every later release decodes encodings as the first release wrote them, with both implementations, because
 * packs contain them. Written once; no test writes them again.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { createDeltaCodec } from "../../../../shared/delta/codec.js";
import { encodingCodes } from "../../../../shared/delta/encoded.js";
import { plainKernels } from "../../../../shared/delta/kernels/plain.js";
import { loadDeltaCodec } from "../../../../shared/delta/load.js";
import type { DType } from "../../../../shared/tensor/dtype.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";

interface Stored {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly bytes: string;
}
interface Vector {
  readonly what: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly tensor: string;
  readonly base?: Stored;
  readonly previous?: Stored;
  readonly others?: readonly Stored[];
  readonly code: number;
  readonly encoded: string;
}

const bytesOf = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, "base64"));
const tensorOf = (stored: Stored | undefined): Tensor | undefined =>
  stored === undefined ? undefined : { ...stored, bytes: bytesOf(stored.bytes) };

const readVectors = async (file: string): Promise<readonly Vector[]> =>
  JSON.parse(
    await readFile(new URL(`../../../../../test/vectors/delta/${file}`, import.meta.url), "utf8"),
  ) as readonly Vector[];
const files = [
  "encodings-1.json",
  "fixed-planes-1.json",
  "low-rank-1.json",
  "general-1.json",
  "mixed-1.json",
  "derived-1.json",
  "derived-2.json",
  "derived-3.json",
];
const vectors = (await Promise.all(files.map(readVectors))).flat();

for (const codec of [await loadDeltaCodec(), createDeltaCodec(plainKernels())]) {
  for (const { what, dtype, shape, tensor, base, previous, others, code, encoded } of vectors) {
    test(`${what} (${codec.kernels})`, () => {
      const expected = bytesOf(tensor);
      assert.ok(
        Buffer.from(expected).equals(
          codec.decodeTensor(
            { dtype, shape },
            { code, bytes: bytesOf(encoded) },
            {
              base: tensorOf(base),
              previous: tensorOf(previous),
              ...(others === undefined ? {} : { others: others.map((other) => tensorOf(other)!) }),
            },
            expected.length,
          ),
        ),
      );
    });
  }
}

test("every code has a vector, and keeps its number", () => {
  assert.deepEqual([...new Set(vectors.map(({ code }) => code))].sort(), [0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.deepEqual(encodingCodes, {
    raw: 0,
    equal: 1,
    packed: 2,
    rans: 3,
    planes: 4,
    parts: 5,
    fixedPlanes: 6,
    lowRank: 7,
    general: 8,
    mixed: 9,
    derived: 10,
  });
});
