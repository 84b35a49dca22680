/** The training loop: it learns, repeats bit for bit, stops early, and refuses data that does not fit. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { startWasmBackend, type StartedBackend } from "../../../../shared/train/backends/wasm.js";
import { GraphBuilder } from "../../../../shared/train/builders/graph-builder.js";
import { sequenceRegressor, smallConvolutional } from "../../../../shared/train/builders/models.js";
import type { SamplePart, SampleSet } from "../../../../shared/train/datasets/dataset.js";
import { generateImages } from "../../../../shared/train/datasets/images-generated.js";
import { imageSet } from "../../../../shared/train/datasets/image-parts.js";
import { fit, type FitHooks } from "../../../../shared/train/fit.js";
import type { FitPlan } from "../../../../shared/train/fit-plan.js";
import type { StoredModel } from "../../../../shared/train/recipes/recipe.js";
import { Streams } from "../../../../shared/random/streams.js";
import type { TensorFlow } from "../../../../shared/train/tensorflow.js";
import { lossTermsFor } from "../../../../shared/train/model-outputs.js";
import { evaluateModel, meanLossOn } from "../../../../shared/train/evaluation-pass.js";
import { buildTrainable, floatsOf, type Trainable } from "../../../../shared/train/trainable.js";

let backend: StartedBackend;
let tf: TensorFlow;
before(async () => {
  backend = await startWasmBackend();
  tf = backend.tf;
});
after(() => {
  backend.close();
});

/** y = sum of the window, with a little noise; [4, 2] in. */
function sums(count: number, name: string): SamplePart {
  const stream = new Streams("11", 0).stream(name);
  const inputs = Float32Array.from({ length: count * 8 }, () => stream.uniformBetween(-1, 1));
  const targets = Float32Array.from(
    { length: count },
    (_, row) => inputs.subarray(row * 8, row * 8 + 8).reduce((sum, value) => sum + value, 0) / 4,
  );
  return { count, inputs, targets };
}
const windows: SampleSet = {
  task: "regression",
  inputShape: [4, 2],
  targetSize: 1,
  classes: 0,
  train: sums(40, "a"),
  validation: sums(12, "b"),
  heldOut: sums(12, "c"),
  description: {},
};
const plan: FitPlan = {
  epochs: 6,
  batchSize: 8,
  loss: "mean-squared-error",
  optimizer: { name: "adam" },
  schedule: { name: "constant", rate: 0.01 },
  patience: 0,
  frozenLayers: [],
  clipNorm: 1,
  shiftPixels: 0,
  checkpointEveryEpochs: 0,
};
const lstm = (): StoredModel =>
  sequenceRegressor({ kind: "LSTM", inputShape: [4, 2], units: 6, outputs: 1, mean: 0 }, new Streams("1", 0));

const validationLoss = (model: Trainable, samples: SampleSet, { loss }: FitPlan): Promise<number> =>
  meanLossOn(samples.validation, { tf, model, samples, losses: lossTermsFor(model, samples, loss) });

async function trained(
  model: StoredModel,
  set: SampleSet,
  options: Partial<FitPlan> = {},
  { hooks = {}, seed = "1" }: { hooks?: FitHooks; seed?: string } = {},
): Promise<{ bytes: Buffer[]; outcome: Awaited<ReturnType<typeof fit>>; streams: Streams; loss: number }> {
  const streams = new Streams(seed, 0);
  const full = { ...plan, ...options };
  const trainable = buildTrainable(tf, model.architecture, model.tensors, {
    streams,
    frozenLayers: full.frozenLayers,
  });
  try {
    const outcome = await fit({ tf, model: trainable, samples: set, plan: full, streams, hooks });
    return {
      bytes: trainable.readTensors().map(({ bytes }) => Buffer.from(bytes)),
      outcome,
      streams,
      loss: await validationLoss(trainable, set, full),
    };
  } finally {
    trainable.dispose();
  }
}

describe("training loop", () => {
  it("learns", async () => {
    const model = lstm();
    const trainable = buildTrainable(tf, model.architecture, model.tensors);
    const before = await validationLoss(trainable, windows, plan);
    trainable.dispose();
    const { loss } = await trained(model, windows, { epochs: 20 });
    assert.ok(loss < before / 3, `${before} → ${loss}`);
  });

  it("gives the same bytes for the same seed and others for another order of the samples", async () => {
    const first = await trained(lstm(), windows);
    const second = await trained(lstm(), windows);
    const other = await trained(lstm(), windows, {}, { seed: "2" });
    assert.deepEqual(second.bytes, first.bytes);
    assert.deepEqual(second.outcome.measurements, first.outcome.measurements);
    assert.deepEqual(second.streams.counts(), first.streams.counts());
    assert.notDeepEqual(other.bytes, first.bytes);
  });

  it("measures at iterations, with the rate and each epoch's validation loss", async () => {
    const { outcome } = await trained(lstm(), windows, {
      schedule: { name: "linear", rate: 0.01, factor: 0 },
    });
    assert.equal(outcome.iterations, 30);
    assert.deepEqual(
      outcome.measurements.map(({ iteration }) => iteration),
      Array.from({ length: 30 }, (_, i) => i + 1),
    );
    assert.equal(outcome.measurements.filter(({ validation }) => validation !== undefined).length, 6);
    assert.equal(outcome.measurements.at(-1)?.learningRate, 0);
    assert.ok(outcome.measurements.every(({ loss }) => Number.isFinite(loss)));
  });

  it("stops early and keeps the best epoch's weights, without using held-out samples", async () => {
    const opposed: SampleSet = {
      ...windows,
      validation: { ...windows.validation, targets: windows.validation.targets.map((target) => -target) },
    };
    const { outcome, loss } = await trained(lstm(), opposed, { epochs: 50, patience: 3 });
    assert.equal(outcome.stoppedEarly, true);
    assert.equal(outcome.epochs, outcome.bestEpoch + 3);
    const best = Math.min(
      ...outcome.measurements.flatMap(({ validation }) =>
        typeof validation === "number" ? [validation] : [],
      ),
    );
    assert.equal(loss, best);
    const blind: SampleSet = {
      ...opposed,
      heldOut: { ...opposed.heldOut, inputs: opposed.heldOut.inputs.map(() => NaN) },
    };
    assert.deepEqual(
      (await trained(lstm(), blind, { epochs: 50, patience: 3 })).outcome.measurements,
      outcome.measurements,
    );
  });

  it("leaves frozen layers as they are, to the bit, and batch norm's averages with them", async () => {
    const graph = new GraphBuilder();
    const normal = graph.batchNorm(
      graph.convolution(graph.input([28, 28, 1]), 1, { filters: 4, kernel: 3 }),
      4,
    );
    const model = graph.build(
      graph.dense(graph.flatten(graph.maxPool(graph.relu6(normal))), 14 * 14 * 4, 10),
      new Streams("3", 0),
    );
    const images = imageSet(generateImages("1", 60), 0, {});
    const options = { loss: "softmax-cross-entropy", epochs: 2, batchSize: 16 } as const;
    const frozen = await trained(model, images, { ...options, frozenLayers: [0, 1, 2, 3, 4, 5] });
    model.tensors.forEach((tensor, index) => {
      const same = Buffer.from(tensor.bytes).equals(frozen.bytes[index]!);
      assert.equal(same, index < model.tensors.length - 2, `leaf ${index}`);
    });
    const full = await trained(model, images, options);
    model.tensors.forEach((tensor, index) => {
      assert.ok(
        !Buffer.from(tensor.bytes).equals(full.bytes[index]!),
        `leaf ${index} must change when nothing is frozen`,
      );
    });
  });

  it("draws dropout and shifts from their own streams", async () => {
    const images = imageSet(generateImages("2", 60), 0, {});
    const model = smallConvolutional(
      { inputShape: [28, 28, 1], filters: 2, classes: 10, dropout: 0.5 },
      new Streams("4", 0),
    );
    const options = { loss: "softmax-cross-entropy", epochs: 1, shiftPixels: 2 } as const;
    const first = await trained(model, images, options);
    const again = await trained(model, images, options);
    assert.deepEqual(again.bytes, first.bytes);
    const names = Object.keys(first.streams.counts());
    assert.ok(
      names.includes("augmentation") &&
        names.includes("order") &&
        names.some((name) => name.startsWith("dropout/")),
      names.join(),
    );
    assert.notDeepEqual((await trained(model, images, { ...options, shiftPixels: 0 })).bytes, first.bytes);
  });

  it("rejects a number that is not finite at its step, naming the layer", async () => {
    await assert.rejects(
      trained(lstm(), windows, {
        clipNorm: 0,
        optimizer: { name: "sgd" },
        schedule: { name: "constant", rate: 1e38 },
      }),
      (error: unknown) => {
        assert.ok(isStemmaError(error, "NOT_A_NUMBER"), String(error));
        assert.equal(typeof error.details["iteration"], "number");
        assert.ok("layer" in error.details || !Number.isFinite(Number(error.details["loss"])));
        return true;
      },
    );
    // ReLU6 hides a NaN from the loss, but the averages of the batch norm before it show it.
    const graph = new GraphBuilder();
    const model = graph.build(
      graph.dense(
        graph.flatten(
          graph.relu6(
            graph.batchNorm(graph.convolution(graph.input([8, 8, 1]), 1, { filters: 2, kernel: 3 }), 2),
          ),
        ),
        128,
        10,
      ),
      new Streams("3", 0),
    );
    const poisoned = model.tensors.map((tensor, index) =>
      index === 0
        ? { ...tensor, bytes: new Uint8Array(Float32Array.from(floatsOf(tensor), () => 3e38).buffer) }
        : tensor,
    );
    const flat: SamplePart = {
      count: 16,
      inputs: new Float32Array(16 * 64).fill(1),
      targets: new Float32Array(16),
    };
    const set: SampleSet = {
      task: "classification",
      inputShape: [8, 8, 1],
      targetSize: 1,
      classes: 10,
      train: flat,
      validation: flat,
      heldOut: flat,
      description: {},
    };
    await assert.rejects(
      trained({ ...model, tensors: poisoned }, set, { loss: "softmax-cross-entropy" }),
      (error: unknown) => isStemmaError(error, "NOT_A_NUMBER"),
    );
  });

  it("passes checkpoints to continue from", async () => {
    const seen: { epoch: number; iteration: number }[] = [];
    const { bytes } = await trained(
      lstm(),
      windows,
      { checkpointEveryEpochs: 3 },
      {
        hooks: {
          onCheckpoint: (epoch, iteration, tensors, optimizer) => {
            seen.push({ epoch, iteration });
            assert.equal(optimizer.iterations, iteration);
            assert.equal(tensors.length, lstm().tensors.length);
            return Promise.resolve();
          },
        },
      },
    );
    assert.deepEqual(seen, [
      { epoch: 3, iteration: 15 },
      { epoch: 6, iteration: 30 },
    ]);
    assert.equal(bytes.length, lstm().tensors.length);
  });

  it("leaks no tensor, and does not depend on models that the process built before", async () => {
    const before = tf.memory().numTensors;
    const { bytes } = await trained(lstm(), windows, { epochs: 2 });
    const trainable = buildTrainable(tf, lstm().architecture, lstm().tensors);
    await evaluateModel({ tf, model: trainable, samples: windows, loss: plan.loss }, windows.heldOut);
    trainable.dispose();
    assert.equal(tf.memory().numTensors, before);
    assert.deepEqual((await trained(lstm(), windows, { epochs: 2 })).bytes, bytes);
  });

  it("names the shapes of model and data when they differ, before anything is computed", async () => {
    const model = sequenceRegressor(
      { kind: "LSTM", inputShape: [5, 2], units: 6, outputs: 1, mean: 0 },
      new Streams("1", 0),
    );
    const trainable = buildTrainable(tf, model.architecture, model.tensors);
    await assert.rejects(
      evaluateModel({ tf, model: trainable, samples: windows, loss: plan.loss }, windows.heldOut),
      (error) =>
        isStemmaError(error, "ARCHITECTURE_MISMATCH") &&
        error.message.includes("[5, 2]") &&
        error.message.includes("[4, 2]"),
    );
    trainable.dispose();
  });

  it("does not train a model on data of another width", async () => {
    const model = sequenceRegressor(
      { kind: "LSTM", inputShape: [4, 2], units: 6, outputs: 3, mean: 0 },
      new Streams("1", 0),
    );
    const trainable = buildTrainable(tf, model.architecture, model.tensors);
    await assert.rejects(
      evaluateModel({ tf, model: trainable, samples: windows, loss: plan.loss }, windows.heldOut),
      (error) => isStemmaError(error, "ARCHITECTURE_MISMATCH"),
    );
    trainable.dispose();
  });
});
