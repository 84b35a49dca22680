// `model eval` with the real engine, in process and through a server: it measures on the stored model the
// same figure that the training measured.
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { workFolderOf } from "../../../../../server/services/context/work-folder.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { safetensorsChunks } from "../../../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../../../shared/tensor/tensor.js";

async function importOpaque(operations: ServerOperations, fleet: string): Promise<void> {
  const pieces: Uint8Array[] = [];
  for await (const chunk of safetensorsChunks([
    { name: "w", source: sourceOfTensor({ dtype: "F32", shape: [1], bytes: new Uint8Array(4) }) },
  ]))
    pieces.push(Buffer.from(chunk));
  const bytes = Buffer.concat(pieces);
  await operations.import(
    {
      byteLength: bytes.length,
      chunks: (async function* () {
        yield bytes;
      })(),
    },
    { fleet, name: "opaque" },
  );
}

it("measures what the training measured, refuses models that it cannot run, and leaves no files behind", async () => {
  const home = await mkdtemp(join(tmpdir(), "stemma-eval-"));
  const fleet = "local";
  const operations = await openLocalOperations({ home });
  try {
    await operations.addDataset({
      fleet,
      name: "shapes",
      kind: "images-generated",
      location: "",
      parameters: { count: 400 },
    });
    await operations.addDataset({ fleet, name: "cells", kind: "battery-simulated", location: "" });
    const { result } = await operations.train({
      fleet,
      recipe: "image-classify",
      data: "shapes",
      name: "pictures",
      seed: "3",
      parameters: { epochs: 1, filters: 2 },
    });
    const report = await operations.evaluate({ fleet, model: "pictures", data: "shapes", top: 2 });
    assert.deepEqual(report.metric, {
      name: result.metric!.name,
      unit: result.metric!.unit,
      lowerIsBetter: false,
      value: result.metric!.after,
    });
    assert.equal(report.datasetHash, result.datasetHash);
    assert.equal(report.scheme, null);
    assert.match(report.stored ?? "", /^[0-9a-f]{64}$/);
    const { top, ...rest } = report.evaluation as { top?: { k: number; correct: number } };
    assert.deepEqual(rest, result.evaluation?.after, "the same measures, to the last bit");
    assert.ok(top?.k === 2 && top.correct >= (rest as { correct: number }).correct);
    const [few, again, third] = await Promise.allSettled(
      [7, 7, 7].map((limit) =>
        operations.evaluate({ fleet, model: "pictures:1", data: "shapes", limit, store: false }),
      ),
    );
    assert.ok(few?.status === "fulfilled" && again?.status === "fulfilled" && third?.status === "rejected");
    assert.equal((third.reason as { code: string }).code, "QUOTA_EXCEEDED", "two at a time");
    assert.deepEqual(again.value.evaluation, few.value.evaluation);
    assert.deepEqual(
      [few.value.evaluation.samples, few.value.samples],
      [7, { evaluated: 7, heldOut: result.samples.heldOut }],
    );

    await importOpaque(operations, fleet);
    await assert.rejects(operations.evaluate({ fleet, model: "opaque", data: "shapes" }), {
      code: "MODEL_OPAQUE",
    });
    await assert.rejects(operations.evaluate({ fleet, model: "pictures", data: "cells" }), {
      code: "ARCHITECTURE_MISMATCH",
    });
    await assert.rejects(operations.evaluate({ fleet, model: "pictures", data: "nothing" }), {
      code: "DATASET_UNKNOWN",
    });
    await assert.rejects(operations.evaluate({ fleet, model: "nothing", data: "shapes" }), {
      code: "MODEL_NOT_FOUND",
    });
    for (const wrong of [{ top: 0 }, { limit: 0.5 }, { limit: NaN }])
      await assert.rejects(operations.evaluate({ fleet, model: "pictures", data: "shapes", ...wrong }), {
        code: "USAGE",
      });
    const stop = new AbortController();
    const stopped = operations.evaluate(
      { fleet, model: "pictures", data: "shapes" },
      { signal: stop.signal },
    );
    stop.abort();
    await assert.rejects(stopped, { code: "TRAINING_STOPPED" });
    assert.deepEqual(await readdir(workFolderOf({ path: home })), []);
    assert.equal((await operations.models({ fleet })).length, 2, "no version was saved");
    const listed = await operations.evaluations({ fleet });
    assert.deepEqual(
      listed.map(({ evaluation, metric, measures }) => ({ evaluation, metric, measures })),
      [{ evaluation: report.stored, metric: report.metric, measures: report.evaluation }],
      "one evaluation was to be stored",
    );
  } finally {
    await operations.close();
    await rm(home, { recursive: true, force: true });
  }
});
