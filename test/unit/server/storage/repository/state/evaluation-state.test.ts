/** Facts on evaluations: the latest of a version are kept, one that is repeated counts once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  evaluationObjectsOf,
  maxKeptEvaluations,
} from "../../../../../../server/storage/repository/state/evaluation-state.js";
import { applyFact } from "../../../../../../server/storage/repository/state/apply-fact.js";
import { emptyState } from "../../../../../../server/storage/repository/state/state.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";

const hash = (number: number): Hash => number.toString(16).padStart(64, "0") as Hash;

test("the latest evaluations of a version are kept", () => {
  const state = emptyState();
  const versionId = hash(1);
  const evaluated = (object: Hash, predictions?: Hash): void => {
    const fact = { type: "evaluated", atMs: state.length, versionId, object } as const;
    applyFact(state, state.length, { ...fact, ...(predictions === undefined ? {} : { predictions }) });
  };
  evaluated(hash(2));
  assert.equal(state.ignoredFacts, 1, "of a version that is not recorded");
  applyFact(state, 1, { type: "recorded", atMs: 1, versionId, name: "m", version: 1 });
  const version = state.versions.get(versionId)!;
  assert.deepEqual(evaluationObjectsOf(version), []);
  evaluated(hash(2), hash(3));
  evaluated(hash(2), hash(3));
  assert.deepEqual(evaluationObjectsOf(version), [hash(2), hash(3)]);
  for (let i = 0; i < maxKeptEvaluations; i++) evaluated(hash(10 + i));
  assert.equal(version.evaluations?.length, maxKeptEvaluations);
  assert.equal(version.evaluations[0]?.object, hash(10));
});
