/** IDX files as data: every type of number, labels that belong to the inputs, shapes, refusals. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import type { SampleSet } from "../../../../../shared/train/datasets/dataset.js";
import { parseIdx } from "../../../../../shared/train/datasets/idx-file.js";
import { loadDataset } from "../../../../../shared/train/datasets/registry.js";
import type { DatasetReference } from "../../../../../shared/train/training.js";
import { dataFolder, noFiles, refusal, skipWithout } from "./dataset-fixtures.js";

/** An IDX file of bytes. */
const bytesFile = (dimensions: readonly number[], values: readonly number[]): Buffer => {
  const header = Buffer.alloc(4 + 4 * dimensions.length);
  header.writeUInt8(8, 2);
  header.writeUInt8(dimensions.length, 3);
  dimensions.forEach((size, index) => header.writeUInt32BE(size, 4 + 4 * index));
  return Buffer.concat([header, Buffer.from(values)]);
};
const pictures = bytesFile([3, 2, 2], [0, 51, 102, 255, 1, 2, 3, 4, 5, 6, 7, 8]);
const names = { inputs: "a", labels: "b" };
const inOrder = { split: "order", validationThousandths: 0, heldOutThousandths: 0 };

async function read(
  contents: Readonly<Record<string, Uint8Array>>,
  parameters: DatasetReference["parameters"] = {},
): Promise<SampleSet> {
  const files = { ...noFiles, read: (path: string) => Promise.resolve(contents[path] as Uint8Array) };
  const all = { ...names, ...inOrder, ...parameters };
  return (await loadDataset({ reader: "idx", location: "f", parameters: all }, files)).set;
}

describe("IDX files", () => {
  it("have numbers of each type, big-endian", () => {
    for (const [type, bytes, expected] of [
      [8, [255], 255],
      [9, [255], -1],
      [11, [255, 254], -2],
      [12, [0, 1, 0, 0], 65536],
      [13, [0x3f, 0xc0, 0, 0], 1.5],
      [14, [0x3f, 0xb9, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a], Math.fround(0.1)],
    ] as const) {
      const { dimensions, values } = parseIdx(Uint8Array.of(0, 0, type, 1, 0, 0, 0, 1, ...bytes), "x");
      assert.deepEqual([[...dimensions], [...values]], [[1], [expected]], `type ${type}`);
    }
  });
  it("give classes, numbers, or the input itself as targets, in the shape that is asked for", async () => {
    const files = { "f/a": gzipSync(pictures), "f/b": bytesFile([3], [0, 2, 1]) };
    const set = await read(files, { divisor: 255, shape: "2x2x1" });
    assert.deepEqual([set.task, set.classes, set.inputShape], ["classification", 3, [2, 2, 1]]);
    assert.deepEqual([...set.train.inputs.subarray(0, 4)], [0, 51 / 255, 102 / 255, 1].map(Math.fround));
    assert.deepEqual([...set.train.targets], [0, 2, 1]);
    const numbers = await read(
      { ...files, "f/b": bytesFile([3, 2], [1, 2, 3, 4, 5, 6]) },
      { task: "regression" },
    );
    assert.deepEqual([numbers.targetSize, ...numbers.train.targets], [2, 1, 2, 3, 4, 5, 6]);
    assert.equal((await read(files, { classes: 10 })).classes, 10);
  });
  it("go without labels where a sample is compared with itself", async () => {
    const files = { ...noFiles, read: () => Promise.resolve(pictures) };
    const parameters = { ...inOrder, inputs: "a", task: "anomaly", shape: 4 };
    await assert.rejects(
      loadDataset({ reader: "idx", location: "f", parameters: { ...parameters, labels: "b" } }, files),
      refusal("RECIPE_PARAMETERS_INVALID"),
    );
    const { set } = await loadDataset({ reader: "idx", location: "f", parameters }, files);
    assert.deepEqual([set.inputShape, set.outputs?.[0]?.kind], [[4], "input"]);
    assert.deepEqual(set.train.inputs, set.train.targets);
  });
  it("are refused where they do not belong together or are not what the parameters say", async () => {
    const labels = bytesFile([3], [0, 1, 1]);
    const malformed = [
      { "f/a": pictures, "f/b": bytesFile([2], [0, 1]) },
      { "f/a": pictures.subarray(0, -1), "f/b": labels },
      {
        "f/a": pictures,
        "f/b": Buffer.from([0, 0, 13, 1, 0, 0, 0, 3, ...Buffer.alloc(4), 0x3f, 0, 0, 0, 0, 0, 0, 0]),
      },
    ];
    for (const files of malformed) await assert.rejects(read(files), refusal("DATASET_MALFORMED"));
    for (const parameters of [
      { shape: "5" },
      { shape: "0x4" },
      { inputs: "../a" },
      { inputs: "a,b" },
      { task: "multi-label" },
      { divisor: 0 },
      { task: "regression", classes: 3 },
    ])
      await assert.rejects(
        read({ "f/a": pictures, "f/b": labels }, parameters),
        refusal("RECIPE_PARAMETERS_INVALID"),
        JSON.stringify(parameters),
      );
    await assert.rejects(
      read({ "f/a": pictures, "f/b": bytesFile([3, 2], [0, 1, 0, 1, 0, 1]) }),
      refusal("RECIPE_PARAMETERS_INVALID"),
    );
    await assert.rejects(
      read({ "f/a": bytesFile([0, 2], []), "f/b": bytesFile([0], []) }),
      refusal("DATASET_EMPTY"),
    );
    await assert.rejects(
      loadDataset({ reader: "idx", location: "f", parameters: {} }, noFiles),
      refusal("RECIPE_PARAMETERS_INVALID"),
    );
  });
  it("read MNIST as its own reader does", { skip: skipWithout("mnist") }, async () => {
    const location = join(dataFolder, "mnist");
    const { set } = await loadDataset(
      {
        reader: "idx",
        location,
        parameters: {
          ...inOrder,
          inputs: "t10k-images-idx3-ubyte.gz",
          labels: "t10k-labels-idx1-ubyte.gz",
          shape: "28x28x1",
          divisor: 255,
        },
      },
      nodeFiles(),
    );
    const { set: digits } = await loadDataset({ reader: "mnist", location, parameters: {} }, nodeFiles());
    const length = digits.train.inputs.length;
    const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Buffer =>
      Buffer.from(buffer, byteOffset, byteLength);
    assert.ok(length > 0);
    assert.ok(bytesOf(set.train.inputs.subarray(0, length)).equals(bytesOf(digits.train.inputs)));
    assert.deepEqual(set.train.targets.subarray(0, digits.train.count), digits.train.targets);
  });
});
