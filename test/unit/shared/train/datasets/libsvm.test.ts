/** LIBSVM files as data: sparse rows with one label, several or none, strict, in three parts. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SampleSet } from "../../../../../shared/train/datasets/dataset.js";
import { loadDataset } from "../../../../../shared/train/datasets/registry.js";
import type { DatasetReference } from "../../../../../shared/train/training.js";
import { noFiles, refusal } from "./dataset-fixtures.js";

const read = async (text: string, parameters: DatasetReference["parameters"] = {}): Promise<SampleSet> => {
  const files = { ...noFiles, read: () => Promise.resolve(Buffer.from(text)) };
  return (await loadDataset({ reader: "libsvm", location: "t.svm", parameters }, files)).set;
};
const inOrder = { split: "order", validationThousandths: 0, heldOutThousandths: 0 };

describe("LIBSVM's format", () => {
  it("has classes by their labels in rising order, and zeros where an input is left out", async () => {
    const set = await read("+1 1:0.5 3:-2e1 # a comment\r\n\n-1\t2:7\n1\n", inOrder);
    assert.deepEqual([set.task, set.classes, set.inputShape], ["classification", 2, [3]]);
    assert.deepEqual([...set.train.inputs], [0.5, 0, -20, 0, 7, 0, 0, 0, 0]);
    assert.deepEqual([...set.train.targets], [1, 0, 1]);
    assert.deepEqual(set.description["columns"], [
      { name: "1 to 3", role: "input", kind: "number" },
      { name: "label", role: "target", kind: "category", words: ["-1", "1"] },
    ]);
  });
  it("has numbers, or several labels and none", async () => {
    const numbers = await read("2.5 0:1\n-3 1:1\n", { ...inOrder, task: "regression", firstIndex: 0 });
    assert.deepEqual([...numbers.train.targets], [2.5, -3]);
    assert.deepEqual([...numbers.train.inputs], [1, 0, 0, 1]);
    const labels = await read("0,2 1:1\n 1:2\n2 1:3\n", { ...inOrder, task: "multi-label" });
    assert.deepEqual([...labels.train.targets], [1, 1, 0, 0, 0, 1]);
    assert.deepEqual(labels.outputs, [{ name: "labels", kind: "labels", shape: [2], classes: 0 }]);
  });
  it("has the inputs and classes that its parameters name", async () => {
    const set = await read("3 1:1\n5 2:1\n", { ...inOrder, inputs: 4, labels: "5,4,3" });
    assert.deepEqual([set.inputShape, set.classes, [...set.train.targets]], [[4], 3, [2, 0]]);
  });
  it("is split by its seed as a table is", async () => {
    const text = Array.from({ length: 100 }, (_, row) => `${row % 2} 1:${row}`).join("\n");
    const set = await read(text);
    assert.deepEqual([set.train.count, set.validation.count, set.heldOut.count], [60, 15, 25]);
    const all = [...set.train.inputs, ...set.validation.inputs, ...set.heldOut.inputs];
    assert.equal(new Set(all).size, 100);
    assert.notDeepEqual((await read(text, { splitSeed: 2 })).train.inputs, set.train.inputs);
  });
  it("is refused with its line where it is anything else", async () => {
    for (const line of [
      "1 0:1",
      "1 2:1 1:1",
      "1 1:1 1:2",
      "1 1:x",
      "1 1:1:1",
      "1 1:",
      "1 :1",
      "1 -1:1",
      "1 1.5:1",
      "1 99999999999:1",
      "1 1048577:1",
      "1 1:1e999",
      "1 1:1e39",
      "1 1:1e-40",
      "1 1:NaN",
      "1,2 1:1",
      "1,1 1:1",
      "1:1",
      "yes 1:1",
      "1 1:1 qid",
    ])
      await assert.rejects(read(`0 1:1\n${line}\n`, inOrder), refusal("DATASET_MALFORMED"), line);
    await assert.rejects(read("0 1:1\n1 1:x\n"), /t\.svm, line 2/);
    await assert.rejects(read("# nothing\n"), refusal("DATASET_EMPTY"));
    await assert.rejects(read("0\n1\n", inOrder), refusal("DATASET_MALFORMED"));
    await assert.rejects(read("0 3:1\n1 1:1\n", { inputs: 2 }), refusal("DATASET_MALFORMED"));
    const wide = Array.from({ length: 200 }, (_, row) => `${row % 2} 1048576:1`).join("\n");
    await assert.rejects(read(wide), refusal("DATASET_MALFORMED"));
  });
  it("refuses parameters that do not fit", async () => {
    for (const parameters of [
      { task: "anomaly" },
      { firstIndex: 2 },
      { labels: "1,1" },
      { labels: "a,b" },
      { labels: "0,1", task: "regression" },
      { heldOutThousandths: 900, validationThousandths: 100 },
      { scaling: "standard" },
    ])
      await assert.rejects(
        read("0 1:1\n1 1:2\n", parameters),
        refusal("RECIPE_PARAMETERS_INVALID"),
        JSON.stringify(parameters),
      );
    await assert.rejects(read("1 1:1\n1 1:2\n"), refusal("RECIPE_PARAMETERS_INVALID"));
  });
});
