/** What a training leaves becomes trees of its version, within limits, and the optimizer's file comes back whole. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ingestLimitsSchema } from "../../../../server/fleet/ingest/limits.js";
import { safetensorsOfOptimizer } from "../../../../shared/recover/optimizer-file.js";
import { maxAttachmentBytes } from "../../../../shared/save/attachment-limit.js";
import { opaqueModelSource } from "../../../../shared/save/model-source.js";
import { usesOfResult, type TrainingStateLimits } from "../../../../shared/save/result-uses.js";
import type { Architecture } from "../../../../shared/model/model.js";
import { fileOfBytes, readSafetensors, safetensorsChunks } from "../../../../shared/tensor/safetensors.js";
import { sourceOfTensor, tensorOfSource } from "../../../../shared/tensor/tensor.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";

const architecture: Architecture = { layers: [], outputs: [] };
const all: TrainingStateLimits = { checkpoints: 256, optimizer: true, bytes: Infinity };

async function bytesOf(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const chunk of chunks) pieces.push(chunk);
  return new Uint8Array(Buffer.concat(pieces));
}
const slot = (name: string, seed: number) => ({
  name,
  source: sourceOfTensor({ dtype: "F32", shape: [100], bytes: noiseBytes(400, seed) }),
});
const metadata = { optimizer: "adam", iterations: "12", format: "1" };

async function leftFiles() {
  const files = memoryFiles();
  await files.makeFolder("/result");
  const write = async (path: string, bytes: Uint8Array): Promise<void> => {
    const file = await files.open(path, "create");
    await file.write(bytes, 0);
    await file.close();
  };
  const optimizer = await bytesOf(safetensorsChunks([slot("slot/m", 1), slot("slot/v", 2)], { metadata }));
  await write("/result/optimizer.safetensors", optimizer);
  const empty = await bytesOf(safetensorsChunks([]));
  const checkpoints = [10, 20, 30].map((iteration) => ({
    iteration,
    file: `/result/${iteration}.safetensors`,
  }));
  for (const { file } of checkpoints) await write(file, empty);
  return { files, optimizer, outcome: { checkpoints, optimizerFile: "/result/optimizer.safetensors" } };
}

describe("what a training leaves", () => {
  it("is kept as trees, ascending, and the optimizer's file is written again with its metadata", async () => {
    const { files, outcome } = await leftFiles();
    const { uses, dropped, close } = await usesOfResult(files, { architecture }, outcome, all);
    assert.deepEqual(dropped, []);
    assert.deepEqual(
      uses.checkpoints?.map(({ iteration }) => iteration),
      [10, 20, 30],
    );
    assert.ok(uses.optimizer);
    const { tensors, options } = await safetensorsOfOptimizer(uses.optimizer);
    const again = await readSafetensors(
      fileOfBytes(await bytesOf(safetensorsChunks(tensors, options))),
      "again",
    );
    assert.deepEqual(again.metadata, metadata);
    assert.deepEqual(
      again.tensors.map(({ name }) => name),
      ["slot/m", "slot/v"],
    );
    const [entry] = again.tensors;
    assert.ok(entry);
    assert.deepEqual((await tensorOfSource(again.source(entry))).bytes, noiseBytes(400, 1));
    await close();
  });

  it("is limited: the optimizer's state first, then the newest checkpoints; what is left out is named", async () => {
    const { files, outcome } = await leftFiles();
    const two = await usesOfResult(files, { architecture }, outcome, { ...all, checkpoints: 2 });
    assert.deepEqual(
      two.uses.checkpoints?.map(({ iteration }) => iteration),
      [20, 30],
    );
    assert.deepEqual(two.dropped, ["the checkpoint after iteration 10"]);
    const none = await usesOfResult(files, { architecture }, outcome, {
      checkpoints: 0,
      optimizer: false,
      bytes: 0,
    });
    assert.deepEqual(none.uses, {});
    assert.equal(none.dropped.length, 4);
    const small = await usesOfResult(files, { architecture }, outcome, { ...all, bytes: 700 });
    assert.equal(small.uses.optimizer, undefined, "its 800 bytes and metadata do not fit");
    await Promise.all([two, none, small].map(({ close }) => close()));
  });

  it("makes metadata of short texts only", async () => {
    const tree = opaqueModelSource([
      { name: "metadata/long", dtype: "U8", shape: [5000], bytes: noiseBytes(5000, 3) },
      { name: "metadata/float", dtype: "F32", shape: [1], bytes: noiseBytes(4, 4) },
    ]);
    const { tensors, options } = await safetensorsOfOptimizer(tree);
    assert.equal(tensors.length, 2);
    assert.deepEqual(options.metadata, {});
  });

  it("leaves space for trees in what a server takes as small objects", () => {
    assert.ok(maxAttachmentBytes + 8 * 2 ** 20 <= ingestLimitsSchema.parse({}).maxObjectBytes);
  });
});
