/** TensorFlow.js models: groups, quantised weights as tfjs itself decodes them, and what Stemma writes. */
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { io } from "@tensorflow/tfjs";
import { isStemmaError } from "../../../../shared/errors.js";
import { dequantise, quantisationOf } from "../../../../shared/forms/tfjs-quantisation.js";
import { defaultNames, writeModelJson } from "../../../../shared/model/model-json-export.js";
import { treeRoot } from "../../../../shared/model/tree.js";
import { openModelFile } from "../../../../shared/forms/model-file.js";
import { modelSourceOfSafetensors } from "../../../../shared/save/model-source.js";
import type { Json } from "../../../../shared/tensor/strict-json.js";
import { tensorOfSource } from "../../../../shared/tensor/tensor.js";
import { tinySource } from "../../../helpers/agent-fixtures.js";
import { floats, ModelFolder, tfjsModelFiles } from "../../../helpers/foreign-models.js";
import { join } from "node:path";

const folder = new ModelFolder();
after(() => folder[Symbol.dispose]());

const refused =
  (pattern: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(isStemmaError(error, "MODEL_FILE_MALFORMED"), String(error));
    assert.match(error.message, pattern);
    return true;
  };

describe("a TensorFlow.js model", () => {
  test("is read over its groups and files; what is quantised is decoded, and said", async () => {
    const { tensors, architecture, notes } = await folder.read(tfjsModelFiles());
    assert.deepEqual(tensors, {
      "d/kernel": `F32 [2,1] ${floats(-1, 126.5).toString("hex")}`,
      "d/bias": `F32 [3] ${floats(1, 2, 3).toString("hex")}`,
      n: "I32 [1] 07000000",
    });
    assert.equal(architecture, undefined);
    assert.match(notes.join("\n"), /the model is opaque\n1 of 3 weights are quantised/);
  });

  test("that Stemma wrote comes back with the same root and layers", async () => {
    const source = tinySource();
    assert.ok(source.architecture);
    const weights = [];
    for (const each of source.sources) weights.push((await tensorOfSource(each)).bytes);
    const json = writeModelJson(source.architecture, defaultNames(source.architecture));
    folder.write({
      main: "model.json",
      files: { "model.json": Buffer.from(JSON.stringify(json)), "weights.bin": Buffer.concat(weights) },
    });
    const { file, architecture, notes, close } = await openModelFile(join(folder.path, "model.json"));
    const model = await modelSourceOfSafetensors(file, "x", { modelJson: Buffer.from(architecture ?? "") });
    await close();
    assert.equal(treeRoot(model.leaves), treeRoot(source.leaves));
    assert.deepEqual(model.architecture, source.architecture);
    assert.deepEqual(notes, []);
  });

  test("with weights of the optimizer and a training configuration says that they are not kept", async () => {
    const weights = [
      {
        name: "d/kernel",
        shape: [2, 1],
        dtype: "float32",
        quantization: { dtype: "uint8", scale: 0.5, min: -1 },
      },
      { name: "d/m", shape: [3], dtype: "float32", group: "optimizer" },
    ];
    const { tensors, notes } = await folder.read(tfjsModelFiles({ weights, json: { trainingConfig: {} } }));
    assert.deepEqual(Object.keys(tensors), ["d/kernel", "n"]);
    assert.match(notes.join("\n"), /1 weights of the optimizer.*\n.*"trainingConfig"/);
  });

  const one = { name: "w", shape: [3], dtype: "float32" };
  const wrong: readonly (readonly [
    title: string,
    change: Parameters<typeof tfjsModelFiles>[0],
    pattern: RegExp,
  ])[] = [
    ["fewer bytes than weights", { weights: [{ ...one, shape: [4] }] }, /have 14 bytes, its weights need 16/],
    [
      "a weight twice",
      { weights: [one, { ...one, shape: [], dtype: "bool" }, { ...one, shape: [1], dtype: "bool" }] },
      /"w" is listed twice/,
    ],
    ["texts as weights", { weights: [{ ...one, dtype: "string" }] }, /dtype "string"/],
    [
      "an unknown quantisation",
      { weights: [{ ...one, quantization: { dtype: "int4" } }] },
      /quantised as "int4"/,
    ],
    [
      "a quantisation without scale",
      { weights: [{ ...one, quantization: { dtype: "uint8" } }] },
      /without scale and min/,
    ],
    [
      "halves of whole numbers",
      { weights: [{ ...one, dtype: "int32", quantization: { dtype: "float16" } }] },
      /does not allow/,
    ],
    [
      "a path out of the folder",
      { json: { weightsManifest: [{ paths: ["../g2.bin"], weights: [] }] } },
      /names the file "\.\.\/g2/,
    ],
    [
      "one file in two groups",
      { json: { weightsManifest: [{ paths: ["g2.bin", "g2.bin"], weights: [] }] } },
      /names it twice/,
    ],
  ];
  for (const [title, change, pattern] of wrong)
    test(`with ${title} is refused`, () =>
      assert.rejects(folder.read(tfjsModelFiles(change)), refused(pattern)));

  test("of a shape that no file has is refused", async () => {
    const weights = [{ ...one, shape: [2 ** 40, 2 ** 40] }];
    await assert.rejects(folder.read(tfjsModelFiles({ weights })), (error) =>
      isStemmaError(error, "SHAPE_INVALID"),
    );
  });
});

test("quantised weights have the bits that tfjs decodes", async () => {
  const stored = Uint16Array.from({ length: 65_536 }, (_, i) => i);
  const bytes = new Uint8Array(stored.buffer);
  for (const [dtype, type, members] of [
    ["float16", "float32", {}],
    ["uint16", "float32", { scale: 0.1, min: -3.7 }],
    ["uint8", "float32", { scale: 0.017, min: -1e-3 }],
    ["uint16", "int32", { scale: 0.1, min: -3.7 }],
  ] as const) {
    const quantization = { dtype, ...members };
    const elements = dtype === "uint8" ? bytes.length : stored.length;
    const decoded = io.decodeWeights(stored.buffer, [
      { name: "w", shape: [elements], dtype: type, quantization },
    ])["w"];
    const wanted = (await decoded?.data()) as Float32Array | Int32Array;
    const form = type === "int32" ? "I32" : "F32";
    const read = quantisationOf(new Map<string, Json>(Object.entries(quantization)), form, assert.fail);
    assert.ok(read);
    const found = dequantise(bytes, form, read);
    assert.ok(Buffer.from(wanted.buffer, wanted.byteOffset, wanted.byteLength).equals(found), dtype);
  }
});
