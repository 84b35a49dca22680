/**
 * Imports of a safetensors file: with a model.json, without one, and with tensors named by leaf paths as the
 * engine writes them.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as tf from "@tensorflow/tfjs";
import { isStemmaError } from "../../../../shared/errors.js";
import { architectureHash } from "../../../../shared/model/architecture.js";
import { decodeNames, encodeNames } from "../../../../shared/model/names.js";
import { readModelJson } from "../../../../shared/model/model-json.js";
import { safetensorsOfModel } from "../../../../shared/recover/recovered-file.js";
import { modelSourceOfSafetensors } from "../../../../shared/save/model-source.js";
import { fileOfBytes, safetensorsChunks, type NamedSource } from "../../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../../shared/tensor/tensor.js";
import { savedByTfjs, tfjsModels } from "../model/tfjs-models.js";

async function fileOf(
  sources: readonly NamedSource[],
  metadata?: Readonly<Record<string, string>>,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const chunk of safetensorsChunks(sources, metadata === undefined ? {} : { metadata }))
    parts.push(chunk);
  return new Uint8Array(Buffer.concat(parts));
}

async function imported(name: string): Promise<{
  readonly modelJson: Uint8Array;
  readonly file: Uint8Array;
  readonly sources: readonly NamedSource[];
}> {
  await tf.setBackend("cpu");
  const saved = await savedByTfjs(tfjsModels[name]?.() as tf.LayersModel);
  // Another tool's order: the last tensor first.
  const sources = [...saved.tensors].reverse().map(([tensor, { shape, bytes }]) => ({
    name: tensor,
    source: sourceOfTensor({ dtype: "F32", shape, bytes }),
  }));
  return { modelJson: saved.modelJson, sources, file: await fileOf(sources, { from: "elsewhere" }) };
}

const mismatch = (error: unknown): boolean => isStemmaError(error, "ARCHITECTURE_MISMATCH");

test("with a model.json: leaves in the order of the architecture, and the file is recovered byte for byte", async () => {
  for (const name of Object.keys(tfjsModels)) {
    const { modelJson, file } = await imported(name);
    const model = await modelSourceOfSafetensors(fileOfBytes(file), name, { modelJson });
    assert.equal(model.kind, "architecture");
    assert.ok(model.leaves.every(({ path }) => /^[0-9]+\/[0-9]+$/.test(path)));
    const { tensors, options } = safetensorsOfModel(model);
    const again: Uint8Array[] = [];
    for await (const chunk of safetensorsChunks(tensors, options)) again.push(chunk);
    assert.deepEqual(new Uint8Array(Buffer.concat(again)), file, name);
  }
});

test("a model.json without a weights manifest gets its shapes from the tensors", async () => {
  const { modelJson, file } = await imported("recurrent");
  const { modelTopology } = JSON.parse(new TextDecoder().decode(modelJson)) as { modelTopology: unknown };
  const model = await modelSourceOfSafetensors(fileOfBytes(file), "recurrent", {
    modelJson: new TextEncoder().encode(JSON.stringify(modelTopology)),
  });
  assert.ok(model.architecture !== undefined);
  assert.equal(architectureHash(model.architecture), architectureHash(readModelJson(modelJson).architecture));
});

test("a file whose tensors are named by paths gets the given names", async () => {
  const { modelJson, file } = await imported("sequential");
  const base = await modelSourceOfSafetensors(fileOfBytes(file), "base", { modelJson });
  const byPath = await fileOf(
    base.leaves.map(({ path }, i) => ({ name: path, source: base.sources[i] as NamedSource["source"] })),
  );
  const { architecture } = readModelJson(modelJson);
  const model = await modelSourceOfSafetensors(fileOfBytes(byPath), "trained", {
    architecture: { architecture, names: base.names },
  });
  assert.deepEqual(model.leaves, base.leaves);
  assert.deepEqual(model.names, base.names);
  const unnamed = await modelSourceOfSafetensors(fileOfBytes(byPath), "trained", {
    architecture: { architecture },
  });
  assert.ok(
    unnamed.names.leaves.every((name) => /^[a-z0-9_]+\/[a-z_]+$/.test(name)),
    unnamed.names.leaves.join(),
  );
});

test("files that do not belong to the model.json are refused, naming the tensor", async () => {
  const { modelJson, sources } = await imported("recurrent");
  const refused = async (changed: readonly NamedSource[]): Promise<void> => {
    await assert.rejects(
      modelSourceOfSafetensors(fileOfBytes(await fileOf(changed)), "other", { modelJson }),
      mismatch,
    );
  };
  await refused(sources.slice(1));
  await refused([
    ...sources,
    { name: "more", source: sourceOfTensor({ dtype: "F32", shape: [], bytes: new Uint8Array(4) }) },
  ]);
  await refused(
    sources.map(({ name, source }, i) =>
      i === 0
        ? {
            name,
            source: sourceOfTensor({
              dtype: "I32",
              shape: source.shape,
              bytes: new Uint8Array(source.byteLength),
            }),
          }
        : { name, source },
    ),
  );
});

test("a file is recovered byte for byte in any order of its metadata", async () => {
  const w = sourceOfTensor({ dtype: "F32", shape: [1], bytes: new Uint8Array(4) });
  const orders: readonly Readonly<Record<string, string>>[] = [
    { format: "pt", author: "Zoë" },
    { author: "Zoë", format: "pt" },
    { ﬀ: "1", "🚗": "2", "": "3" },
  ];
  for (const metadata of orders) {
    const file = await fileOf([{ name: "w", source: w }], metadata);
    const model = await modelSourceOfSafetensors(fileOfBytes(file), "metadata");
    // Stored and read again, as in a recovery.
    const { tensors, options } = safetensorsOfModel({
      ...model,
      names: decodeNames(encodeNames(model.names), 1),
    });
    const again: Uint8Array[] = [];
    for await (const chunk of safetensorsChunks(tensors, options)) again.push(chunk);
    assert.deepEqual(new Uint8Array(Buffer.concat(again)), file, JSON.stringify(metadata));
  }
});
