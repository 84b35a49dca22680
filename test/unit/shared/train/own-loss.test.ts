/** Own losses and weights of samples in the training loop: what a step multiplies, and what it leaves as it was. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Streams } from "../../../../shared/random/streams.js";
import { startWasmBackend, type StartedBackend } from "../../../../shared/train/backends/wasm.js";
import { GraphBuilder } from "../../../../shared/train/builders/graph-builder.js";
import type { SamplePart, SampleSet } from "../../../../shared/train/datasets/dataset.js";
import { checkExpression } from "../../../../shared/train/expressions/check-expression.js";
import { expressionSchema } from "../../../../shared/train/expressions/operations.js";
import type { OwnLoss } from "../../../../shared/train/expressions/own-loss.js";
import { fit, type FitOutcome } from "../../../../shared/train/fit.js";
import { lossNames, type FitPlan } from "../../../../shared/train/fit-plan.js";
import { totalLoss } from "../../../../shared/train/loss.js";
import { buildTrainable } from "../../../../shared/train/trainable.js";

let backend: StartedBackend;
before(async () => {
  backend = await startWasmBackend();
});
after(() => {
  backend.close();
});

const classes = 3;
function drawn(count: number, name: string): SamplePart {
  const stream = new Streams("3", 0).stream(name);
  const inputs = Float32Array.from({ length: count * 4 }, () => stream.uniformBetween(-1, 1));
  return { count, inputs, targets: Float32Array.from({ length: count }, () => stream.integer(classes)) };
}
const set: SampleSet = {
  task: "classification",
  inputShape: [4],
  targetSize: 1,
  classes,
  train: drawn(32, "a"),
  validation: drawn(16, "b"),
  heldOut: drawn(8, "c"),
  description: {},
};
const plan: FitPlan = {
  epochs: 3,
  batchSize: 8,
  loss: "softmax-cross-entropy",
  optimizer: { name: "adam" },
  schedule: { name: "constant", rate: 0.01 },
  patience: 0,
  frozenLayers: [],
  clipNorm: 0,
  shiftPixels: 0,
  checkpointEveryEpochs: 0,
};
const own = (operations: readonly unknown[], width = classes): OwnLoss => ({
  own: checkExpression(
    expressionSchema.parse({ operations, output: operations.length + 1 }),
    { inputs: [[width], [width]], output: [], isOfSamples: false, needs: [1] },
    (why) => assert.fail(why),
  ),
});
/** The built-in cross-entropy, written as an own one. */
const crossEntropy = own([
  { op: "logSoftmax", from: [1] },
  { op: "mul", from: [0, 2] },
  { op: "sum", from: [3], axes: [0] },
  { op: "neg", from: [4] },
]);

async function trained(
  data: SampleSet,
  options: Partial<FitPlan>,
): Promise<{ readonly bytes: Buffer; readonly outcome: FitOutcome }> {
  const graph = new GraphBuilder();
  const hidden = graph.dense(graph.input([4]), 4, 6, "relu");
  const streams = new Streams("1", 0);
  const { architecture, tensors } = graph.build([graph.dense(hidden, 6, classes)], streams);
  const model = buildTrainable(backend.tf, architecture, tensors, { streams });
  try {
    const outcome = await fit({
      tf: backend.tf,
      model,
      samples: data,
      plan: { ...plan, ...options },
      streams,
    });
    return { bytes: Buffer.concat(model.readTensors().map(({ bytes }) => bytes)), outcome };
  } finally {
    model.dispose();
  }
}

describe("an own loss", () => {
  it("trains to the bits of the built-in one that it repeats, and is what the epochs report", async () => {
    const built = await trained(set, {});
    const { bytes, outcome } = await trained(set, { loss: crossEntropy });
    assert.deepEqual(bytes, built.bytes);
    assert.deepEqual(outcome.measurements, built.outcome.measurements);
  });

  it("is weighed by classes as the built-in one", async () => {
    const classWeights = [0.5, 2, 1];
    const built = await trained(set, { classWeights });
    const { bytes } = await trained(set, { classWeights, loss: crossEntropy });
    assert.deepEqual(bytes, built.bytes);
    assert.notDeepEqual(bytes, (await trained(set, { loss: crossEntropy })).bytes);
  });

  it("ends a training by its error where it is not finite", async () => {
    const logarithm = own([
      { op: "neg", from: [1] },
      { op: "abs", from: [2] },
      { op: "neg", from: [3] },
      { op: "log", from: [4] },
      { op: "sum", from: [5] },
    ]);
    await assert.rejects(trained(set, { loss: logarithm }), { code: "NOT_A_NUMBER" });
  });
});

describe("an own loss of validation samples", () => {
  it("ends a training where it is not finite, with and without early stopping", async () => {
    // The logarithm of 0 where the class is not the first one, which only validation samples have.
    const only = own([
      { op: "square", from: [1] },
      { op: "sum", from: [2] },
      { op: "slice", from: [0], begin: [0], size: [1] },
      { op: "log", from: [4] },
      { op: "sum", from: [5] },
      { op: "add", from: [3, 6] },
    ]);
    const part = (count: number, of: number): SamplePart => ({
      ...drawn(count, "d"),
      targets: new Float32Array(count).fill(of),
    });
    const data = { ...set, train: part(16, 0), validation: part(16, 1) };
    for (const patience of [0, 1])
      await assert.rejects(trained(data, { loss: only, patience }), { code: "NOT_A_NUMBER" });
  });
});

describe("weights of samples", () => {
  const weights = Float32Array.from({ length: 32 }, (_, at) => (at % 4 === 0 ? 0 : 1));
  const weighted = (values: Float32Array, targets = set.train.targets): SampleSet => ({
    ...set,
    train: { ...set.train, targets, weights: values },
  });
  const others = set.train.targets.map((target, at) => (at % 4 === 0 ? (target + 1) % classes : target));

  it("leave the target of a sample of weight 0 without effect, and no other", async () => {
    for (const loss of ["softmax-cross-entropy", crossEntropy] as const) {
      const { bytes } = await trained(weighted(weights), { loss });
      assert.deepEqual((await trained(weighted(weights, others), { loss })).bytes, bytes);
      const ones = weights.map(() => 1);
      assert.notDeepEqual((await trained(weighted(ones, others), { loss })).bytes, bytes);
      assert.deepEqual((await trained(weighted(ones), { loss })).bytes, (await trained(set, { loss })).bytes);
    }
  });

  it("do not change what is measured", async () => {
    const twice = await trained(weighted(weights.map(() => 2)), {
      epochs: 1,
      schedule: { name: "constant", rate: 0 },
    });
    const once = await trained(set, { epochs: 1, schedule: { name: "constant", rate: 0 } });
    const [one, other] = [once, twice].map(({ outcome }) => outcome.measurements.at(-1));
    assert.equal(other?.validation, one?.validation);
    assert.equal(other?.loss, 2 * (one?.loss ?? 0));
  });

  for (const name of [...lossNames, "own"] as const)
    it(`multiply the loss of each sample (${name})`, () => {
      const { tf } = backend;
      const loss =
        name === "own"
          ? crossEntropy
          : [{ name, weight: 1, outputsAreProbabilities: name.startsWith("sig") }];
      const outputs = [0.1, 0.7, 0.2, 0.5, 0.25, 0.25, 0.9, 0.05, 0.05];
      const targets = [0, 1, 0, 1, 0, 0, 0, 0, 1];
      const of = (values: readonly number[], from: number, to: number): ReturnType<typeof tf.tensor> =>
        tf.tensor(values.slice(from * 3, to * 3), [to - from, 3]);
      const each = [2, 0, 0.5];
      tf.tidy(() => {
        const single = each.map((weight, at) => {
          const compared = { targets: [of(targets, at, at + 1)] };
          return weight * (totalLoss(tf, loss, [of(outputs, at, at + 1)], compared).dataSync()[0] ?? NaN);
        });
        const compared = { targets: [of(targets, 0, 3)], weights: tf.tensor(each) };
        const whole = totalLoss(tf, loss, [of(outputs, 0, 3)], compared).dataSync()[0] ?? NaN;
        const mean = single.reduce((sum, value) => sum + value, 0) / 3;
        assert.ok(Math.abs(whole - mean) < 1e-6, `${whole}, ${mean}`);
      });
    });
});
