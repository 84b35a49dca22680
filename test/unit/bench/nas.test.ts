/** The figures of the architecture search's benchmark, and its baseline of files. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { lineChart, ticksUpTo } from "../../bench/line-chart.js";
import { FileStore } from "../../bench/nas-files.js";
import { goalTimes, speedUp } from "../../bench/nas-report.js";
import type { MeasuredSearch } from "../../bench/nas-runs.js";
import { benchSpace } from "../../bench/nas-space.js";
import { candidatesIn, candidateModel } from "../../../server/learning/nas/search-space.js";
import { fileOf } from "../../../server/learning/nas/candidate.js";
import { defaultNames, writeModelJson } from "../../../shared/model/model-json-export.js";
import { Streams } from "../../../shared/random/streams.js";

const search = (...accuracies: readonly number[]): MeasuredSearch => ({
  points: accuracies.map((accuracy, candidate) => ({
    candidate,
    accuracy,
    wallS: candidate + 1,
    processorS: 2 * (candidate + 1),
    frozen: 0,
    layers: 3,
    ms: { read: 0, train: 0, store: 0, all: 0 },
  })),
  stored: [],
});

describe("the time to a goal", () => {
  it("is until a candidate is as good as the best from scratch", () => {
    const times = goalTimes({
      ...{ seed: "1", files: search(50), transfer: search(50, 72, 80) },
      scratch: search(60, 65, 55, 70),
    });
    assert.deepEqual([times.goal, times.transfer?.wallS, times.scratch.wallS], [70, 2, 4]);
    assert.deepEqual([speedUp(times, "wallS"), speedUp(times, "processorS")], [2, 2]);
  });

  it("counts as no gain where the goal was not reached with transfer", () => {
    const times = goalTimes({
      ...{ seed: "1", files: search(50), transfer: search(50, 60), scratch: search(70) },
    });
    assert.equal(speedUp(times, "wallS"), 0);
  });
});

it("the space has the candidates that it states", () => {
  assert.equal(candidatesIn(benchSpace), 18_432);
});

it("the baseline of files gives what two candidates have in common, and forgets what is retired", async () => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-nas-files-"));
  try {
    const store = new FileStore(folder);
    const first = benchSpace.stages.map(() => 0);
    const second = first.map((choice, stage) => (stage === first.length - 1 ? 2 : choice));
    const model = candidateModel(benchSpace, first, new Streams("1", 0));
    const names = defaultNames(model.architecture);
    const modelJson = writeModelJson(model.architecture, names);
    assert.equal(await store.inherit(modelJson), undefined);
    const { versionId } = await store.save({
      candidate: 0,
      choices: first,
      quality: 50,
      modelJson,
      file: await fileOf({ tensors: model.tensors, names }),
    });
    const child = candidateModel(benchSpace, second, new Streams("1", 1));
    const childNames = defaultNames(child.architecture);
    const inherited = await store.inherit(writeModelJson(child.architecture, childNames));
    assert.equal(inherited?.versionId, versionId);
    // All but the last dense layer, which the candidates do not share.
    assert.equal(inherited?.tensors.size, model.tensors.length - 2);
    for (const [name, tensor] of inherited?.tensors ?? []) {
      const own = model.tensors[names.leaves.indexOf(name)];
      assert.deepEqual(Buffer.from(tensor.bytes), Buffer.from(own?.bytes ?? []), name);
    }
    assert.deepEqual(await store.modelsOf(0), [versionId]);
    await store.retire(versionId);
    assert.deepEqual([await store.modelsOf(0), await readdir(folder)], [[], []]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

it("a chart of lines has round ticks, and one colour for a name in all panels", () => {
  assert.deepEqual(ticksUpTo(0, 4.3), [0, 1, 2, 3, 4, 5]);
  assert.deepEqual(ticksUpTo(70, 84), [70, 75, 80, 85]);
  assert.ok(ticksUpTo(0, 0).length > 1);
  const panel = { title: "p", xAxis: "x", yAxis: "y" };
  const chart = lineChart("t", [
    { ...panel, lines: [{ name: "a", points: [{ x: 0, y: 1 }] }] },
    {
      ...panel,
      lines: [
        { name: "b", points: [{ x: 0, y: 1 }] },
        { name: "a", points: [{ x: 1, y: 1 }] },
      ],
    },
  ]);
  const strokes = [...chart.matchAll(/fill="none" stroke="(#\w+)"/g)].map(([, colour]) => colour);
  assert.equal(strokes[0], strokes[2]);
  assert.notEqual(strokes[0], strokes[1]);
});
