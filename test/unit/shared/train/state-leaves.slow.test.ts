/**
 * The leaves of a training: the same of every process and with every cut, none that changes a bit of the model, and
 * those that its segments give when they are run alone from kept states.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, describe, it } from "node:test";
import type { Files } from "../../../../shared/ports.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { fuseActivations } from "../../../../shared/train/backends/fused-layers.js";
import { startWasmBackend, type StartedBackend } from "../../../../shared/train/backends/wasm.js";
import { KeptStates } from "../../../../shared/train/engine/kept-states.js";
import { readState } from "../../../../shared/train/engine/state-file.js";
import { TrainingFolder } from "../../../../shared/train/engine/training-folder.js";
import { LeafCollector } from "../../../../shared/train/leaf-collector.js";
import { runSegments } from "../../../../shared/train/run-segments.js";
import {
  runTraining,
  type TrainedModel,
  type TrainingBase,
  type TrainingPorts,
} from "../../../../shared/train/run-training.js";
import {
  ArraysHash,
  leafOf,
  leafParts,
  stepsBetween,
  trainedWeights,
  type StateLeaves,
} from "../../../../shared/train/state-leaf.js";
import type { FitSnapshot, SavedLeaves } from "../../../../shared/train/training-state.js";
import {
  jobFormat,
  keptStateName,
  type EngineNotice,
  type JobLeaves,
  type JobSegment,
  type SegmentRun,
  type TrainingJob,
} from "../../../../shared/train/training.js";
import { floatsOf } from "../../../../shared/train/trainable.js";
import { weightSlots } from "../../../../shared/model/architecture.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { refusal } from "./engine-runs.js";

const engine = "e".repeat(64) as Hash;
/** LSTM with Adam: 4 steps an epoch, 16 in all unless it stops before. */
const battery: TrainingJob = {
  format: jobFormat,
  recipe: "battery-soh",
  parameters: { epochs: 4, patience: 3, units: 6 },
  dataset: { reader: "battery-simulated", parameters: { vehicle: 1, cycles: 100, cells: 1 } },
  seed: "5",
  invocation: 3,
};
/** Goes on with the optimizer of its base, and is over before its last epoch, with the weights of an earlier one. */
const resumed: TrainingJob = {
  ...battery,
  parameters: { epochs: 8, patience: 2, units: 6, resumeOptimizer: true, learningRate: 0.05 },
};
/** Convolutions with dropout and augmentation, momentum: 5 steps an epoch. */
const images: TrainingJob = {
  format: jobFormat,
  recipe: "image-classify",
  parameters: { epochs: 2, filters: 2, optimizer: "momentum", batchSize: 8, patience: 0 },
  dataset: { reader: "images-generated", parameters: { count: 60 } },
  seed: "5",
  invocation: 0,
};

let backend: StartedBackend;
before(async () => {
  backend = await startWasmBackend();
});
after(() => {
  backend.close();
});

class Killed extends Error {}
interface RunOptions {
  readonly files?: Files;
  readonly killAt?: number;
  readonly leaves?: JobLeaves | undefined;
  readonly base?: TrainingBase | undefined;
}
const keep = { folder: "/kept", bytes: 1e9 };

function portsOf(more: Partial<TrainingPorts>): TrainingPorts {
  return {
    tf: backend.tf,
    files: memoryFiles(),
    monotonic: () => 0,
    engine,
    backend: { backend: "wasm", reason: "test" },
    environment: {},
    fuseActivations,
    ...more,
  };
}

async function run(
  job: TrainingJob,
  { files = memoryFiles(), killAt, leaves, base }: RunOptions = {},
): Promise<TrainedModel | undefined> {
  await files.makeFolder("/work/result");
  const onNotice = (notice: EngineNotice): void => {
    if (notice.event !== "training-continued") throw new Error(notice.text);
  };
  const states = new TrainingFolder({
    files,
    resultFolder: "/work/result",
    state: { folder: "/work/state", everySeconds: 0 },
    engine,
    startedMs: 0,
    monotonic: () => 0,
    maxCheckpoints: undefined,
    onNotice,
  });
  try {
    return await runTraining(
      { ...job, leaves },
      base,
      portsOf({
        files,
        states,
        keeper: leaves?.keep && new KeptStates({ files, folder: leaves.keep.folder, engine, onNotice }),
        onProgress: ({ iteration, loss }) => {
          if (loss !== undefined && iteration === killAt) throw new Killed();
        },
      }),
    );
  } catch (error) {
    if (!(error instanceof Killed)) throw error;
    return undefined;
  }
}

const tensorsOf = (trained: TrainedModel | undefined): Hash =>
  sha256(...(trained?.model.tensors ?? []).map(({ bytes }) => bytes));

function leavesOf(trained: TrainedModel | undefined): StateLeaves {
  const leaves = trained?.result.leaves;
  assert.ok(leaves !== undefined && "leaves" in leaves);
  return leaves;
}

/** All segments of the leaves, from kept states. */
function segmentsOf({ everySteps, steps, leaves }: StateLeaves): JobSegment[] {
  return Array.from({ length: leaves.length - 1 }, (_, index) => ({
    ...(index === 0 ? {} : { file: `/kept/${keptStateName(index * everySteps)}` }),
    fromStep: index * everySteps,
    toStep: Math.min(steps, (index + 1) * everySteps),
    isLast: index === leaves.length - 2,
  }));
}

async function runAlone(
  job: TrainingJob,
  files: Files,
  segments: readonly JobSegment[],
  base?: TrainingBase,
): Promise<readonly SegmentRun[]> {
  return await runSegments({ ...job, segments }, base, portsOf({ files }), async (file) => {
    const state = await readState(files, file);
    assert.ok(state, file);
    return state.fit;
  });
}

describe("leaves of a training", () => {
  async function trainedBase(job: TrainingJob): Promise<TrainingBase> {
    const { resumeOptimizer: _, ...parameters } = job.parameters;
    const { model, optimizer } = (await run({
      ...job,
      parameters: { ...parameters, epochs: 1, keepOptimizer: true },
    }))!;
    return { model, sha256: "0", optimizer: { state: optimizer!, sha256: "1" } };
  }

  for (const [name, job, everySteps] of [
    ["battery", battery, 3],
    ["images", images, 5],
    ["resumed", resumed, 3],
  ] as const)
    it(`change no bit, are the same after a cut, and come of each segment alone (${name})`, async () => {
      const base = job.parameters["resumeOptimizer"] === true ? await trainedBase(job) : undefined;
      const plain = await run(job, { base });
      const files = memoryFiles();
      const whole = await run(job, { files, leaves: { everySteps, keep }, base });
      const leaves = leavesOf(whole);
      assert.equal(tensorsOf(whole), tensorsOf(plain));
      assert.equal(leaves.everySteps, everySteps);
      assert.equal(leaves.leaves.length, Math.ceil(leaves.steps / everySteps) + 1);
      assert.equal(new Set(leaves.leaves).size, leaves.leaves.length);
      assert.equal(leafOf(leaves.last), leaves.leaves.at(-1));
      const hash = new ArraysHash();
      whole?.model.tensors.forEach((tensor, at) => {
        const path = weightSlots(whole.model.architecture)[at]?.path ?? "";
        hash.add({ name: path, shape: tensor.shape, read: () => floatsOf(tensor) });
      });
      assert.equal(trainedWeights(leaves.last), hash.digest());
      if (job === resumed) assert.ok(leaves.last.position.best.epoch < leaves.last.position.epoch);

      for (const killAt of [1, everySteps, everySteps + 1, leaves.steps]) {
        const cut = memoryFiles();
        await run(job, { files: cut, killAt, leaves: { everySteps, keep }, base });
        const rest = await run(job, { files: cut, leaves: { everySteps, keep }, base });
        assert.deepEqual(leavesOf(rest), leaves, `killed at ${killAt}`);
      }
      const segments = segmentsOf(leaves);
      const runs = await runAlone(job, files, segments, base);
      runs.forEach((each, index) => {
        const step = segments[index]?.toStep;
        const expected = { begin: leaves.leaves[index], leaves: [{ step, leaf: leaves.leaves[index + 1] }] };
        assert.deepEqual(each, expected, `segment ${index}`);
      });
    });

  it("differ from the first step on that another seed, rate or state changes", async () => {
    const files = memoryFiles();
    const leaves = leavesOf(await run(battery, { files, leaves: { everySteps: 3, keep } }));
    const second = segmentsOf(leaves)[1]!;
    const other = { ...battery, parameters: { ...battery.parameters, learningRate: 0.01 } };
    const [run1] = await runAlone(other, files, [second]);
    assert.equal(run1?.begin, leaves.leaves[1]);
    assert.notEqual(run1?.leaves[0]?.leaf, leaves.leaves[2]);
    // A state of another step, whatever its file is called.
    const [run2] = await runAlone(battery, files, [{ ...second, file: `/kept/${keptStateName(6)}` }]);
    assert.equal(run2?.begin, leaves.leaves[2]);
    assert.deepEqual(run2?.leaves, []);
    assert.ok(run2?.failed);
    // Each step of a segment.
    const [run3] = await runAlone(battery, files, [{ ...second, everySteps: 1 }]);
    assert.deepEqual(
      run3?.leaves.map(({ step }) => step),
      [4, 5, 6],
    );
    assert.equal(run3?.leaves.at(-1)?.leaf, leaves.leaves[2]);
    // A training that is said to have ended before it does.
    const [run4] = await runAlone(battery, files, [{ ...second, isLast: true }]);
    assert.deepEqual(
      run4?.leaves.map(({ step }) => step),
      [7],
    );
  });

  it("are of no segment that begins where no training is", async () => {
    const files = memoryFiles();
    const { everySteps, leaves } = leavesOf(await run(battery, { files, leaves: { everySteps: 3, keep } }));
    const segment = segmentsOf({ everySteps, leaves, steps: 16 } as StateLeaves)[1]!;
    const { fit: state } = (await readState(files, segment.file!))!;
    const { position } = state;
    const { order } = position;
    for (const change of [
      { epoch: 0 },
      { epoch: 1e9 },
      { order: null },
      { order: { ...order!, used: order!.used - 0.5 } },
      { order: { ...order!, used: -1e15 } },
      { iteration: 4 },
    ]) {
      const changed = { ...state, position: { ...position, ...change } };
      const job = { ...battery, segments: [segment] };
      const [result] = await runSegments(job, undefined, portsOf({ files }), () => Promise.resolve(changed));
      assert.ok(result?.failed, JSON.stringify(change));
      assert.deepEqual(result?.leaves, []);
    }
  });

  it("are further apart where their states need more bytes than may be kept", async () => {
    const files = memoryFiles();
    const leaves = leavesOf(
      await run(battery, { files, leaves: { everySteps: 1, keep: { folder: "/kept", bytes: 200_000 } } }),
    );
    assert.ok(leaves.everySteps > 1, String(leaves.everySteps));
    let bytes = 0;
    for (const name of await files.list("/kept")) bytes += (await files.stat(`/kept/${name}`))?.size ?? 0;
    assert.ok(bytes <= 200_000, String(bytes));
    assert.equal(stepsBetween(1, 10_000_000, Infinity), Math.ceil(10_000_000 / 4095));
    assert.equal(stepsBetween(5, 100, 0), 100);
  });

  describe("that take too much of the time", () => {
    const kept = new Set<number>();
    let nowMs = 0;
    let leafMs = 0;
    const collect = (before?: SavedLeaves): LeafCollector =>
      new LeafCollector(
        {
          everySteps: 1,
          keepBytes: 1e9,
          maxSteps: 64,
          maxCostPercent: 5,
          keepsBest: false,
          monotonic: () => nowMs,
          before,
        },
        {
          keep: (iteration) => {
            kept.add(iteration);
            nowMs += leafMs;
            return Promise.resolve();
          },
          keepOnly: (iterations) => {
            for (const each of kept) if (!iterations.includes(each)) kept.delete(each);
            return Promise.resolve();
          },
        },
      );
    const state = (iteration: number) => (): FitSnapshot => ({
      position: {
        ...{ epoch: 1, iteration, order: null, streams: {} },
        ...{ best: { epoch: 0, loss: null }, measurements: [] },
      },
      optimizer: { name: "sgd", iterations: iteration, shared: {} },
      arrays: [],
    });
    async function steps(collector: LeafCollector, from: number, to: number): Promise<void> {
      for (let step = from; step <= to; step++) {
        nowMs += 1000;
        await collector.at("step", step, state(step));
      }
    }
    async function end(collector: LeafCollector): Promise<StateLeaves> {
      await collector.at("end", 64, state(64));
      const { everySteps, leaves } = collector.result!;
      assert.equal(leaves.length, 64 / everySteps + 1);
      assert.deepEqual(
        leaves,
        Array.from(leaves, (_, at) => leafOf(leafParts(state(at * everySteps)()))),
      );
      assert.deepEqual(
        [...kept].sort((a, b) => a - b),
        Array.from({ length: leaves.length - 2 }, (_, at) => (at + 1) * everySteps),
      );
      return collector.result!;
    }

    it("are further apart", async () => {
      kept.clear();
      leafMs = 500;
      const collector = collect();
      await collector.at("begin", 0, state(0));
      await steps(collector, 1, 31);
      leafMs = 0;
      await steps(collector, 32, 64);
      const { everySteps } = await end(collector);
      assert.ok(everySteps >= 8 && everySteps <= 32, String(everySteps));
    });

    it("have their states still where the training goes on from before they were further apart", async () => {
      kept.clear();
      leafMs = 0;
      const cut = collect();
      await cut.at("begin", 0, state(0));
      await steps(cut, 1, 20);
      const { saved } = cut;
      leafMs = 5000;
      await steps(cut, 21, 30);
      assert.ok(cut.saved.everySteps > saved.everySteps);
      leafMs = 0;
      const rest = collect(saved);
      await rest.at("begin", 20, state(20));
      await steps(rest, 21, 64);
      assert.equal((await end(rest)).everySteps, 1);
    });
  });

  it("do not end the training where its states can be neither written nor removed", async () => {
    const notices: EngineNotice[] = [];
    const fail = (): never => {
      throw new StemmaError("FILE_FAILED", "the disk is gone");
    };
    const files = { ...memoryFiles(), makeFolder: fail, list: fail, remove: fail };
    const keeper = new KeptStates({ files, folder: "/kept", engine, onNotice: (each) => notices.push(each) });
    const leaves = { everySteps: 5, keep };
    const trained = await runTraining({ ...battery, leaves }, undefined, portsOf({ keeper }));
    assert.equal(leavesOf(trained).everySteps, 5);
    assert.equal(notices.length, 1);
  });

  it("are named as missing where a training has no states between steps", async () => {
    const files = memoryFiles();
    await files.makeFolder("/data");
    const rows = [
      [0, 0],
      [0, 1],
      [5, 5],
      [5, 6],
      [9, 9],
      [9, 8],
    ].map((values) => JSON.stringify({ shape: [2], values }));
    const file = await files.open("/data/points.jsonl", "create");
    await file.write(Buffer.from(rows.join("\n")), 0);
    await file.close();
    const job: TrainingJob = {
      ...battery,
      recipe: "k-means",
      parameters: { clusters: 2 },
      dataset: { reader: "samples", location: "/data/points.jsonl", parameters: { targets: "input" } },
    };
    const trained = await run(job, { files, leaves: { everySteps: 1 } });
    assert.deepEqual(trained?.result.leaves, { none: "k-means" });
    const [segment] = await runAlone(job, files, [{ fromStep: 0, toStep: 1, isLast: false }]);
    assert.match(segment?.unusable ?? "", /k-means/);
  });

  it("refuses a state with an array that does not fit into its file", async () => {
    const files = memoryFiles();
    await run(battery, { files, leaves: { everySteps: 3, keep } });
    const path = `/kept/${keptStateName(3)}`;
    const bytes = Buffer.from(await files.read(path));
    const text = bytes.toString("latin1");
    const at = text.indexOf('"shape":[');
    assert.ok(at > 0);
    const changed = Buffer.from(text.replace(/"shape":\[\d/, '"shape":[9'), "latin1");
    createHash("sha256")
      .update(changed.subarray(0, -32))
      .digest()
      .copy(changed, changed.length - 32);
    const file = await files.open("/kept/other", "create");
    await file.write(changed, 0);
    await file.close();
    await assert.rejects(readState(files, "/kept/other"), refusal("FILE_FAILED"));
  });
});
