/** Random queries against a plain evaluator; random-queries.slow.test.ts asks more of them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { compareAnswers } from "./same-answer.js";

const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 1);

test(`random queries select what a plain evaluator selects (seed ${seed})`, async () => {
  assert.ok((await compareAnswers(seed, 10, 30)) > 50);
});
