/** Windows of battery cycles: split by time, so that no window crosses from training into evaluation. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { batterySet, type DischargeCycle } from "../../../../../shared/train/datasets/battery-windows.js";
import type { SampleSet } from "../../../../../shared/train/datasets/dataset.js";
import { splitByTime } from "../../../../../shared/train/datasets/sample-set.js";
import { refusal } from "./dataset-fixtures.js";

const cycles = (count: number): DischargeCycle[] =>
  Array.from({ length: count }, (_, index) => ({
    cycle: index + 1,
    meanVoltage: 3.5,
    meanTemperature: 32,
    fallSeconds: index,
    capacity: 2 - index / 1000,
  }));

describe("split by time", () => {
  it("splits in order and loses nothing", () => {
    assert.deepEqual(splitByTime(168), { trainEnd: 101, validationEnd: 126 });
    assert.deepEqual(splitByTime(4, 250, 250), { trainEnd: 2, validationEnd: 3 });
    assert.deepEqual(splitByTime(0), { trainEnd: 0, validationEnd: 0 });
  });
  it("lets no window of cycles cross a boundary", () => {
    const window = 10;
    const set = batterySet(
      [cycles(168)],
      { window, heldOutThousandths: 250, validationThousandths: 150 },
      {},
    );
    // fallSeconds is the cycle's index, so each window shows its cycles.
    const indices = (part: SampleSet["train"]): number[][] =>
      Array.from({ length: part.count }, (_, row) =>
        Array.from({ length: window }, (_, step) =>
          Math.round(part.inputs[(row * window + step) * 3 + 2]! / 0.002 + 1200),
        ),
      );
    const within = (part: SampleSet["train"], from: number, to: number): void => {
      for (const row of indices(part))
        assert.ok(row[0]! >= from && row.at(-1)! < to, `${row.join()} leaves ${from}…${to}`);
    };
    within(set.train, 0, 101);
    within(set.validation, 101, 126);
    within(set.heldOut, 126, 168);
    assert.deepEqual([set.train.count, set.validation.count, set.heldOut.count], [92, 16, 33]);
    assert.equal(set.heldOut.targets[32], Math.fround((2 - 0.167) / 2));
  });
  it("reports a part that is too short for a window", () => {
    assert.throws(
      () => batterySet([cycles(30)], { window: 10, heldOutThousandths: 250, validationThousandths: 150 }, {}),
      refusal("DATASET_EMPTY"),
    );
  });
});
