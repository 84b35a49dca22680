/** `model eval` through a server, with stored predictions. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { startTestServer, testFleet } from "../../../../helpers/test-server.js";

it("gives the same answers through a server as in process", async () => {
  const server = await startTestServer();
  try {
    const operations = connectOperations({ socketPath: server.handle.socketPath }, 20);
    const fleet = testFleet;
    await operations.addDataset({ fleet, name: "cells", kind: "battery-simulated", location: "" });
    const { result } = await operations.train({
      fleet,
      recipe: "battery-soh",
      data: "cells",
      name: "soh",
      seed: "3",
      parameters: { epochs: 1 },
    });
    const report = await operations.evaluate({ fleet, model: "soh", data: "cells" });
    assert.deepEqual([report.metric.name, report.metric.value], [result.metric!.name, result.metric!.after]);
    assert.deepEqual(report.evaluation, result.evaluation?.after);
    const stored = await operations.evaluate({
      fleet,
      model: "soh",
      data: "cells",
      limit: 7,
      predictions: true,
    });
    const details = await operations.evaluation({ fleet, evaluation: stored.stored!, rows: 100 });
    const errors = details.predictions!.rows.map(([value]) => value);
    assert.equal(errors.length, 7, "a prediction for each sample");
    const { actual, targets } = details.predictions!;
    assert.equal(targets, 1);
    const mean = errors.reduce<number>((sum, value, i) => sum + Math.abs(value! - actual[i]![0]!), 0) / 7;
    assert.ok(stored.evaluation.task === "regression");
    assert.ok(Math.abs(mean - stored.evaluation.meanAbsoluteError) < 1e-6, "they are the true labels");
    assert.ok(errors.every((value) => typeof value === "number"));
    assert.deepEqual(details.measures, stored.evaluation);
    assert.deepEqual(
      [details.data.content, details.data.name, details.data.reader, details.data.evaluated],
      [result.datasetHash, "cells", "battery-simulated", 7],
    );
    assert.equal(details.root, (await operations.model({ fleet, model: "soh" })).record.root);
    assert.match(details.by ?? "", /socket/);
    await assert.rejects(
      operations.evaluate({ fleet, model: "soh", data: "cells", predictions: true, store: false }),
      { code: "USAGE" },
    );
    await operations.pushDataset({ fleet, name: "cells" });
    const fromStore = await operations.evaluate({ fleet, model: "soh", data: result.datasetHash });
    assert.deepEqual(fromStore.evaluation, report.evaluation, "data by their content hash");
    await assert.rejects(operations.evaluate({ fleet, model: "soh", data: "0".repeat(64) }), {
      code: "DATASET_UNKNOWN",
    });
    await assert.rejects(operations.evaluate({ fleet, model: "soh", data: "cells", limit: -1 }), {
      code: "USAGE",
    });
    const gone = new AbortController();
    const left = operations.evaluate({ fleet, model: "soh", data: "cells" }, { signal: gone.signal });
    gone.abort();
    await assert.rejects(left, { code: "INTERRUPTED" });
  } finally {
    await server.remove();
  }
});
