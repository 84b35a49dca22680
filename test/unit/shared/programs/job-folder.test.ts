/** The samples that a user's own program is given. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { writeSamples } from "../../../../shared/programs/job-folder.js";
import { fileOfBytes, readSafetensors } from "../../../../shared/tensor/safetensors.js";
import type { SamplePart } from "../../../../shared/train/datasets/dataset.js";

test("rows with weights have them in the file of their part, and others have none", async (context) => {
  const input = await mkdtemp(join(tmpdir(), "stemma-job-"));
  context.after(() => rm(input, { recursive: true, force: true }));
  const files = nodeFiles();
  await files.makeFolder(join(input, "samples"));
  const part: SamplePart = { count: 2, inputs: Float32Array.of(1, 2), targets: Float32Array.of(3, 4) };
  const folders = { program: "/program", input, output: "/output", scratch: "/scratch" };
  const form = { task: "regression", inputShape: [1], targetSize: 1, classes: 0 } as const;
  const weighted = { ...part, weights: Float32Array.of(0.5, 2), metadata: [["a"], ["b"]] };
  await writeSamples(files, folders, { ...form, train: weighted, heldOut: part });
  const namesIn = async (name: string): Promise<readonly string[]> => {
    const path = join(input, "samples", `${name}.safetensors`);
    const { tensors } = await readSafetensors(fileOfBytes(await files.read(path)), path);
    return tensors.map((tensor) => `${tensor.name} [${tensor.shape.join()}]`).sort();
  };
  assert.deepEqual(await namesIn("train"), ["inputs [2,1]", "targets [2,1]", "weights [2]"]);
  assert.deepEqual(await namesIn("held-out"), ["inputs [2,1]", "targets [2,1]"]);
});
