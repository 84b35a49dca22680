/**
 * Every later release reads compact forms as the first release wrote them, because packs contain them, and a
 * reduction still writes the same bytes. Written once; no test writes them again.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { decodeScheme } from "../../../../shared/schemes/decode-scheme.js";
import { reduceTensor } from "../../../../shared/schemes/reduce.js";
import { parseScheme, schemeCodes } from "../../../../shared/schemes/scheme.js";

interface Vector {
  readonly what: string;
  readonly scheme: string;
  readonly seed: string;
  readonly shape: readonly number[];
  readonly tensor: string;
  readonly code: number;
  readonly compact: string;
  readonly reduced: string;
}

const vectors = JSON.parse(
  await readFile(new URL("../../../../../test/vectors/schemes/reduced-1.json", import.meta.url), "utf8"),
) as readonly Vector[];
const bytesOf = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, "base64"));

for (const { what, scheme, seed, shape, tensor, code, compact, reduced } of vectors) {
  test(`${scheme}: ${what}`, () => {
    const header = { dtype: "F32", shape } as const;
    assert.deepEqual(decodeScheme(header, code, bytesOf(compact)), bytesOf(reduced));
    const again = reduceTensor(parseScheme(scheme), header, bytesOf(tensor), { seed });
    assert.deepEqual(again.reduced, bytesOf(reduced), "the same numbers as ever");
    assert.deepEqual(decodeScheme(header, again.code, again.bytes), bytesOf(reduced));
  });
}

test("every scheme has a vector, and keeps its number", () => {
  assert.deepEqual([...new Set(vectors.map(({ code }) => code))].sort(), [16, 17, 18, 19, 20, 21]);
  assert.deepEqual(schemeCodes, {
    float16: 16,
    bfloat16: 17,
    fixed: 18,
    normalized: 19,
    "quantize-uniform": 20,
    "quantize-random": 21,
  });
});
