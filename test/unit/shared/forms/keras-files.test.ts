/** Files that Keras 2 and 3 wrote: their tensors, what their layers predict, and what is refused. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { after, describe, test } from "node:test";
import * as tf from "@tensorflow/tfjs";
import { isStemmaError } from "../../../../shared/errors.js";
import { writeModelJson } from "../../../../shared/model/model-json-export.js";
import { readModelJson } from "../../../../shared/model/model-json.js";
import { openModelFile, readLoneFile } from "../../../../shared/forms/model-file.js";
import { buildTrainable } from "../../../../shared/train/trainable.js";
import { tensorOfSource } from "../../../../shared/tensor/tensor.js";
import { openSafetensors } from "../../../../shared/save/open-safetensors.js";
import { ModelFolder, readModel, vectorFolder } from "../../../helpers/foreign-models.js";
import { entriesOf, zipOf } from "../../../helpers/stored-zip.js";

const folder = new ModelFolder();
after(() => folder[Symbol.dispose]());
const pathOf = (name: string): string => fileURLToPath(new URL(name, vectorFolder));

interface Predictions {
  readonly inputs: readonly { readonly shape: number[]; readonly values: number[] }[];
  readonly outputs: readonly (readonly number[])[];
}
const predictionsOf = (version: string): Readonly<Record<string, Predictions>> =>
  JSON.parse(readFileSync(pathOf(`keras-${version}.json`), "utf8")) as Record<string, Predictions>;

/** The model as an import makes it, loaded by TensorFlow.js from what Stemma writes of it. */
async function imported(path: string): Promise<tf.LayersModel> {
  const { file, architecture, close } = await openModelFile(path);
  try {
    const opened = await openSafetensors(file, path);
    const headers = new Map(opened.tensors.map((tensor) => [tensor.name, tensor]));
    const described = readModelJson(Buffer.from(architecture as string), headers);
    const json = writeModelJson(described.architecture, described.names);
    const pieces: Uint8Array[] = [];
    for (const name of described.names.leaves)
      for await (const piece of opened.source(headers.get(name) as never).chunks()) pieces.push(piece);
    return await tf.loadLayersModel(
      tf.io.fromMemory({
        modelTopology: json.modelTopology,
        weightSpecs: json.weightsManifest.flatMap(({ weights }) => weights) as tf.io.WeightsManifestEntry[],
        weightData: Uint8Array.from(Buffer.concat(pieces)).buffer,
      }),
    );
  } finally {
    await close();
  }
}

/** The model as the engine builds it, which has layers that TensorFlow.js has not. */
async function built(path: string): Promise<Pick<tf.LayersModel, "predict">> {
  const { file, architecture, close } = await openModelFile(path);
  try {
    const opened = await openSafetensors(file, path);
    const headers = new Map(opened.tensors.map((tensor) => [tensor.name, tensor]));
    const described = readModelJson(Buffer.from(architecture as string), headers);
    const tensors = await Promise.all(
      described.names.leaves.map((name) => tensorOfSource(opened.source(headers.get(name) as never))),
    );
    const model = buildTrainable(tf, described.architecture, tensors);
    return { predict: (input) => model.forward(input as tf.Tensor, false) as tf.Tensor[] };
  } finally {
    await close();
  }
}

async function requireSamePredictions(
  path: string,
  { inputs, outputs }: Predictions,
  open: (path: string) => Promise<Pick<tf.LayersModel, "predict">> = imported,
): Promise<void> {
  const model = await open(path);
  const given = inputs.map(({ shape, values }) => tf.tensor(Float32Array.from(values), shape));
  const predicted = [model.predict(given.length === 1 ? (given[0] as tf.Tensor) : given)].flat();
  assert.equal(predicted.length, outputs.length);
  predicted.forEach((tensor, i) => {
    const values = tensor.dataSync();
    assert.equal(values.length, outputs[i]?.length);
    values.forEach((value, j) => assert.ok(Math.abs(value - (outputs[i]?.[j] as number)) < 1e-5));
  });
}

const refused =
  (pattern: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(isStemmaError(error, "MODEL_FILE_MALFORMED"), String(error));
    assert.match(error.message, pattern);
    return true;
  };

describe("a model of Keras", () => {
  for (const file of ["cnn-3.keras", "two-3.keras", "two-3.h5", "lstm-3.keras"])
    test(`3, ${file}, predicts what Keras does`, () =>
      requireSamePredictions(
        pathOf(file),
        predictionsOf("3")[file.slice(0, file.indexOf("-"))] as Predictions,
      ));
  for (const file of ["cnn-2.h5", "two-2.keras", "two-2.h5", "lstm-2.h5"])
    test(`2, ${file}, predicts what Keras does`, () =>
      requireSamePredictions(
        pathOf(file),
        predictionsOf("2")[file.slice(0, file.indexOf("-"))] as Predictions,
      ));

  for (const file of ["gru-3.keras", "grus-3.keras", "grus-3.h5"])
    test(`3, ${file}, with GRUs that reset after the product, predicts what Keras does`, () =>
      requireSamePredictions(
        pathOf(file),
        predictionsOf("3")[file.slice(0, file.indexOf("-"))] as Predictions,
        built,
      ));

  test("has the same names and tensors in a .keras and an .h5 file", async () => {
    for (const version of ["2", "3"]) {
      const [one, two] = await Promise.all(
        ["keras", "h5"].map((kind) => readModel(pathOf(`two-${version}.${kind}`))),
      );
      assert.deepEqual(one?.tensors, two?.tensors);
      assert.ok("encoder/same/kernel" in (one?.tensors ?? {}) && "same/kernel" in (one?.tensors ?? {}));
    }
  });

  test("states what of it is not kept", async () => {
    assert.deepEqual((await readModel(pathOf("cnn-3.keras"))).notes, [
      "tensors of the optimizer, of metrics or of random generators are not read: 2",
      'these parts are not read: "compile_config"',
    ]);
  });

  test("with a layer that the engine computes differently is opaque, and the setting is named", async () => {
    const entries = entriesOf(readFileSync(pathOf("gru-3.keras")));
    const config = Buffer.from(entries.get("config.json") as Uint8Array).toString();
    entries.set("config.json", Buffer.from(config.replace('"sigmoid"', '"hard_sigmoid"')));
    const { architecture, notes, tensors } = await folder.read({
      main: "m.keras",
      files: { "m.keras": zipOf(entries) },
    });
    assert.equal(architecture, undefined);
    assert.match(
      notes[0] ?? "",
      /opaque, with the names of the file: The layer "gru" \(GRU\): its activation "hard_sigmoid"/,
    );
    assert.equal(Object.keys(tensors)[2], "layers/gru/cell/vars/0");
  });

  test("of weights alone is opaque", async () => {
    const { architecture, notes, tensors } = await readModel(pathOf("gru-3.weights.h5"));
    assert.equal(architecture, undefined);
    assert.deepEqual(notes, ["it describes no layers: the model is opaque, with the names of the file"]);
    assert.deepEqual(Object.keys(tensors)[2], "layers/gru/cell/vars/0");
    assert.deepEqual(
      Object.values(tensors).slice(2),
      Object.values((await readModel(pathOf("gru-3.keras"))).tensors).slice(0, 3),
    );
  });

  test("that came alone, as over HTTP, is read as from a folder", async () => {
    const bytes = readFileSync(pathOf("two-3.keras"));
    const file = {
      size: () => Promise.resolve(bytes.length),
      read: (target: Uint8Array, position: number) =>
        Promise.resolve(bytes.copy(target, 0, position, position + target.length)),
    };
    const lone = await readLoneFile(file, "The file");
    assert.equal((await openSafetensors(lone.file, "The file")).tensors.length, 10);
    assert.equal(typeof lone.architecture, "string");
  });
});

describe("a file of Keras", () => {
  const entries = (): Map<string, Uint8Array> => entriesOf(readFileSync(pathOf("cnn-3.keras")));
  const read = async (changed: Map<string, Uint8Array>, method = 0): Promise<unknown> =>
    await folder.read({ main: "m.keras", files: { "m.keras": zipOf(changed, { method }) } });
  const config = (change: (text: string) => string): Map<string, Uint8Array> => {
    const changed = entries();
    const text = Buffer.from(changed.get("config.json") as Uint8Array).toString();
    return changed.set("config.json", Buffer.from(change(text)));
  };

  test("whose layers are those of another module is opaque", async () => {
    const changed = config((text) => text.replace('"module": "keras.layers"', '"module": "own_layers"'));
    const { notes } = (await read(changed)) as { notes: readonly string[] };
    assert.match(notes[0] ?? "", /of the module "own_layers"/);
  });

  test("whose configuration has another layer than its weights is opaque", async () => {
    const changed = config((text) => text.replaceAll('"name": "dense"', '"name": "other"'));
    const { notes } = (await read(changed)) as { notes: readonly string[] };
    assert.match(notes[0] ?? "", /the weights of "other" are those of "dense"/);
  });

  test("without its weights, with a broken configuration or compressed is refused", async () => {
    const without = entries();
    without.delete("model.weights.h5");
    await assert.rejects(read(without), refused(/"model.weights.h5" is missing/));
    await assert.rejects(read(config((text) => text.slice(0, 100))), refused(/config.json: /));
    await assert.rejects(read(entries(), 8), refused(/compressed/));
  });

  test("that is cut short, of a newer layout or of another program is refused by the reason", async () => {
    const whole = readFileSync(pathOf("cnn-2.h5"));
    const h5 = async (bytes: Uint8Array): Promise<unknown> =>
      await folder.read({ main: "m.h5", files: { "m.h5": bytes } });
    await assert.rejects(h5(whole.subarray(0, 20_000)), refused(/it was cut short/));
    const newer = Buffer.from(whole);
    newer[8] = 2;
    await assert.rejects(h5(newer), refused(/newer layout of HDF5/));
    const other = Buffer.from(whole.toString("latin1").replaceAll("layer_names", "other_names"), "latin1");
    await assert.rejects(h5(other), refused(/no weights as Keras stores them/));
  });
});
