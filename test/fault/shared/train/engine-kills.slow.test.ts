/**
 * Kills the engine's process with SIGKILL in the middle of one training, again and again, at moments that a seed draws
 * as numbers of steps, and runs the same job again in the same folder: it gives the bytes of an undisturbed training,
 * and every process goes on where the one before saved its state.
 */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it, type TestContext } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { savedProgress } from "../../../../shared/train/saved-progress.js";
import { trainInChild, type TrainingOutcome } from "../../../../shared/train/train-in-child.js";
import { jobFormat, type EngineNotice, type TrainingJob } from "../../../../shared/train/training.js";
import { testSeed } from "../../../helpers/crash-states.js";
import { seededNumbers } from "../../../helpers/manual-clock.js";

const kills = Number(process.env["STEMMA_TEST_KILLS"] ?? (process.env["STEMMA_TEST_FULL"] === "1" ? 20 : 2));
const single: TrainingJob = {
  format: jobFormat,
  recipe: "battery-soh",
  parameters: { epochs: 4, patience: 2, checkpointEveryEpochs: 2, keepOptimizer: true, batchSize: 4 },
  dataset: { reader: "battery-simulated", parameters: { vehicle: 1, cells: 2 } },
  seed: "3",
  invocation: 1,
};

/** Members one after the other; the engine trains more steps than these in workers. */
const ensemble: TrainingJob = {
  format: jobFormat,
  recipe: "bagging",
  parameters: { inner: "sequence-regression", members: 3, epochs: 3, patience: 2, batchSize: 4, units: 6 },
  dataset: { reader: "battery-simulated", parameters: { vehicle: 1, cells: 1 } },
  seed: "3",
  invocation: 1,
};
const filesOf = async (outcome: TrainingOutcome): Promise<readonly string[]> =>
  Promise.all(
    [
      outcome.modelFile,
      ...(outcome.optimizerFile === undefined ? [] : [outcome.optimizerFile]),
      ...outcome.checkpoints.map(({ file }) => file),
    ].map(async (file) => (await readFile(file)).toString("base64")),
  );

it("continues over processes that are killed", (t) => isContinued(single, t));

it("continues in the middle of a member of an ensemble", (t) => isContinued(ensemble, t));

async function isContinued(job: TrainingJob, t: TestContext): Promise<void> {
  const seed = testSeed();
  console.log(`# ${kills} kills, STEMMA_TEST_SEED=${seed}`);
  const random = seededNumbers(seed);
  const work = await mkdtemp(join(tmpdir(), "stemma-kills-"));
  t.after(() => rm(work, { recursive: true, force: true }));
  const whole = await trainInChild(job, { workFolder: join(work, "whole") });
  const total = whole.result.measurements.at(-1)?.iteration ?? 0;
  const workFolder = join(work, "cut");
  for (let kill = 0, done = 0; kill < kills; kill++) {
    // Steps further than the last state, leaving some for the kills that follow.
    const target = done + 1 + Math.floor(random() * ((total - done) / (kills - kill + 1)));
    const notices: EngineNotice[] = [];
    await assert.rejects(killedAt(target, { job, workFolder, notices }), (error) =>
      isStemmaError(error, "TRAINING_STOPPED"),
    );
    assert.deepEqual(
      notices.map(({ event, iteration }) => ({ event, iteration })),
      done === 0 ? [] : [{ event: "training-continued", iteration: done }],
    );
    const { iteration: now } = await savedProgress(nodeFiles(), workFolder);
    assert.ok(now >= target, `saved ${now} of at least ${target} steps`);
    done = now;
  }
  const rest = await trainInChild(job, { workFolder, state: { everySeconds: 0 } });
  assert.equal(rest.result.continuations, kills);
  assert.deepEqual(await filesOf(rest), await filesOf(whole));
  assert.deepEqual(rest.result.measurements, whole.result.measurements);
}

/** Kills the engine as soon as the state of this step is on the disk; it saves one after every step. */
async function killedAt(
  target: number,
  {
    job,
    workFolder,
    notices,
  }: { readonly job: TrainingJob; readonly workFolder: string; readonly notices: EngineNotice[] },
): Promise<void> {
  const stop = new AbortController();
  const watch = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      const { iteration } = await savedProgress(nodeFiles(), workFolder).catch(() => ({ iteration: 0 }));
      if (iteration >= target) stop.abort();
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    }
  };
  const watching = watch();
  try {
    await trainInChild(job, {
      workFolder,
      state: { everySeconds: 0 },
      signal: stop.signal,
      onNotice: (notice) => {
        notices.push(notice);
      },
    });
  } finally {
    stop.abort();
    await watching;
  }
}
