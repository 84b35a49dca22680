// The first half of use case U2 with the real engine: trains a base from scratch and fine-tunes it, both with
// complete lineage.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";

const fleet = "local";

it("trains on the server, saves lineage, measurements and provenance, and stops on request", async () => {
  const home = await mkdtemp(join(tmpdir(), "stemma-train-"));
  const operations = await openLocalOperations({ home });
  try {
    const data = await operations.addDataset({
      fleet,
      name: "cells",
      kind: "battery-simulated",
      location: "",
    });
    assert.match(data.hash ?? "", /^[0-9a-f]{64}$/);
    assert.equal((await operations.checkDataset({ fleet, name: "cells" })).ok, true);
    const progress: string[] = [];
    const train = {
      fleet,
      recipe: "battery-soh",
      data: "cells",
      name: "soh",
      seed: "7",
      parameters: { epochs: 1 },
    };
    const first = await operations.train(train, {
      onProgress: ({ line }) => {
        progress.push(line);
      },
    });
    assert.ok(
      progress.some((line) => line.startsWith("training")),
      progress.join("; "),
    );
    const tuned = await operations.train({ ...train, base: "soh:1", seed: "8" });
    const shown = await operations.model({ fleet, model: "soh:2" });
    assert.equal(tuned.summary.versionId, shown.versionId);
    assert.deepEqual(
      shown.bases.map(({ name, version }) => [name, version]),
      [["soh", 1]],
    );
    assert.ok((shown.measurements?.length ?? 0) > 0);
    assert.equal(typeof shown.measurements?.[0]?.loss, "number", "numbers, not the bits they are kept as");
    assert.equal(shown.metadata?.["metric.name"], tuned.result.metric!.name);
    assert.equal((shown.provenance as { random: { seed: string } }).random.seed, "8");
    assert.equal(shown.environment["engine"], tuned.result.engine);
    assert.equal(
      (await operations.verify({ fleet, model: first.summary.versionId })).root,
      first.summary.record.root,
    );
    const stop = new AbortController();
    const stopped = operations.train(
      { ...train, parameters: { epochs: 500 } },
      {
        onProgress: () => {
          stop.abort();
        },
        signal: stop.signal,
      },
    );
    await assert.rejects(stopped, { code: "TRAINING_STOPPED" });
    await assert.rejects(operations.train({ ...train, data: "nothing" }), { code: "DATASET_UNKNOWN" });
    await assert.rejects(operations.train({ ...train, recipe: "no-such-recipe" }), {
      code: "RECIPE_UNKNOWN",
    });
  } finally {
    await operations.close();
    await rm(home, { recursive: true, force: true });
  }
});
