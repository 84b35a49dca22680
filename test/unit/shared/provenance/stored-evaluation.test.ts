/** Stored evaluations as bytes: the golden ones are read and written as they are, damaged ones are refused. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { encodeCanonical, type CanonicalValue } from "../../../../shared/model/canonical-json.js";
import {
  decodeEvaluation,
  encodeEvaluation,
  type StoredEvaluation,
} from "../../../../shared/provenance/stored-evaluation.js";
import { objectId } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const hash = (digits: string): Hash => digits.repeat(32) as Hash;
const evaluation: StoredEvaluation = {
  versionId: hash("a1"),
  root: hash("b2"),
  engine: hash("c3"),
  backend: { backend: "wasm", reason: "default" },
  data: {
    content: hash("d4"),
    name: "digits",
    reader: "mnist",
    parameters: { cells: ["B5", "B6"], share: 0.5 },
    from: "registered",
    part: "heldOut",
    heldOut: 4,
    evaluated: 3,
  },
  top: 2,
  measures: {
    task: "classification",
    samples: 3,
    correct: 2,
    accuracy: 2 / 3,
    top: { k: 2, correct: 3, accuracy: 1 },
    classes: [
      { samples: 2, recall: 0.5, precision: 1, f1: 2 / 3 },
      { samples: 1, recall: 1, precision: 0.5, f1: 2 / 3 },
      { samples: 0, recall: null, precision: null, f1: null },
    ],
    confusion: [
      [1, 1, 0],
      [0, 1, 0],
      [0, 0, 0],
    ],
  },
  metric: { name: "accuracy", unit: "%", lowerIsBetter: false, value: 200 / 3 },
  predictions: { object: hash("e5"), width: 3 },
  environment: { node: "v20.19.0" },
  times: { endedAtMs: 1_767_225_600_000, workMs: 12 },
  by: { who: "ann@workshop", through: "command" },
};
const golden = JSON.parse(
  readFileSync(
    new URL("../../../../../test/vectors/evaluations/evaluations-1.json", import.meta.url),
    "utf8",
  ),
) as { readonly bytes: string; readonly id: string };

test("an evaluation is the golden bytes, and comes back from them", () => {
  const bytes = encodeEvaluation(evaluation);
  assert.equal(Buffer.from(bytes).toString("utf8"), golden.bytes);
  assert.equal(objectId("evaluation", bytes), golden.id);
  assert.deepEqual(decodeEvaluation(Buffer.from(golden.bytes)), evaluation);
});

test("an evaluation without data name, top, predictions and caller comes back, also with an infinite loss", () => {
  const { top: _, predictions: _predictions, ...rest } = evaluation;
  const { name: _name, ...data } = evaluation.data;
  const plain: StoredEvaluation = {
    ...rest,
    data,
    metric: { name: "loss", unit: "", lowerIsBetter: true, value: Infinity },
    by: null,
  };
  assert.deepEqual(decodeEvaluation(encodeEvaluation(plain)), plain);
});

test("bytes that are not an evaluation are refused", () => {
  const right = JSON.parse(golden.bytes) as Record<string, CanonicalValue>;
  for (const wrong of [
    { ...right, format: 2 },
    { ...right, more: 1 },
    { ...right, root: "x" },
    { ...right, measures: { task: "guess", samples: 1 } },
    { ...right, by: { who: "", through: "command" } },
    [],
  ])
    assert.throws(() => decodeEvaluation(encodeCanonical(wrong)), { code: "EVALUATION_INVALID" });
  assert.throws(() => decodeEvaluation(Buffer.from(golden.bytes).subarray(1)), {
    code: "CANONICAL_JSON_INVALID",
  });
});
