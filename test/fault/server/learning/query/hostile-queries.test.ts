/** Hostile texts end with an answer or a typed error; hostile-queries.slow.test.ts has many of them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { runQuery } from "../../../../../server/learning/query/run-query.js";
import { plainModels, sourceOf } from "../../../../helpers/query-fleet.js";
import { askHostile } from "./hostile-texts.js";

const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 1);

test(`50 hostile queries end with an answer or a typed error (seed ${seed})`, async () => {
  const ends = await askHostile(seed, 50);
  assert.ok((ends.get("QUERY_INVALID") ?? 0) > 5, JSON.stringify([...ends]));
});

const page = { offset: 0, limit: 10 };

test("a product that is too large, and one that takes too long, is refused and says what to narrow", async () => {
  const models = plainModels(60, (below) => below - 1);
  const text = "select a, b, c where a.number < b.number and b.number < c.number and c.number < a.number";
  const tooLarge = {
    code: "QUERY_TOO_LARGE",
    message: /conditions of its own.*join variables by an equality/,
  };
  await assert.rejects(runQuery(sourceOf(models), text, page, { steps: 5000, ms: 10_000 }), tooLarge);
  let now = 0;
  const slow = { ...sourceOf(models), now: () => (now += 100) };
  await assert.rejects(runQuery(slow, text, page, { steps: 1e9, ms: 1000 }), tooLarge);
});
