/**
 * Damaged files that come beside a model: samples, layouts, settings of an adapter. Each is refused by a typed error,
 * or gives something of the sizes that it states.
 */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseYaml } from "../../shared/cli/parse-yaml.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { openModelFile } from "../../shared/forms/model-file.js";
import { readAdapterConfig } from "../../shared/forms/peft/adapter-config.js";
import { checkFileOfLayout } from "../../shared/layouts/file-of-layout.js";
import { layOutFile, type LaidOutFile } from "../../shared/layouts/laid-out-file.js";
import { pytorchLayout, type Planner } from "../../shared/layouts/planned-layout.js";
import { readSampleTensors } from "../../shared/layouts/sample-tensors.js";
import { readTopology } from "../../shared/layouts/topology-weights.js";
import { writtenLayout } from "../../shared/layouts/written-layout.js";
import type { DescribedModel } from "../../shared/model/model-json.js";
import type { ModelSource } from "../../shared/model/model.js";
import { modelSourceOfSafetensors } from "../../shared/save/model-source.js";
import { ModelFolder } from "./foreign-models.js";
import { damagedCopies } from "./mutated-files.js";

const vectors = new URL("../../../test/vectors/", import.meta.url);
const pathOf = (name: string): string => new URL(name, vectors).pathname;
const vector = (name: string): Buffer => readFileSync(pathOf(name));
const describedBy = (name: string): DescribedModel => readTopology(vector(`layouts/${name}.json`));

/** The layout of the model lstm-biases as a person writes it. */
const yaml = `
format: 1
weights:
  one/kernel: { from: lstm.weight_ih_l0, axes: [1, 0] }
  one/recurrent_kernel: { from: lstm.weight_hh_l0, axes: [1, 0] }
  one/bias: [lstm.bias_ih_l0, lstm.bias_hh_l0]
  two/kernel: { from: lstm.weight_ih_l1, as: [16, 4], axes: [1, 0] }
  two/recurrent_kernel: { from: lstm.weight_hh_l1, axes: [1, 0] }
  two/bias: [lstm.bias_ih_l1, lstm.bias_hh_l1]
  h/kernel: { from: head.weight, axes: [1, 0] }
  h/bias: head.bias
beside: []
`;

interface LaidOutModel {
  readonly laid: LaidOutFile;
  readonly model: ModelSource;
}

/** A model of PyTorch, laid out by a plan. */
async function laidOut(name: string, plan: Planner): Promise<LaidOutModel> {
  const { file, close } = await openModelFile(pathOf(`layouts/${name}.pt`));
  try {
    const described = describedBy(name);
    const laid = await layOutFile(file, name, { described, plan: (tensors) => plan(described, tensors) });
    return {
      laid,
      model: await modelSourceOfSafetensors(laid.part.file, name, { architecture: described }),
    };
  } finally {
    await close();
  }
}

/** @throws what is not a typed error that tells of the input */
function requireTyped(error: unknown, told: string): void {
  assert.ok(
    error instanceof StemmaError && !isStemmaError(error, "INTERNAL"),
    `${told}: ${error instanceof Error ? String(error.stack) : String(error)}`,
  );
}

async function damageSamples(count: number): Promise<void> {
  using folder = new ModelFolder();
  const path = join(folder.path, "samples.npz");
  const { architecture } = describedBy("cnn");
  await readSampleTensors(pathOf("layouts/cnn.npz"), architecture);
  for (const { damaged, told } of damagedCopies(vector("layouts/cnn.npz"), count)) {
    writeFileSync(path, damaged);
    try {
      const { count: samples, inputShape, inputs } = await readSampleTensors(path, architecture);
      assert.equal(
        inputs.length,
        inputShape.reduce((product, extent) => product * extent, samples),
        told,
      );
    } catch (error) {
      requireTyped(error, told);
    }
  }
}

async function damageWritten(count: number): Promise<void> {
  const read = async (value: unknown): Promise<void> => {
    const plan: Planner = (described, tensors) => writtenLayout(value, described, tensors);
    const { laid, model } = await laidOut("lstm-biases", plan);
    await checkFileOfLayout(model.sources, laid.layout);
  };
  await read(parseYaml(yaml));
  for (const { damaged, told } of damagedCopies(Buffer.from(yaml), count)) {
    let value: unknown;
    try {
      value = parseYaml(damaged.toString());
    } catch {
      continue;
    }
    try {
      await read(value);
    } catch (error) {
      requireTyped(error, told);
    }
  }
}

async function damageStored(count: number): Promise<void> {
  const { laid, model } = await laidOut("lstm-biases", pytorchLayout);
  for (const { damaged, told } of damagedCopies(laid.layout, count))
    await checkFileOfLayout(model.sources, damaged).catch((error: unknown) => {
      assert.ok(
        isStemmaError(error, "MODEL_FILE_MALFORMED") || isStemmaError(error, "ROOT_MISMATCH"),
        `${told}: ${String(error)}`,
      );
    });
}

function damageSettings(count: number): Promise<void> {
  readAdapterConfig(vector("forms/lora-adapter.json"), "it");
  for (const { damaged, told } of damagedCopies(vector("forms/lora-adapter.json"), count))
    try {
      const { rank, scale } = readAdapterConfig(damaged, "it");
      assert.ok(Number.isInteger(rank) && !Number.isNaN(scale), told);
    } catch (error) {
      requireTyped(error, told);
    }
  return Promise.resolve();
}

/** Reads so many damaged copies of each; prints the seed of a failure. */
export const hostileInputs: Readonly<Record<string, (count: number) => Promise<void>>> = {
  "samples in NumPy's .npz": damageSamples,
  "a layout by hand": damageWritten,
  "a stored layout": damageStored,
  "settings of a PEFT adapter": damageSettings,
};
