/** Inputs of pictures, texts and sequences, rebuilt from the record of a training: the bits that the training saw. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import {
  decodeCanonical,
  encodeCanonical,
  type CanonicalValue,
} from "../../../../../shared/model/canonical-json.js";
import {
  inputPipelineOf,
  inputPipelineSchema,
  inputsOfFiles,
  type InputPipeline,
} from "../../../../../shared/train/datasets/input-pipeline.js";
import { loadDataset } from "../../../../../shared/train/datasets/registry.js";
import type { DatasetReference } from "../../../../../shared/train/training.js";
import { pngOf } from "../../../../helpers/pictures.js";
import { refusal } from "./dataset-fixtures.js";

const order = { split: "order", validationThousandths: 0, heldOutThousandths: 0 };
let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "stemma-inputs-"));
});
after(() => rm(folder, { recursive: true, force: true }));

/** The inputs of a training, and the pipeline of its record, through the record's encoding and the written file. */
async function trained(
  reference: DatasetReference,
): Promise<{ inputs: Buffer; shape: readonly number[]; pipeline: InputPipeline }> {
  const { set } = await loadDataset(reference, nodeFiles());
  const recorded = { ...set.description, parameters: reference.parameters };
  const canonical = encodeCanonical(JSON.parse(JSON.stringify(recorded)) as CanonicalValue);
  const shown = JSON.stringify(decodeCanonical(canonical), (_, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
  const pipeline = inputPipelineOf(JSON.parse(shown));
  return {
    inputs: Buffer.from(set.train.inputs.buffer),
    shape: set.inputShape,
    pipeline: inputPipelineSchema.parse(JSON.parse(JSON.stringify(pipeline))),
  };
}

/** Writes files in a folder for each class. */
async function classes(name: string, files: Readonly<Record<string, Uint8Array>>): Promise<string> {
  const location = join(folder, name);
  for (const [path, bytes] of Object.entries(files)) {
    await mkdir(join(location, path, ".."), { recursive: true });
    await writeFile(join(location, path), bytes);
  }
  return location;
}

describe("the pipeline of", () => {
  it("pictures gives the bits of the training, also of pictures of another size", async () => {
    const picture = (value: number): Uint8Array =>
      pngOf({
        width: 2,
        height: 2,
        rows: [
          [0, value, 20, 30, 40, 50, 60],
          [0, 7, 8, 9, value, 1, 2],
        ],
      });
    const pictures = { "a/1.png": picture(1), "a/2.png": picture(90), "b/1.png": picture(200) };
    const location = await classes("pictures", pictures);
    for (const parameters of [order, { ...order, height: 3, width: 1, colours: "grey" }]) {
      const { inputs, shape, pipeline } = await trained({ reader: "image-folder", location, parameters });
      const files = Object.entries(pictures).map(([where, bytes]) => ({ where, bytes }));
      const again = inputsOfFiles(pipeline, files);
      assert.deepEqual([again.shape, again.count], [shape, 3]);
      assert.deepEqual(Buffer.from(again.inputs.buffer), inputs);
      const damaged = [{ where: "d.png", bytes: picture(1).subarray(0, 30) }];
      assert.throws(() => inputsOfFiles(pipeline, damaged), refusal("DATASET_MALFORMED"));
    }
  });

  it("texts gives the bits of the training, without its other texts", async () => {
    const texts = {
      "cold/1.txt": Buffer.from("Motor cold, motor stopped"),
      "cold/2.txt": Buffer.from("cold Motor"),
      "warm/1.txt": Buffer.from("warm motor ran"),
    };
    const location = await classes("texts", texts);
    for (const chosen of [{}, { terms: "both", numbers: "share", minTexts: 1 }]) {
      const parameters = { ...order, ...chosen };
      const { inputs, pipeline } = await trained({ reader: "text-folder", location, parameters });
      const first = inputsOfFiles(pipeline, [{ where: "1.txt", bytes: texts["cold/1.txt"] }]);
      assert.deepEqual(Buffer.from(first.inputs.buffer), inputs.subarray(0, first.inputs.byteLength));
      const wrong = [{ where: "x.txt", bytes: Uint8Array.of(0xff) }];
      assert.throws(() => inputsOfFiles(pipeline, wrong), refusal("DATASET_MALFORMED"));
    }
  });

  it("sequences gives the bits of the training for each window, in columns of any order", async () => {
    const cycles = Array.from({ length: 40 }, (_, at) => [3.5 - at / 77, 25 + at / 3, 1500 - at * 7.25]);
    const header = "循环次数,平均放电电压,平均放电温度,等压降放电时间,容量";
    const file = [header, ...cycles.map((cycle, at) => [at + 1, ...cycle, 1.8].join(","))].join("\n");
    const location = await classes("cells", { "B0001.csv": Buffer.from(file) });
    const parameters = { cells: ["B0001"], window: 4 };
    const { inputs, shape, pipeline } = await trained({ reader: "nasa-battery", location, parameters });
    const rows = cycles.map(([voltage, temperature, seconds]) =>
      [seconds, "x", voltage, temperature].join(","),
    );
    const bytes = Buffer.from(["fallSeconds,note,meanVoltage,meanTemperature", ...rows].join("\n"));
    const again = inputsOfFiles(pipeline, [{ where: "raw.csv", bytes }]);
    assert.deepEqual([again.shape, again.count], [shape, 37]);
    assert.deepEqual(Buffer.from(again.inputs.buffer).subarray(0, inputs.length), inputs);
    for (const text of [
      "meanVoltage,meanTemperature\n1,2",
      "fallSeconds,meanVoltage,meanTemperature\n1,2,3",
      `fallSeconds,meanVoltage,meanTemperature\n${"1,,3\n".repeat(9)}`,
    ])
      assert.throws(
        () => inputsOfFiles(pipeline, [{ where: "raw.csv", bytes: Buffer.from(text) }]),
        refusal("DATASET_MALFORMED"),
      );
    assert.throws(() => inputsOfFiles(pipeline, []), refusal("DATASET_MALFORMED"));
  });

  it("data of another kind is refused", () => {
    for (const description of [
      undefined,
      { reader: "image-folder", parameters: {}, transformations: ["another sentence"] },
      {
        reader: "image-folder",
        parameters: {},
        transformations: ["mean over the area that each of 0 × 2 pixels covers"],
      },
      { reader: "text-folder", parameters: {}, columns: [] },
      {
        reader: "nasa-battery",
        columns: [{ name: "a", role: "input" }],
        transformations: ["windows of 4 cycles"],
      },
      { reader: "samples", parameters: {} },
    ])
      assert.throws(() => inputPipelineOf(description), refusal("NOT_FOUND"));
  });
});
