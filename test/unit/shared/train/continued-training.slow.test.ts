/**
 * A training that is cut short between two steps and continues in another process gives the model, the optimizer and
 * the measurements of an undisturbed one, bit for bit; a state that cannot be trusted is not used. "Another process"
 * is another model, optimizer and folder here; test/fault/shared/train kills real ones.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { startWasmBackend, type StartedBackend } from "../../../../shared/train/backends/wasm.js";
import { fuseActivations } from "../../../../shared/train/backends/fused-layers.js";
import { bundleId } from "../../../../shared/train/own-recipes/bundle.js";
import { recipeCommand } from "../../../../shared/train/own-recipes/confinement.js";
import { readState } from "../../../../shared/train/engine/state-file.js";
import { readPass } from "../../../../shared/train/engine/pass-file.js";
import { TrainingFolder } from "../../../../shared/train/engine/training-folder.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { runTraining, type TrainedModel } from "../../../../shared/train/run-training.js";
import { isFurther, savedProgress, type SavedProgress } from "../../../../shared/train/saved-progress.js";
import { StatePace } from "../../../../shared/train/training-state.js";
import { jobFormat, type EngineNotice, type TrainingJob } from "../../../../shared/train/training.js";
import type { Files } from "../../../../shared/ports.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { testSeed } from "../../../helpers/crash-states.js";
import { faultyFiles, type FaultPlan } from "../../../helpers/files/faulty-files.js";
import { recipeWithOwnLoss } from "../../../helpers/recipe-with-own-loss.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { seededNumbers } from "../../../helpers/manual-clock.js";

const full = process.env["STEMMA_TEST_FULL"] === "1";
const engine = "e".repeat(64) as Hash;
let backend: StartedBackend;
before(async () => {
  backend = await startWasmBackend();
});
after(() => {
  backend.close();
});

/** LSTM with Adam, a schedule, patience and checkpoints: 4 steps an epoch. */
const battery: TrainingJob = {
  format: jobFormat,
  recipe: "battery-soh",
  parameters: {
    epochs: 4,
    patience: 3,
    units: 6,
    schedule: "linear",
    scheduleFactor: 0.1,
    checkpointEveryEpochs: 1,
    keepOptimizer: true,
  },
  dataset: { reader: "battery-simulated", parameters: { vehicle: 1, cycles: 100, cells: 1 } },
  seed: "5",
  invocation: 3,
};
/** Convolutions with dropout and augmentation, momentum. */
const images: TrainingJob = {
  format: jobFormat,
  recipe: "image-classify",
  parameters: { epochs: 2, filters: 2, optimizer: "momentum", batchSize: 8, keepOptimizer: true },
  dataset: { reader: "images-generated", parameters: { count: 60 } },
  seed: "5",
  invocation: 0,
};

interface Outcome {
  /** undefined: the process was killed. */
  readonly trained: TrainedModel | undefined;
  readonly checkpoints: readonly { readonly name: string; readonly sha256: string }[];
  readonly droppedCheckpoints: number;
  readonly notices: readonly EngineNotice[];
  /** Steps that this process did. */
  readonly steps: number;
}

interface RunOptions {
  readonly files?: Files;
  /** Dies when this many steps of the training are done. */
  readonly killAt?: number;
  /** Dies when this process has done so many steps and batches of evaluations, before it has saved the last. */
  readonly window?: number;
  readonly engine?: Hash;
  readonly everySeconds?: number;
  readonly maxBytes?: number;
  readonly maxCheckpoints?: number;
}

const work = "/home/work/line-3";
const statePath = `${work}/state/training.state`;
/** Of no training; the hash is compared before. */
const passContext = { engine, key: engine, stage: "before", iteration: 0, samplesBefore: 0 } as const;
class Killed extends Error {}

/** Undisturbed trainings, by job. */
const wholes = new Map<TrainingJob, Promise<Outcome>>();
function undisturbed(job: TrainingJob): Promise<Outcome> {
  const known = wholes.get(job) ?? run(job);
  wholes.set(job, known);
  return known;
}

/** One process of a training. Without other settings it saves its state after every step. */
async function run(job: TrainingJob, options: RunOptions = {}): Promise<Outcome> {
  const { files = memoryFiles(), killAt = Infinity, window = Infinity, everySeconds = 0 } = options;
  await files.makeFolder(`${work}/result`);
  const notices: EngineNotice[] = [];
  const ofEngine = options.engine ?? engine;
  const folder = new TrainingFolder({
    files,
    resultFolder: `${work}/result`,
    state: { folder: `${work}/state`, everySeconds, maxBytes: options.maxBytes },
    engine: ofEngine,
    startedMs: 0,
    monotonic: () => 0,
    maxCheckpoints: options.maxCheckpoints,
    onNotice: (notice) => {
      notices.push(notice);
    },
  });
  let steps = 0;
  let units = 0;
  let lastPhase: string | undefined;
  let lastIteration: number | undefined;
  try {
    const trained = await runTraining(job, undefined, {
      tf: backend.tf,
      files,
      monotonic: () => 0,
      engine: ofEngine,
      backend: { backend: "wasm", reason: "test" },
      environment: {},
      fuseActivations,
      ownRecipe: job.ownRecipe && {
        bundle: ownBundle,
        expected: job.ownRecipe.id,
        command: job.ownRecipe.command,
      },
      states: folder,
      onCheckpoint: (checkpoint) => folder.addCheckpoint(checkpoint),
      onProgress: ({ phase, iteration, loss }) => {
        // A phase is reported when it begins, and then after each batch and step.
        const isUnit = phase === lastPhase || loss !== undefined;
        lastPhase = phase;
        if (isUnit && ++units === window) throw new Killed();
        if (loss === undefined || iteration === lastIteration) return;
        lastIteration = iteration;
        steps++;
        if (iteration === killAt) throw new Killed();
      },
    });
    return {
      trained,
      checkpoints: folder.checkpoints,
      droppedCheckpoints: folder.droppedCheckpoints,
      notices,
      steps,
    };
  } catch (error) {
    if (!(error instanceof Killed)) throw error;
    return { trained: undefined, checkpoints: [], droppedCheckpoints: 0, notices, steps };
  }
}

const hashOf = (values: readonly Uint8Array[]): string => {
  const hash = createHash("sha256");
  for (const each of values) hash.update(each);
  return hash.digest("hex");
};
/** Everything that has to be equal. */
function essence({ trained, checkpoints }: Outcome): unknown {
  assert.ok(trained);
  const { continuations: _, ...result } = trained.result;
  return {
    tensors: hashOf(trained.model.tensors.map(({ bytes }) => bytes)),
    optimizer: {
      ...trained.optimizer,
      slots: trained.optimizer?.slots.map(({ name, values }) => [
        name,
        hashOf([new Uint8Array(values.buffer)]),
      ]),
    },
    checkpoints: checkpoints.map(({ name, sha256 }) => [name, sha256]),
    result,
  };
}
const events = ({ notices }: Outcome): readonly string[] => notices.map(({ event }) => event);

const ownBundle = Buffer.from(recipeWithOwnLoss);
const ownRecipe = async (): Promise<TrainingJob> => ({
  ...battery,
  recipe: "my-recipe",
  ownRecipe: { id: bundleId(ownBundle), file: "recipe.mjs", command: await recipeCommand("interpreter") },
  parameters: { epochs: 3, patience: 2, keepOptimizer: true },
});

describe("a training that was cut short", () => {
  for (const [name, jobOf] of Object.entries({ battery: () => battery, images: () => images, ownRecipe }))
    it(`continues with the same bits, whichever step it was cut at (${name})`, async () => {
      const job = await jobOf();
      const whole = await undisturbed(job);
      const total = whole.trained!.result.measurements.at(-1)!.iteration;
      assert.equal(whole.steps, total);
      const seed = testSeed();
      const random = seededNumbers(seed);
      const moments = full
        ? Array.from({ length: total }, (_, at) => at + 1)
        : Array.from({ length: 2 }, () => 1 + Math.floor(random() * total));
      for (const killAt of moments) {
        const files = memoryFiles();
        await run(job, { files, killAt });
        const rest = await run(job, { files });
        // The state of the step at which it died was not saved any more.
        assert.equal(rest.steps, total - killAt + 1, `killed at ${killAt}, STEMMA_TEST_SEED=${seed}`);
        // Before the first step, the evaluation of the untrained model was saved.
        assert.deepEqual(events(rest), ["training-continued"]);
        assert.equal(rest.trained!.result.continuations, 1);
        assert.deepEqual(essence(rest), essence(whole), `killed at ${killAt}, STEMMA_TEST_SEED=${seed}`);
      }
    });

  it("continues k-means after any epoch, also after the last", async () => {
    const job: TrainingJob = {
      ...battery,
      recipe: "k-means",
      parameters: { clusters: 4 },
      dataset: { reader: "samples", location: "/data/points.jsonl", parameters: { targets: "input" } },
    };
    const random = seededNumbers(3);
    const rows = Array.from({ length: 400 }, () =>
      JSON.stringify({ shape: [2], values: [Math.fround(random()), Math.fround(random())] }),
    );
    const withData = async (): Promise<Files> => {
      const files = memoryFiles();
      await files.makeFolder("/data");
      await write(files, "/data/points.jsonl", Buffer.from(rows.join("\n")));
      return files;
    };
    const whole = await run(job, { files: await withData() });
    assert.ok(whole.steps > 3, `${whole.steps}`);
    for (let killAt = 1; killAt <= whole.steps; killAt++) {
      const files = await withData();
      await run(job, { files, killAt });
      const rest = await run(job, { files });
      assert.equal(rest.steps, whole.steps - killAt + 1);
      assert.deepEqual(essence(rest), essence(whole), `killed at ${killAt}`);
    }
    // The last state is that of centres which stay: nothing is left to do.
    const files = await withData();
    await run(job, { files });
    const again = await run(job, { files });
    assert.equal(again.steps, 0);
    assert.deepEqual(essence(again), essence(whole));
  });

  it("gets to the end over many processes that each do three steps", async () => {
    const whole = await undisturbed(battery);
    const files = memoryFiles();
    let last = await run(battery, { files, killAt: 3 });
    let processes = 1;
    for (; last.trained === undefined; processes++) {
      const { iteration: done } = await savedProgress(files, work);
      last = await run(battery, { files, killAt: done + 3 });
    }
    const total = whole.steps;
    assert.equal(processes, Math.ceil(total / 2), "each process saves two of its three steps");
    assert.deepEqual(essence(last), essence(whole));
    assert.equal(last.trained.result.continuations, processes - 1);
  });

  it("gets to the end in windows that are shorter than any of its evaluations", async () => {
    const job: TrainingJob = {
      ...battery,
      parameters: { epochs: 2, patience: 2, units: 1, batchSize: 64 },
      dataset: { reader: "samples", location: "/data/windows.jsonl", parameters: {} },
    };
    const parts = { train: 100, validation: 130, "held-out": 130 };
    const lines = Object.entries(parts).flatMap(([split, count], part) =>
      Array.from({ length: count }, (_, at) =>
        JSON.stringify({ split, label: at / 200, shape: [2, 1], values: [at / 100, part] }),
      ),
    );
    const data = Buffer.from(lines.join("\n"));
    const withData = async (): Promise<Files> => {
      const files = memoryFiles();
      await files.makeFolder("/data");
      await write(files, "/data/windows.jsonl", data);
      return files;
    };
    const whole = await run(job, { files: await withData() });
    const files = await withData();
    let processes = 1;
    let last = await run(job, { files, window: 2 });
    const furthest: SavedProgress[] = [];
    for (; last.trained === undefined; processes++) {
      furthest.push(await savedProgress(files, work));
      last = await run(job, { files, window: 2 });
      assert.ok(processes < 100, "it makes no progress");
    }
    const { train, validation, heldOut } = whole.trained!.result.samples;
    const batches = (count: number): number => Math.ceil(count / 64);
    assert.ok(batches(heldOut) > 1 && batches(validation) > 1, "each evaluation is longer than a window");
    const units = 2 * batches(train) + 2 * batches(validation) + 2 * batches(heldOut);
    assert.equal(processes, units, "each process but the last saves one of its two units");
    furthest.slice(1).forEach((now, at) => {
      assert.ok(isFurther(now, furthest[at]!), JSON.stringify([furthest[at], now]));
    });
    assert.deepEqual(essence(last), essence(whole));
    assert.equal(last.trained.result.continuations, processes - 1);
  });

  it("begins a pass over samples again when its progress is damaged, and says so", async () => {
    const files = memoryFiles();
    const job = { ...battery, dataset: { ...battery.dataset, parameters: { vehicle: 1, cells: 1 } } };
    await run(job, { files, window: 2 });
    const path = `${work}/state/evaluation.state`;
    const saved = await files.read(path);
    for (let at = 0; at < saved.length; at++) {
      const damaged = saved.slice();
      damaged[at] = damaged[at]! ^ 1;
      for (const bytes of [damaged, saved.slice(0, at)]) {
        await write(files, path, bytes);
        await assert.rejects(readPass(files, path, passContext), (error) =>
          isStemmaError(error, "FILE_FAILED"),
        );
      }
    }
    const again = await run(job, { files, window: 2 });
    assert.deepEqual(events(again), ["training-state-refused"]);
    assert.deepEqual(events(await run(job, { files, window: 1 })), ["training-continued"]);
    assert.deepEqual(events(await run({ ...job, seed: "6" }, { files, window: 1 })), []);
  });

  it("begins again with another engine, job or seed, and says so", async () => {
    const files = memoryFiles();
    await run(battery, { files, killAt: 6 });
    const state = await files.read(statePath);
    const cases: readonly (readonly [TrainingJob, RunOptions])[] = [
      [battery, { engine: "f".repeat(64) as Hash }],
      [{ ...battery, seed: "6" }, {}],
      [{ ...battery, invocation: 4 }, {}],
      [{ ...battery, parameters: { ...battery.parameters, learningRate: 0.01 } }, {}],
      [
        { ...battery, dataset: { ...battery.dataset, parameters: { vehicle: 2, cycles: 100, cells: 1 } } },
        {},
      ],
    ];
    for (const [job, options] of full ? cases : cases.slice(0, 2)) {
      const other = memoryFiles();
      await other.makeFolder(`${work}/state`);
      await write(other, statePath, state);
      const outcome = await run(job, { files: other, ...options, killAt: 2 });
      assert.deepEqual(events(outcome), ["training-state-refused"]);
      assert.equal(outcome.steps, 2, "it began at the first step");
    }
    // Where the home is, and what the device may spend, does not make it another training.
    const moved = { ...battery, dataset: { ...battery.dataset, location: "/elsewhere" }, memoryLimitMb: 512 };
    assert.deepEqual(events(await run(moved, { files, killAt: 6 })), ["training-continued"]);
  });

  it("begins again when its state or a checkpoint is damaged or cut short", async () => {
    const files = memoryFiles();
    await run(battery, { files, killAt: 6 });
    const state = await files.read(statePath);
    const [checkpoint] = (await files.list(`${work}/result`)).map((name) => `${work}/result/${name}`);
    const seed = testSeed();
    const random = seededNumbers(seed);
    for (let round = 0; round < (full ? 10_000 : 100); round++) {
      const at = Math.floor(random() * state.length);
      const isCut = round % 3 === 0;
      const damaged = isCut ? state.slice(0, at) : state.slice();
      if (!isCut) damaged[at] = damaged[at]! ^ (1 << Math.floor(random() * 8));
      await write(files, statePath, damaged);
      await assert.rejects(
        readState(files, statePath),
        (error) => isStemmaError(error, "FILE_FAILED"),
        `byte ${at}, STEMMA_TEST_SEED=${seed}`,
      );
    }
    assert.deepEqual(events(await run(battery, { files, killAt: 1 })), ["training-state-refused"]);
    await run(battery, { files, killAt: 6 });
    await write(files, checkpoint!, (await files.read(checkpoint!)).slice(1));
    const outcome = await run(battery, { files });
    assert.deepEqual(events(outcome), ["training-state-refused"]);
    assert.deepEqual(essence(outcome), essence(await undisturbed(battery)));
  });

  it("trains on without a state where none can be written, and reports that once", async () => {
    const noSpace: FaultPlan = ({ kind, path }) =>
      kind === "write" && path.includes("/state/") ? { code: "ENOSPC" } : undefined;
    const files = memoryFiles();
    const outcome = await run(battery, { files: faultyFiles(files, noSpace) });
    assert.deepEqual(events(outcome), ["training-state-unsaved"]);
    assert.deepEqual(essence(outcome), essence(await undisturbed(battery)));
    assert.deepEqual(await files.list(`${work}/state`), [], "nothing half written keeps the disk full");
    const small = await run(battery, { maxBytes: 1000, killAt: 3 });
    assert.deepEqual(events(small), ["training-state-unsaved"]);
  });

  it("keeps the newest checkpoints only, and those that its state relies on", async () => {
    const whole = await undisturbed(battery);
    const files = memoryFiles();
    await run(battery, { files, killAt: 10, maxCheckpoints: 1 });
    const rest = await run(battery, { files, maxCheckpoints: 1 });
    assert.deepEqual(rest.checkpoints, whole.checkpoints.slice(-1));
    assert.equal(rest.droppedCheckpoints, whole.checkpoints.length - 1);
    assert.deepEqual(
      (await files.list(`${work}/result`)).filter((name) => name.startsWith("checkpoint")).length,
      1,
    );
    assert.deepEqual(events(rest), ["training-continued"]);
  });
});

describe("how often a state is saved", () => {
  it("is every 5 s of work, or as seldom as its cost and size ask for", () => {
    const pace = new StatePace(0);
    assert.deepEqual([pace.isDue(4999), pace.isDue(5000)], [false, true]);
    pace.tried({ startMs: 5000, endMs: 5010, bytes: 1000 });
    assert.deepEqual([pace.isDue(10_009), pace.isDue(10_010)], [false, true]);
    pace.tried({ startMs: 20_000, endMs: 21_000, bytes: 1000 });
    assert.deepEqual([pace.isDue(40_999), pace.isDue(41_000)], [false, true], "20 times what it took");
    pace.tried({ startMs: 50_000, endMs: 50_100, bytes: 56 * 2 ** 20 });
    assert.deepEqual([pace.isDue(106_099), pace.isDue(106_100)], [false, true], "1 MiB a second");
  });
});

async function write(files: Files, path: string, bytes: Uint8Array): Promise<void> {
  await files.remove(path);
  const file = await files.open(path, "create");
  await file.write(bytes, 0);
  await file.close();
}
