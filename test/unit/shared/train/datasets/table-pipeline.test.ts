/** The inputs of a table's rows, rebuilt from the record of a training: the bits that the training saw. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  encodeCanonical,
  decodeCanonical,
  type CanonicalValue,
} from "../../../../../shared/model/canonical-json.js";
import { loadDataset } from "../../../../../shared/train/datasets/registry.js";
import { inputsOf, pipelineOf, pipelineSchema } from "../../../../../shared/train/datasets/table-pipeline.js";
import type { DatasetReference } from "../../../../../shared/train/training.js";
import { noFiles, refusal } from "./dataset-fixtures.js";

const rows = Array.from({ length: 40 }, (_, row) => [
  `${(row * 7) % 11}.${row}`,
  ["red", "blue", "dark, green"][row % 3],
  `${row / 7}`,
  row % 2 === 0 ? "yes" : "no",
  `${row}`,
]);
const quoted = (field = ""): string => (field.includes(",") ? `"${field}"` : field);
const csvOf = (names: readonly string[] | undefined, order: readonly number[]): Buffer =>
  Buffer.from(
    [...(names === undefined ? [] : [names]), ...rows.map((row) => order.map((at) => row[at]))]
      .map((fields) => fields.map(quoted).join(","))
      .join("\n"),
  );
const names = ["a", "colour", "b", "answer", "note"];
const table = csvOf(names, [0, 1, 2, 3, 4]);
const parameters = {
  task: "classification",
  targets: ["answer"],
  ignored: ["note"],
  scaling: "standard",
  categories: ["colour=red|blue|dark, green"],
  split: "order",
  validationThousandths: 0,
  heldOutThousandths: 0,
};

/** The bits of all inputs as a training reads them, and the pipeline of its record, through the record's encoding. */
async function trained(bytes: Buffer, chosen: DatasetReference["parameters"]) {
  const files = { ...noFiles, read: () => Promise.resolve(bytes) };
  const reference = { reader: "csv", location: "t.csv", parameters: chosen };
  const { set } = await loadDataset(reference, files);
  const recorded = { ...set.description, parameters: chosen };
  const canonical = encodeCanonical(JSON.parse(JSON.stringify(recorded)) as CanonicalValue);
  const read = JSON.parse(
    JSON.stringify(decodeCanonical(canonical), (_, value: unknown) =>
      typeof value === "bigint" ? String(value) : value,
    ),
  ) as unknown;
  return { inputs: Buffer.from(set.train.inputs.buffer), count: set.train.count, pipeline: pipelineOf(read) };
}

describe("the pipeline of a table", () => {
  it("gives the bits of the training, also without targets, in another order, and after its file", async () => {
    const { inputs, count, pipeline } = await trained(table, parameters);
    const again = pipelineSchema.parse(JSON.parse(JSON.stringify(pipeline)));
    for (const bytes of [
      table,
      csvOf(["colour", "b", "a"], [1, 2, 0]),
      csvOf(["unknown", "b", "colour", "a"], [4, 2, 1, 0]),
    ]) {
      const made = inputsOf(again, bytes, "raw.csv");
      assert.deepEqual([made.count, made.length], [count, 5]);
      assert.deepEqual(Buffer.from(made.inputs.buffer), inputs);
    }
  });

  it("has the decimal comma of the training", async () => {
    const bytes = Buffer.from("a;b;y\n0,5;1;2\n1,5;3;4\n");
    const chosen = { delimiter: "semicolon", decimal: "comma", split: "order", validationThousandths: 0 };
    const { inputs, pipeline } = await trained(bytes, { ...chosen, heldOutThousandths: 0 });
    const again = pipelineSchema.parse(JSON.parse(JSON.stringify(pipeline)));
    assert.deepEqual(Buffer.from(inputsOf(again, bytes, "raw.csv").inputs.buffer), inputs);
    assert.throws(() => inputsOf(again, Buffer.from("a;b\n0.5;1\n"), "raw.csv"), /decimal point/);
  });

  it("takes the columns in their order where there is no header line", async () => {
    const { inputs, pipeline } = await trained(csvOf(undefined, [0, 2, 4]), {
      header: "none",
      scaling: "standard",
      split: "order",
      validationThousandths: 0,
      heldOutThousandths: 0,
    });
    assert.deepEqual(Buffer.from(inputsOf(pipeline, csvOf(undefined, [0, 2, 4]), "r").inputs.buffer), inputs);
    assert.throws(() => inputsOf(pipeline, csvOf(undefined, [0, 2]), "r"), refusal("DATASET_MALFORMED"));
  });

  it("refuses a file without a column, with one twice, an unknown word, and no number", async () => {
    const { pipeline } = await trained(table, parameters);
    for (const text of [
      "a,b\n1,2",
      "a,b,colour,a\n1,2,red,1",
      "a,b,colour\n1,2,pink",
      "a,b,colour\nx,2,red",
      "",
    ])
      assert.throws(() => inputsOf(pipeline, Buffer.from(text), "r.csv"), refusal("DATASET_MALFORMED"), text);
  });

  it("is not there for data of another kind, and where its description was redacted", () => {
    for (const description of [undefined, { redacted: true }, { reader: "mnist", parameters: {} }])
      assert.throws(() => pipelineOf(description), refusal("NOT_FOUND"));
  });
});
