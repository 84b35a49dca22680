// `keepOptimizer` keeps the optimizer's state with the version, and `resumeOptimizer` continues from it.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";

const fleet = "local";

it("continues a training from the optimizer's state that its base kept", async (t) => {
  const home = await mkdtemp(join(tmpdir(), "stemma-optimizer-"));
  const operations = await openLocalOperations({ home });
  t.after(async () => {
    await operations.close();
    await rm(home, { recursive: true, force: true });
  });
  await operations.addDataset({ fleet, name: "cells", kind: "battery-simulated", location: "" });
  const train = { fleet, recipe: "battery-soh", data: "cells", name: "soh", seed: "7" };
  const parameters = { epochs: 1, units: 8, keepOptimizer: true, checkpointEveryEpochs: 1 };
  const { summary } = await operations.train({ ...train, parameters });
  assert.ok(summary.record.uses?.optimizer);
  assert.equal(summary.record.uses.checkpoints?.length, 1);
  await operations.train({ ...train, base: "soh:1", parameters: { epochs: 1, resumeOptimizer: true } });
  const { provenance } = await operations.model({ fleet, model: "soh:2" });
  const { state } = provenance as { state: { optimizer: { before: unknown } } };
  assert.match(JSON.stringify(state.optimizer.before), /[0-9a-f]{64}/);
});
