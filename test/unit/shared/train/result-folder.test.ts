/** The result of a training as another process left it: a metric that is not finite is null in JSON. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, it } from "node:test";
import { encodeArchitecture } from "../../../../shared/model/architecture.js";
import { readResultFolder } from "../../../../shared/train/train-in-child.js";
import { tinyModel } from "../../../helpers/agent-fixtures.js";

const folder = await mkdtemp(join(tmpdir(), "stemma-result-"));
after(() => rm(folder, { recursive: true }));

async function resultWith(before: number, after: number): ReturnType<typeof readResultFolder> {
  const metric = { name: "error", unit: "V", lowerIsBetter: true, before, after };
  const files = { model: "model.safetensors", architecture: "architecture.json" };
  await writeFile(join(folder, "result.json"), JSON.stringify({ metric, files }));
  await writeFile(join(folder, files.architecture), encodeArchitecture(tinyModel("1", 3).architecture));
  return await readResultFolder(folder);
}

it("keeps a finite metric", async () => {
  const { result } = await resultWith(2, 1);
  assert.deepEqual([result.metric?.before, result.metric?.after], [2, 1]);
});

it("refuses a training that diverged, and says what to do", async () => {
  for (const value of [Infinity, Number.NaN])
    await assert.rejects(resultWith(2, value), {
      code: "TRAINING_STOPPED",
      message: /diverged.*error on held-out samples is not a finite number.*lower learning rate/,
    });
});

it("compares nothing with a base whose metric was not finite", async () => {
  assert.equal((await resultWith(Infinity, 1)).result.metric, null);
});
