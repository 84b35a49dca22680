/** Architectures imported from TensorFlow.js's own files, and exported into files that it loads. */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import * as tf from "@tensorflow/tfjs";
import { isStemmaError } from "../../../../shared/errors.js";
import {
  architectureHash,
  decodeArchitecture,
  encodeArchitecture,
  weightSlots,
} from "../../../../shared/model/architecture.js";
import { readModelJson, type DescribedModel } from "../../../../shared/model/model-json.js";
import { writeModelJson } from "../../../../shared/model/model-json-export.js";
import { allowedLayers } from "../../../../shared/model/layer-catalog.js";
import { vectorBytes } from "./vectors.js";
import { everyLayer, savedByTfjs, tfjsModels, type SavedByTfjs } from "./tfjs-models.js";

const inputOf = (model: tf.LayersModel): tf.Tensor[] =>
  model.inputs.map(({ shape }, i) => {
    const extents = shape.map((extent) => extent ?? 2);
    const count = extents.reduce((product, extent) => product * extent, 1);
    return tf.tensor(
      Float32Array.from({ length: count }, (_, j) => (j * 7 + i * 3) % 5),
      extents,
    );
  });

function bitsOf(model: tf.LayersModel): string[] {
  const inputs = inputOf(model);
  const outputs = model.predict(inputs.length === 1 ? (inputs[0] as tf.Tensor) : inputs);
  return (Array.isArray(outputs) ? outputs : [outputs]).map((output) =>
    Buffer.from(output.dataSync().buffer).toString("hex"),
  );
}

/** Loads an exported model.json with the original weights, in canonical order. */
async function loadExported(
  { architecture, names }: DescribedModel,
  saved: SavedByTfjs,
): Promise<tf.LayersModel> {
  const json = writeModelJson(architecture, names);
  const weightData = Buffer.concat(names.leaves.map((name) => saved.tensors.get(name)?.bytes as Uint8Array));
  const weightSpecs = json.weightsManifest.flatMap(
    ({ weights }) => weights,
  ) as unknown as tf.io.WeightsManifestEntry[];
  return await tf.loadLayersModel(
    tf.io.fromMemory({
      modelTopology: json.modelTopology,
      weightSpecs,
      weightData: weightData.buffer.slice(weightData.byteOffset, weightData.byteOffset + weightData.length),
      format: "layers-model",
    }),
  );
}

const refusal =
  (code: string) =>
  (error: unknown): boolean =>
    isStemmaError(error) && error.code === code;
const edited = (saved: SavedByTfjs, edit: (json: Record<string, never>) => void): Uint8Array => {
  const json = JSON.parse(new TextDecoder().decode(saved.modelJson)) as Record<string, never>;
  edit(json);
  return new TextEncoder().encode(JSON.stringify(json));
};

describe("model.json", () => {
  before(async () => {
    await tf.setBackend("cpu");
  });

  for (const [name, build] of Object.entries(tfjsModels)) {
    test(`${name}: computes the same bits after import, export and loading`, async () => {
      const model = build();
      const saved = await savedByTfjs(model);
      const described = readModelJson(saved.modelJson);
      assert.equal(described.names.leaves.length, saved.tensors.size);
      const loaded = await loadExported(described, saved);
      assert.deepEqual(bitsOf(loaded), bitsOf(model));
      const again = readModelJson((await savedByTfjs(loaded)).modelJson);
      assert.equal(
        architectureHash(again.architecture),
        architectureHash(described.architecture),
        "a second round gives the same architecture",
      );
      assert.deepEqual(
        decodeArchitecture(encodeArchitecture(described.architecture)),
        described.architecture,
      );
    });
  }

  test("every layer class that is allowed is accepted as TensorFlow.js writes it", async () => {
    const refused: string[] = [];
    for (const [name, build] of Object.entries(everyLayer)) {
      const saved = await savedByTfjs(build());
      try {
        readModelJson(saved.modelJson);
      } catch (error) {
        refused.push(`${name}: ${(error as Error).message}`);
      }
    }
    assert.deepEqual(refused, []);
    const covered = new Set([...Object.keys(everyLayer), "InputLayer"]);
    assert.deepEqual(
      allowedLayers.filter((name) => !covered.has(name)),
      [],
    );
  });

  test("names, freezing and TensorFlow.js's counters stay outside the identity", async () => {
    const first = readModelJson((await savedByTfjs(tfjsModels["branches"]?.() as tf.LayersModel)).modelJson);
    const model = tfjsModels["branches"]?.() as tf.LayersModel;
    (model.layers[1] as tf.layers.Layer).trainable = false;
    const second = readModelJson((await savedByTfjs(model)).modelJson);
    assert.notDeepEqual(first.names.layers, second.names.layers);
    assert.equal(architectureHash(first.architecture), architectureHash(second.architecture));
    assert.equal(second.names.frozenLayers?.length, 1);
  });

  test("order of inputs into a Concatenate is part of the identity; order of layers in the file is not", async () => {
    const saved = await savedByTfjs(tfjsModels["branches"]?.() as tf.LayersModel);
    const hash = architectureHash(readModelJson(saved.modelJson).architecture);
    const reversed = edited(saved, (json) => {
      (
        json as never as { modelTopology: { config: { layers: unknown[] } } }
      ).modelTopology.config.layers.reverse();
    });
    assert.equal(architectureHash(readModelJson(reversed).architecture), hash);
    const build = (swap: boolean): tf.LayersModel => {
      const input = tf.input({ shape: [6] });
      const parts = [tf.layers.dense({ units: 4 }), tf.layers.dense({ units: 3 })].map(
        (layer) => layer.apply(input) as tf.SymbolicTensor,
      );
      return tf.model({
        inputs: input,
        outputs: tf.layers.concatenate().apply(swap ? parts.reverse() : parts) as tf.SymbolicTensor,
      });
    };
    const hashes = await Promise.all(
      [false, true].map(async (swap) =>
        architectureHash(readModelJson((await savedByTfjs(build(swap))).modelJson).architecture),
      ),
    );
    assert.notEqual(hashes[0], hashes[1]);
  });

  test("another activation with equal tensors is another architecture (MM8)", async () => {
    const saved = await savedByTfjs(tfjsModels["recurrent"]?.() as tf.LayersModel);
    const text = new TextDecoder().decode(saved.modelJson);
    const other = text.replace('"activation":"linear"', '"activation":"sigmoid"');
    assert.notEqual(other, text);
    assert.notEqual(
      architectureHash(readModelJson(new TextEncoder().encode(other)).architecture),
      architectureHash(readModelJson(saved.modelJson).architecture),
    );
  });

  test("shared layers own their weights once", async () => {
    const { architecture } = readModelJson(
      (await savedByTfjs(tfjsModels["shared"]?.() as tf.LayersModel)).modelJson,
    );
    const calls = architecture.layers.filter(({ sharedWith }) => sharedWith !== undefined);
    assert.equal(
      calls.length,
      4,
      "convolution, batch norm and flatten of the nested model, and the dense layer, are called once more",
    );
    assert.equal(weightSlots(architecture).length, 10);
  });

  test("a model as Keras 2 and the converter write it, with functional layers, cell names and its own settings", async () => {
    const described = readModelJson(vectorBytes("keras.model.json"));
    assert.deepEqual(described.names.leaves, [
      "Conv1/kernel",
      "bn_Conv1/gamma",
      "bn_Conv1/beta",
      "bn_Conv1/moving_mean",
      "bn_Conv1/moving_variance",
      "dw/depthwise_kernel",
      "lstm/lstm_cell/kernel",
      "lstm/lstm_cell/recurrent_kernel",
      "lstm/lstm_cell/bias",
      "out/kernel",
      "out/bias",
    ]);
    assert.deepEqual(
      described.architecture.layers.map(({ className }) => className),
      [
        "InputLayer",
        "Conv2D",
        "BatchNormalization",
        "ReLU",
        "ZeroPadding2D",
        "DepthwiseConv2D",
        "Reshape",
        "LSTM",
        "Dropout",
        "Dense",
      ],
    );
    const tensors = new Map(
      weightSlots(described.architecture).map(({ shape }, i) => [
        described.names.leaves[i] as string,
        {
          shape,
          bytes: new Uint8Array(
            Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, j) => ((j * 5) % 7) / 8)
              .buffer,
          ),
        },
      ]),
    );
    const loaded = await loadExported(described, { modelJson: new Uint8Array(), tensors });
    assert.equal(bitsOf(loaded).length, 1);
    const again = readModelJson((await savedByTfjs(loaded)).modelJson);
    assert.deepEqual(
      again.names.leaves.map((name) => name.split("/").at(-1)),
      described.names.leaves.map((name) => name.split("/").at(-1)),
    );
  });

  test("what is not allowed or malformed is refused with its code", async () => {
    const saved = await savedByTfjs(tfjsModels["sequential"]?.() as tf.LayersModel);
    const text = new TextDecoder().decode(saved.modelJson);
    const read = (json: string) => () => readModelJson(new TextEncoder().encode(json));
    assert.throws(read(text.replace('"Flatten"', '"Lambda"')), refusal("LAYER_NOT_ALLOWED"));
    assert.throws(read(text.replace('"Flatten"', '"constructor"')), refusal("LAYER_NOT_ALLOWED"));
    assert.throws(
      read(text.replace('"use_bias":true', '"use_bias":true,"__proto__":{}')),
      refusal("LAYER_NOT_ALLOWED"),
    );
    assert.throws(read(text.replace('"units":4', '"units":-4')), refusal("LAYER_NOT_ALLOWED"));
    assert.throws(read(text.replace('"units":4', '"units":5')), refusal("ARCHITECTURE_MISMATCH"));
    assert.throws(read(text.replace('"units":4', '"units":4,"units":4')), refusal("MODEL_JSON_MALFORMED"));
    assert.throws(
      read(text.replace('"shape":[3,3,1,3]', '"shape":[3,3,1,9007199254740993]')),
      refusal("SHAPE_INVALID"),
    );
    assert.throws(read(text.slice(0, -5)), refusal("MODEL_JSON_MALFORMED"));
    assert.throws(read("[".repeat(100_000)), refusal("MODEL_JSON_MALFORMED"));
    assert.throws(read("{}"), refusal("MODEL_JSON_MALFORMED"));
    assert.throws(read('{"format":"graph-model"}'), refusal("MODEL_JSON_MALFORMED"));
  });

  test("nested models that would expand into too many layers are refused before they are expanded", () => {
    let model: unknown = {
      class_name: "Sequential",
      config: {
        name: "m0",
        layers: [{ class_name: "Flatten", config: { name: "f", batch_input_shape: [null, 4] } }],
      },
    };
    for (let depth = 1; depth < 12; depth++) {
      const name = `m${depth - 1}`;
      const calls = 8;
      const nodes = Array.from({ length: calls }, (_, i) => [
        [i === 0 ? "in" : name, i === 0 ? 0 : i, 0, {}],
      ]);
      model = {
        class_name: "Model",
        config: {
          name: `m${depth}`,
          layers: [
            {
              class_name: "InputLayer",
              name: "in",
              config: { name: "in", batch_input_shape: [null, 4] },
              inbound_nodes: [],
            },
            { ...(model as object), name, inbound_nodes: nodes },
          ],
          input_layers: [["in", 0, 0]],
          output_layers: [[name, calls, 0]],
        },
      };
    }
    assert.throws(
      () =>
        readModelJson(
          new TextEncoder().encode(JSON.stringify({ modelTopology: model, weightsManifest: [] })),
        ),
      refusal("MODEL_JSON_MALFORMED"),
    );
  });
});
