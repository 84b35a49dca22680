/** MNIST's files: parsed, bounded against hostile input, and divided among vehicles. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import type { SampleSet } from "../../../../../shared/train/datasets/dataset.js";
import { parseIdx } from "../../../../../shared/train/datasets/idx-file.js";
import { loadDataset } from "../../../../../shared/train/datasets/registry.js";
import type { DatasetReference } from "../../../../../shared/train/training.js";
import { dataFolder, refusal, skipWithout } from "./dataset-fixtures.js";

describe("MNIST's files", () => {
  const idx = (bytes: number[]): Uint8Array => gzipSync(Uint8Array.from(bytes));
  it("are parsed", () => {
    const { dimensions, values } = parseIdx(
      idx([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 9, 8, 7, 6]),
      "x",
    );
    assert.deepEqual(
      [dimensions, [...values]],
      [
        [2, 1, 2],
        [9, 8, 7, 6],
      ],
    );
  });
  it("are refused when they are malformed or would unpack without end", () => {
    for (const bytes of [
      new Uint8Array(0),
      Uint8Array.of(1, 2, 3),
      idx([]),
      idx([0, 0, 8, 1]),
      idx([0, 0, 7, 1, 0, 0, 0, 0]),
      idx([0, 1, 8, 1, 0, 0, 0, 0]),
      idx([0, 0, 8, 0]),
      idx([0, 0, 11, 1, 0, 0, 0, 1, 1]),
      idx([0, 0, 8, 1, 255, 255, 255, 255, 1]),
      idx([0, 0, 8, 1, 0, 0, 0, 1, 1, 2]),
    ])
      assert.throws(() => parseIdx(bytes, "x"), refusal("DATASET_MALFORMED"));
    assert.throws(
      () => parseIdx(gzipSync(Buffer.alloc(300 * 1024 * 1024)), "bomb"),
      refusal("DATASET_MALFORMED"),
    );
  });
  it(
    "give the base and each vehicle their own images, recorded by their own camera",
    { skip: skipWithout("mnist") },
    async () => {
      const load = async (parameters: DatasetReference["parameters"]): Promise<SampleSet> =>
        (await loadDataset({ reader: "mnist", location: join(dataFolder, "mnist"), parameters }, nodeFiles()))
          .set;
      const base = await load({});
      const first = await load({ vehicle: 1 });
      const second = await load({ vehicle: 2 });
      const plain = await load({ vehicle: 1, camera: 0 });
      assert.deepEqual([base.train.count, base.validation.count, base.heldOut.count], [3000, 750, 1250]);
      assert.deepEqual([first.train.count, first.validation.count, first.heldOut.count], [376, 93, 156]);
      assert.notDeepEqual(first.train.targets, second.train.targets);
      assert.deepEqual(first.train.targets, plain.train.targets);
      assert.notDeepEqual(first.train.inputs, plain.train.inputs);
      assert.ok(first.train.inputs.every((value) => value >= 0 && value <= 1));
    },
  );
});
