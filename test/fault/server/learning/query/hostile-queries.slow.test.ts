/** Many hostile texts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { askHostile } from "./hostile-texts.js";

const seed = Number(process.env["STEMMA_TEST_SEED"] ?? Math.floor(performance.timeOrigin % 1e6));

test(`2,000 hostile queries end with an answer or a typed error (seed ${seed})`, async () => {
  const ends = await askHostile(seed, 2000);
  // A model is derived where the seed's network and a text allow it: random-derivations.test.ts demands that.
  for (const end of ["answer", "QUERY_INVALID", "QUERY_TOO_LARGE"]) assert.ok((ends.get(end) ?? 0) > 0, end);
});
