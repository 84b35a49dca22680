/** Data sets from a device's samples: order, torn tails, pinned segments, and what is refused. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { DatasetFiles, SampleSet } from "../../../../../shared/train/datasets/dataset.js";
import { loadDataset } from "../../../../../shared/train/datasets/registry.js";
import {
  encodeSample,
  segmentMagic,
  type Sample,
} from "../../../../../shared/train/datasets/sample-format.js";
import type { DatasetReference } from "../../../../../shared/train/training.js";
import { refusal } from "./dataset-fixtures.js";

describe("samples of a device", () => {
  const sample = (
    id: string,
    timeMs: number,
    split: Sample["split"],
    { value = 0, shape = [2] }: { value?: number; shape?: number[] } = {},
  ): Sample => ({
    id,
    timeMs,
    split,
    label: [value],
    shape,
    values: new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(timeMs),
  });
  const segment = (...samples: Sample[]): Uint8Array =>
    Buffer.concat([segmentMagic, ...samples.map(encodeSample)]);
  const filesOf = (segments: Record<string, Uint8Array>): DatasetFiles => ({
    read: (path) => Promise.resolve(segments[path.split("/").at(-1)!]!),
    list: () => Promise.resolve(Object.keys(segments).sort()),
    stat: (path) => {
      if (path === "/samples") return Promise.resolve({ kind: "folder", size: 0, modifiedMs: 0 });
      const found = segments[path.split("/").at(-1)!];
      return Promise.resolve(found && { kind: "file", size: found.length, modifiedMs: 0 });
    },
  });
  const load = async (
    segments: Record<string, Uint8Array>,
    parameters: DatasetReference["parameters"] = {},
  ): Promise<SampleSet> =>
    (await loadDataset({ reader: "samples", location: "/samples", parameters }, filesOf(segments))).set;
  const usual = [
    sample("a", 3, "train"),
    sample("b", 1, "train"),
    sample("c", 2, "validation"),
    sample("d", 4, "held-out"),
  ];

  it("keep their parts, in order of time, each id once", async () => {
    const set = await load({
      "1.samples": segment(...usual),
      "2.samples": segment(sample("a", 9, "held-out"), sample("e", 2, "train")),
      "notes.txt": new Uint8Array(3),
    });
    assert.deepEqual([...set.train.inputs], [1, 1, 2, 2, 3, 3]);
    assert.deepEqual([set.validation.count, set.heldOut.count], [1, 1]);
  });
  it("are read up to a torn tail", async () => {
    const complete = segment(...usual);
    const torn = Buffer.concat([complete, encodeSample(sample("e", 5, "train")).subarray(0, 30)]);
    assert.equal((await load({ "1.samples": torn })).train.count, 2);
  });
  it("are pinned by segment and length", async () => {
    const complete = segment(...usual);
    const grown = Buffer.concat([complete, encodeSample(sample("e", 5, "train"))]);
    assert.equal(
      (await load({ "1.samples": grown }, { segments: [`1.samples:${complete.length}`] })).train.count,
      2,
    );
    assert.equal((await load({ "1.samples": grown })).train.count, 3);
    await assert.rejects(
      load({ "1.samples": complete }, { segments: [`1.samples:${grown.length}`] }),
      refusal("DATASET_MALFORMED"),
    );
    await assert.rejects(
      load({ "1.samples": complete }, { segments: ["2.samples:8"] }),
      refusal("DATASET_MALFORMED"),
    );
    await assert.rejects(
      load({ "1.samples": complete }, { segments: ["../1.samples:8"] }),
      refusal("RECIPE_PARAMETERS_INVALID"),
    );
  });
  it("are read from JSON lines in a folder or one file, as they are sent to a device", async () => {
    const line = (at: number, more: object = {}): string =>
      JSON.stringify({ label: at / 100, shape: [2, 1], values: [at, 0], ...more });
    const text = (lines: readonly string[]): Uint8Array => Buffer.from(`${lines.join("\n")}\n`);
    const lines = Array.from({ length: 100 }, (_, at) => line(at));
    const set = await load({ "a.jsonl": text(lines), "notes.txt": new Uint8Array(3) });
    assert.deepEqual(set.inputShape, [2, 1]);
    assert.equal(set.train.count + set.validation.count + set.heldOut.count, 100);
    assert.ok(set.heldOut.count > 5 && set.validation.count > 1, `${set.heldOut.count} held out`);
    // Copies change no part.
    const twice = await load({ "a.jsonl": text(lines), "b.jsonl": text(lines) });
    assert.deepEqual([twice.train.count, twice.heldOut.count], [2 * set.train.count, 2 * set.heldOut.count]);
    const explicit = await load({
      "a.jsonl": text([...lines, line(500, { split: "held-out" }), line(500), line(500, { split: "train" })]),
    });
    assert.equal(explicit.heldOut.count, set.heldOut.count + 3);
    await assert.rejects(
      load({ "a.jsonl": text([line(1), '{"label": 1}']) }),
      (error: Error & { code?: string }) =>
        error.code === "SAMPLE_INVALID" && error.message.includes("2 of a.jsonl"),
    );
    const file = text(lines);
    const { set: ofFile } = await loadDataset(
      { reader: "samples", location: "/data/any.txt", parameters: {} },
      filesOf({ "any.txt": file }),
    );
    assert.equal(ofFile.heldOut.count, set.heldOut.count);
  });
  it("use the newest training samples where none is for validation, and never held-out ones", async () => {
    const set = await load(
      {
        "1.samples": segment(
          ...Array.from({ length: 10 }, (_, i) => sample(`t${i}`, i, "train")),
          sample("h", 100, "held-out"),
        ),
      },
      { newest: 5 },
    );
    assert.deepEqual(
      [...set.train.inputs].filter((_, i) => i % 2 === 0),
      [5, 6, 7, 8],
    );
    assert.deepEqual([...set.validation.inputs], [9, 9]);
  });
  it("are rejected if there are none, if they have two shapes, or if a class is out of range", async () => {
    await assert.rejects(load({}), refusal("DATASET_EMPTY"));
    await assert.rejects(load({ "1.samples": segment(sample("a", 1, "train")) }), refusal("DATASET_EMPTY"));
    await assert.rejects(
      load({
        "1.samples": segment(...usual, sample("x", 7, "train", { value: 0, shape: [3] })),
      }),
      refusal("DATASET_MALFORMED"),
    );
    await assert.rejects(
      load(
        {
          "1.samples": segment(...usual, sample("x", 7, "train", { value: 12 })),
        },
        { task: "classification", classes: 10 },
      ),
      refusal("DATASET_MALFORMED"),
    );
  });
});

describe("sample segments", () => {
  it("reject invalid samples", () => {
    const good: Sample = {
      id: "a",
      timeMs: 1,
      split: "train",
      label: [1],
      shape: [2],
      values: new Float32Array(2),
    };
    encodeSample(good);
    const bad: Partial<Record<keyof Sample, unknown>>[] = [
      { id: "" },
      { id: "x".repeat(65) },
      { timeMs: 1.5 },
      { split: "test" },
      { label: [] },
      { label: [NaN] },
      { shape: [3] },
      { shape: [0] },
      { shape: [-1] },
      { shape: [2 ** 40] },
      { values: Float32Array.of(1, Infinity) },
      { values: [1, 2] },
    ];
    for (const change of bad)
      assert.throws(
        () => encodeSample({ ...good, ...change } as Sample),
        refusal("SAMPLE_INVALID"),
        JSON.stringify(change),
      );
  });
});
