/** Outputs of the engine beside those of another tool. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { compareOutputs } from "../../../../shared/programs/check-outputs.js";

const wanted = (...outputs: readonly number[]) => ({
  count: 2,
  outputShape: [2, 2],
  outputs: Float32Array.from(outputs),
});
const check = { samples: "check.npz", tolerance: 1e-3 };
const refused = (text: RegExp) => (error: unknown) =>
  isStemmaError(error, "ARCHITECTURE_MISMATCH") && text.test(error.message);

it("passes within the tolerance, and says how far they are apart", () => {
  const outputs = [1, 2, 3, 4, 5, 6, 7, 8];
  assert.match(compareOutputs(wanted(...outputs), Float32Array.from(outputs), check).text, /bit for bit/u);
  const found = Float32Array.from([1, 2, 3, 4, 5, 6, 7, 8.0005]);
  const { text, largest } = compareOutputs(wanted(...outputs), found, check);
  assert.match(text, /1 of 8 numbers/u);
  assert.ok(Math.abs(largest - 5e-4) < 1e-6);
});

it("names the largest difference with its place", () => {
  const found = Float32Array.from([1, 2, 3, 4, 5.1, 6, 9, 8]);
  assert.throws(
    () => compareOutputs(wanted(1, 2, 3, 4, 5, 6, 7, 8), found, check),
    refused(/up to 2\.00 \(sample 1, output \[1, 0\]: 9 for 7\)/u),
  );
});

it("refuses what is not a number, also where a small difference follows", () => {
  const [one, other] = [wanted(NaN, 2, 3, 4, 5, 6, 7, 8), wanted(1, 2, 3, 4, 5, 6, 7, 8)];
  assert.throws(
    () => compareOutputs(one, Float32Array.from([1, 2, 3, 4, 5, 6, 7, 8.0001]), check),
    refused(/sample 0/u),
  );
  assert.throws(
    () => compareOutputs(other, Float32Array.from([1, 2, NaN, 4, 5, 6, 7, 8.0001]), check),
    refused(/\[1, 0\]/u),
  );
  assert.throws(() => compareOutputs(other, Float32Array.from([1, 2, 3]), check), refused(/none for 4/u));
});
