/** Loading data sets by reference: reproducible to golden hashes, checked, and refused if unknown. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { simulateCell } from "../../../../../shared/train/datasets/battery-simulated.js";
import type { SampleSet } from "../../../../../shared/train/datasets/dataset.js";
import { loadDataset } from "../../../../../shared/train/datasets/registry.js";
import { sampleSetHash } from "../../../../../shared/train/datasets/canonical-samples.js";
import { checkedSet } from "../../../../../shared/train/datasets/sample-set.js";
import type { DatasetReference } from "../../../../../shared/train/training.js";
import { noFiles, refusal } from "./dataset-fixtures.js";

describe("the project's own data", () => {
  it("is the same for the same parameters, to golden hashes", async () => {
    for (const [reader, parameters, golden] of [
      ["battery-simulated", {}, "d64d15e660bc85fac113fec9f7c5b5a7213c600b97548de09cae5a70f6417525"],
      [
        "battery-simulated",
        { vehicle: 3, window: 5 },
        "d6cef45e037958df7695ac07d867bcfbb6c07682f34236fcd8a697cf5e69a124",
      ],
      [
        "images-generated",
        { count: 100 },
        "a7078d233466de7b3df79436050355ff9e7afa736f5be0e948596128ab69b6ca",
      ],
      [
        "images-generated",
        { vehicle: 2, count: 64 },
        "249af0d275d5f2e8f4d77d4ed5fedc680b7298f6b3cec1bf01cc7f4f76c8ae7f",
      ],
    ] as const) {
      const { hash } = await loadDataset({ reader, parameters }, noFiles);
      assert.equal(hash, golden, `${reader} ${JSON.stringify(parameters)}`);
    }
  });
  it("ages: cells lose capacity, vehicles differ from the laboratory and from each other", () => {
    const laboratory = simulateCell("laboratory", 1, 168);
    const vehicles = [1, 2, 3].map((vehicle) => simulateCell("vehicle", vehicle * 64, 168));
    for (const cell of [laboratory, ...vehicles]) {
      assert.ok(cell[0]!.capacity > 1.6 && cell[0]!.capacity < 2.1, `${cell[0]!.capacity} Ah when new`);
      assert.ok(cell[167]!.capacity < 0.85 * cell[0]!.capacity, "it must age");
      assert.ok(
        cell.every(({ fallSeconds, meanVoltage }) => fallSeconds > 0 && meanVoltage > 3 && meanVoltage < 4),
      );
    }
    for (const vehicle of vehicles) assert.ok(vehicle[0]!.meanVoltage < laboratory[0]!.meanVoltage - 0.02);
    assert.notDeepEqual(vehicles[0], vehicles[1]);
  });
});

describe("a loaded set", () => {
  const reference: DatasetReference = { reader: "battery-simulated", parameters: { cycles: 100, cells: 1 } };
  it("is checked against the hash it was recorded with", async () => {
    const { hash } = await loadDataset(reference, noFiles);
    await loadDataset({ ...reference, hash }, noFiles);
    await assert.rejects(
      loadDataset({ ...reference, hash: "0".repeat(64) as typeof hash }, noFiles),
      refusal("DATASET_MALFORMED"),
    );
  });
  it("has a hash that depends on every number", async () => {
    const { set } = await loadDataset(reference, noFiles);
    const hash = sampleSetHash(set);
    const changed = (part: "train" | "validation" | "heldOut", field: "inputs" | "targets"): SampleSet => {
      const copy = set[part][field].slice();
      copy[0] = copy[0]! + 1;
      return { ...set, [part]: { ...set[part], [field]: copy } };
    };
    const others = [
      changed("train", "inputs"),
      changed("validation", "targets"),
      changed("heldOut", "inputs"),
      { ...set, inputShape: [3, 10] },
      { ...set, train: set.validation, validation: set.train },
    ].map(sampleSetHash);
    assert.equal(new Set([hash, ...others]).size, 6);
    assert.equal(sampleSetHash({ ...set, description: { other: true } }), hash);
  });
  it("is rejected with numbers that are not finite, classes out of range, or an empty part", async () => {
    const { set } = await loadDataset(reference, noFiles);
    const inputs = set.train.inputs.slice();
    inputs[7] = NaN;
    assert.throws(
      () => checkedSet({ ...set, train: { ...set.train, inputs } }),
      refusal("DATASET_MALFORMED"),
    );
    assert.throws(
      () => checkedSet({ ...set, task: "classification", classes: 2 }),
      refusal("DATASET_MALFORMED"),
    );
    assert.throws(
      () =>
        checkedSet({
          ...set,
          heldOut: { count: 0, inputs: new Float32Array(0), targets: new Float32Array(0) },
        }),
      refusal("DATASET_EMPTY"),
    );
  });
  it("is refused for readers and parameters that are unknown", async () => {
    await assert.rejects(
      loadDataset({ reader: "nothing", parameters: {} }, noFiles),
      refusal("DATASET_UNKNOWN"),
    );
    await assert.rejects(
      loadDataset({ reader: "mnist", parameters: {} }, noFiles),
      refusal("RECIPE_PARAMETERS_INVALID"),
    );
    const wrong: DatasetReference["parameters"][] = [
      { window: 0 },
      { window: 1.5 },
      { vehicle: "1" },
      { cycles: 10_000 },
      { colour: "red" },
      { vehicle: true },
    ];
    for (const parameters of wrong)
      await assert.rejects(
        loadDataset({ reader: "battery-simulated", parameters }, noFiles),
        refusal("RECIPE_PARAMETERS_INVALID"),
        JSON.stringify(parameters),
      );
    for (const cells of [["../etc"], [], "B0005,x"])
      await assert.rejects(
        loadDataset({ reader: "nasa-battery", location: "/", parameters: { cells } }, noFiles),
        refusal("RECIPE_PARAMETERS_INVALID"),
      );
  });
});
