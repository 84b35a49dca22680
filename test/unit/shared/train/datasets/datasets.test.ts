import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { isStemmaError, type ErrorCode } from "../../../../../shared/errors.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { batterySet, type DischargeCycle } from "../../../../../shared/train/datasets/battery-windows.js";
import { simulateCell } from "../../../../../shared/train/datasets/battery-simulated.js";
import { applyCamera, cameraOf } from "../../../../../shared/train/datasets/camera.js";
import type { DatasetFiles, SampleSet } from "../../../../../shared/train/datasets/dataset.js";
import { parseIdx } from "../../../../../shared/train/datasets/mnist.js";
import { parseDischargeCsv } from "../../../../../shared/train/datasets/nasa-battery.js";
import { loadDataset } from "../../../../../shared/train/datasets/registry.js";
import {
  encodeSample,
  segmentMagic,
  type Sample,
} from "../../../../../shared/train/datasets/sample-format.js";
import { checkedSet, sampleSetHash, splitByTime } from "../../../../../shared/train/datasets/sample-set.js";
import type { DatasetReference } from "../../../../../shared/train/training.js";

const refusal =
  (code: ErrorCode) =>
  (error: unknown): boolean => {
    assert.ok(isStemmaError(error, code), String(error));
    return true;
  };
const noFiles: DatasetFiles = {
  read: () => Promise.reject(new Error("no file should be read")),
  list: () => Promise.resolve([]),
  stat: () => Promise.resolve(undefined),
};
const dataFolder = resolve(process.env["STEMMA_DATA"] ?? "../shared/data");
const real = (name: string): string | false =>
  existsSync(join(dataFolder, name)) ? false : `no ${name} below ${dataFolder}; set STEMMA_DATA`;
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

describe("NASA's files", () => {
  const header = "循环次数,平均放电电压,平均放电温度,等压降放电时间,容量";
  const parse = (text: string): DischargeCycle[] => parseDischargeCsv(Buffer.from(text), "B0005.csv");
  it("are read with their header in each of its forms", () => {
    const row = { cycle: 1, meanVoltage: 3.5, meanTemperature: 32.5, fallSeconds: 1622.625, capacity: 1.85 };
    for (const form of [header, header.replace("时间", "时间（3.8V-3.5V）")])
      assert.deepEqual(parse(`${form}\r\n1,3.5,32.5,1622.625,1.85\r\n`), [row]);
    const gbk = Buffer.concat([
      Buffer.from(
        "d1adbbb7b4cecafd2cc6bdbef9b7c5b5e7b5e7d1b92cc6bdbef9b7c5b5e7cec2b6c82cb5c8d1b9bdb5b7c5b5e7cab1bce42cc8ddc1bf",
        "hex",
      ),
      Buffer.from("\n1,3.5,32.5,1622.625,1.85"),
    ]);
    assert.deepEqual(parseDischargeCsv(gbk, "B0006.csv"), [row]);
  });
  it("are refused when they are malformed, naming the line", () => {
    for (const [text, line] of [
      ["", 1],
      ["cycle,voltage\n1,2", 1],
      [`${header}x\n1,1,1,1,1`, 1],
      [`${header}\n1,2,3`, 2],
      [`${header}\n1,2,3,4,x`, 2],
      [`${header}\n1,2,3,4,NaN`, 2],
      [`${header}\n1,2,3,4,5\n1,2,3,4,5`, 3],
      [`${header}\n1,2,3,4,5\n\n3,2,3,4,5`, 3],
      [`${header}\n1.5,2,3,4,5`, 2],
      [`${header}\n1,2,3,4,-5`, 2],
      [`${header}\n1,2,3,4,1e999`, 2],
    ] as const) {
      assert.throws(
        () => parse(text),
        (error: unknown) =>
          refusal("DATASET_MALFORMED")(error) &&
          error instanceof Error &&
          error.message.includes(`line ${line}:`),
        text,
      );
    }
    assert.throws(
      () => parseDischargeCsv(new Uint8Array(17 * 1024 * 1024), "big.csv"),
      refusal("DATASET_MALFORMED"),
    );
  });
  it("are all four read where they are", { skip: real("nasa-battery") }, async () => {
    const location = join(dataFolder, "nasa-battery");
    for (const [cell, count] of [
      ["B0005", 168],
      ["B0006", 168],
      ["B0007", 168],
      ["B0018", 132],
    ] as const)
      assert.equal(
        parseDischargeCsv(await nodeFiles().read(join(location, `${cell}.csv`)), cell).length,
        count,
      );
    const { set } = await loadDataset(
      { reader: "nasa-battery", location, parameters: { cells: ["B0005", "B0006"] } },
      nodeFiles(),
    );
    assert.deepEqual([set.train.count, set.validation.count, set.heldOut.count], [184, 32, 66]);
  });
});

describe("MNIST's files", () => {
  const idx = (bytes: number[]): Uint8Array => gzipSync(Uint8Array.from(bytes));
  it("are parsed", () => {
    const { dimensions, values } = parseIdx(
      idx([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 9, 8, 7, 6]),
      3,
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
      idx([0, 0, 9, 1, 0, 0, 0, 0]),
      idx([0, 0, 8, 1, 255, 255, 255, 255, 1]),
      idx([0, 0, 8, 1, 0, 0, 0, 1, 1, 2]),
    ])
      assert.throws(() => parseIdx(bytes, 1, "x"), refusal("DATASET_MALFORMED"));
    assert.throws(
      () => parseIdx(gzipSync(Buffer.alloc(300 * 1024 * 1024)), 1, "bomb"),
      refusal("DATASET_MALFORMED"),
    );
  });
  it(
    "give the base and each vehicle their own images, recorded by their own camera",
    { skip: real("mnist") },
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

describe("cameras", () => {
  const pixels = Float32Array.from({ length: 49 }, (_, index) => (index === 24 ? 1 : 0));
  const image = { width: 7, height: 7, pixels };
  it("number 0 changes nothing", () => {
    assert.deepEqual(applyCamera(cameraOf(0), image), pixels);
  });
  it("rotate by the angle with the given half tangent", () => {
    const rotated = applyCamera(
      { halfTangent: 1, blurPasses: 0, gain: 1, offset: 0 },
      {
        width: 3,
        height: 3,
        pixels: Float32Array.from([1, 2, 3, 4, 5, 6, 7, 8, 9], (value) => value / 10),
      },
    );
    assert.deepEqual(
      [...rotated],
      [7, 4, 1, 8, 5, 2, 9, 6, 3].map((value) => Math.fround(value / 10)),
      "a quarter turn changes no pixel",
    );
  });
  it("blur without changing the sum of the pixels", () => {
    const blurred = applyCamera({ halfTangent: 0, blurPasses: 2, gain: 1, offset: 0 }, image);
    assert.equal(
      blurred.reduce((sum, value) => sum + value, 0),
      1,
    );
    assert.ok(blurred[24]! < 0.2);
  });
  it("keep pixels between 0 and 1", () => {
    for (let number = 1; number < 40; number++)
      assert.ok(applyCamera(cameraOf(number), image).every((value) => value >= 0 && value <= 1));
  });
});

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
