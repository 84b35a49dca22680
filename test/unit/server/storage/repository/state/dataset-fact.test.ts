/**
 * The journal must return a dataset reader's parameters unchanged, or a training would use other samples under
 * the same name.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { factCodec } from "../../../../../../server/storage/repository/state/fact-codec.js";
import { applyFact } from "../../../../../../server/storage/repository/state/apply-fact.js";
import { emptyState } from "../../../../../../server/storage/repository/state/state.js";
import type { Fact } from "../../../../../../shared/journal/fact.js";

const fact: Fact = {
  type: "data",
  atMs: 1,
  name: "cell-7",
  kind: "nasa-battery",
  location: "/data",
  parameters: { cells: ["B0007"], vehicle: 3 },
  hash: null,
};

test("the reader's parameters survive the journal and the fold", () => {
  const back = factCodec.decode(factCodec.encode(fact));
  assert.deepEqual(back, fact);
  const state = emptyState();
  applyFact(state, 0, back);
  assert.deepEqual(state.datasets.get("cell-7")?.parameters, { cells: ["B0007"], vehicle: 3 });
});
