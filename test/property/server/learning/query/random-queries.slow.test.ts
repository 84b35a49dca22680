/** Many random queries against a plain evaluator. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { compareAnswers } from "./same-answer.js";

const seed = 1000 + Number(process.env["STEMMA_TEST_SEED"] ?? Math.floor(performance.timeOrigin % 1e6));

test(`5,000 random queries select what a plain evaluator selects (seed ${seed})`, async () => {
  assert.ok((await compareAnswers(seed, 100, 50)) > 500);
});
