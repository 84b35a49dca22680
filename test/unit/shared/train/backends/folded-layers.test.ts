/** Evaluation folds normalisations into convolutions where the graph allows it: equal results up to rounding. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { LayersModel, SymbolicTensor, Tensor, Variable, layers } from "@tensorflow/tfjs";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { relativeError, tensorOf } from "../kernels/compare-with-cpu.js";

let started: StartedBackend;
before(async () => {
  started = await startWasmBackend();
});
after(() => started.close());

type Build = (input: SymbolicTensor) => SymbolicTensor | SymbolicTensor[];
const through = (x: SymbolicTensor, ...all: layers.Layer[]): SymbolicTensor =>
  all.reduce((y, layer) => layer.apply(y) as SymbolicTensor, x);

function model(build: Build): LayersModel {
  const { tf } = started;
  const input = tf.input({ shape: [9, 8, 5] });
  const made = tf.model({ inputs: input, outputs: build(input) });
  made.setWeights(
    made
      .getWeights()
      .map((weight, i) => tensorOf(tf, weight.shape, 20 + i, weight.rank === 1 ? [0.3, 2] : [-1, 1])),
  );
  return made;
}
const input = (): Tensor => tensorOf(started.tf, [3, 9, 8, 5], 1, [-3, 3]);

/** Outputs of a model in evaluation, and how often a folded convolution ran. */
async function evaluate(made: LayersModel): Promise<{ outputs: Float32Array[]; folded: number }> {
  const { tf } = started;
  const outputs: Float32Array[] = [];
  const { kernels } = await tf.profile(() => {
    tf.tidy(() => {
      for (const output of [made.apply(input()) as Tensor | Tensor[]].flat())
        outputs.push(output.dataSync<"float32">().slice());
    });
    return tf.scalar(0);
  });
  return { outputs, folded: kernels.filter(({ name }) => name === "StemmaNormalizedConvolution").length };
}

/** What the layers of a model without branches compute one by one, each by itself. */
function layerByLayer(made: LayersModel): Float32Array {
  return started.tf.tidy(() =>
    made.layers
      .slice(1)
      .reduce((x, layer) => layer.apply(x) as Tensor, input())
      .dataSync<"float32">()
      .slice(),
  );
}

test("folded layers compute what they compute one by one, up to rounding", async () => {
  const { tf } = started;
  const { layers } = tf;
  const convolutions: Record<string, () => layers.Layer> = {
    plain: () => layers.conv2d({ filters: 11, kernelSize: 1, useBias: false }),
    biased: () => layers.conv2d({ filters: 6, kernelSize: 3, padding: "same", biasInitializer: "ones" }),
    strided: () => layers.conv2d({ filters: 13, kernelSize: 3, strides: 2, padding: "same" }),
    dilated: () => layers.conv2d({ filters: 4, kernelSize: 3, dilationRate: 2 }),
    depthwise: () => layers.depthwiseConv2d({ kernelSize: 3, padding: "same", useBias: false }),
    "depthwise strided": () => layers.depthwiseConv2d({ kernelSize: 3, strides: 2, padding: "same" }),
    "depthwise multiplied": () => layers.depthwiseConv2d({ kernelSize: 3, depthMultiplier: 2 }),
  };
  const followers: Record<string, () => layers.Layer[]> = {
    alone: () => [layers.batchNormalization({ scale: false, center: false })],
    relu: () => [layers.batchNormalization({ epsilon: 0.01 }), layers.reLU({})],
    relu6: () => [layers.batchNormalization({ scale: false }), layers.reLU({ maxValue: 6 })],
    "activation and more": () => [
      layers.batchNormalization({ center: false }),
      layers.activation({ activation: "relu" }),
      layers.reLU({ maxValue: 1 }),
    ],
  };
  for (const [name, convolution] of Object.entries(convolutions))
    for (const [after, following] of Object.entries(followers)) {
      const made = model((x) => through(x, convolution(), ...following()));
      const { outputs, folded } = await evaluate(made);
      assert.equal(folded, 1, `${name}, ${after}`);
      const error = relativeError(outputs[0]!, layerByLayer(made));
      assert.ok(error < 1e-5, `${name}, ${after}: ${error}`);
    }
});

test("only a convolution that a normalisation alone reads is folded, and never where gradients are taken", async () => {
  const { tf } = started;
  const { layers } = tf;
  const convolution = (config: object = {}): layers.Layer =>
    layers.conv2d({ filters: 6, kernelSize: 3, ...config });
  const normalization = (config: object = {}): layers.Layer => layers.batchNormalization(config);
  const kept: Record<string, Build> = {
    "an activation of its own": (x) => through(x, convolution({ activation: "tanh" }), normalization()),
    "another axis": (x) => through(x, convolution(), normalization({ axis: 1 })),
    "an output of the model": (x) => {
      const y = convolution().apply(x) as SymbolicTensor;
      return [through(y, normalization()), y];
    },
    "two readers": (x) => {
      const y = convolution().apply(x) as SymbolicTensor;
      return layers.add().apply([through(y, normalization()), y]) as SymbolicTensor;
    },
  };
  for (const [name, build] of Object.entries(kept))
    assert.equal((await evaluate(model(build))).folded, 0, name);

  const made = model((x) => through(x, convolution(), normalization(), layers.reLU({})));
  assert.equal((await evaluate(made)).folded, 1);
  const [first] = made.layers.slice(1);
  const inner = tf.model({ inputs: made.inputs, outputs: first!.output });
  assert.equal((await evaluate(inner)).folded, 0, "another model that ends in the same convolution");
  assert.equal((await evaluate(made)).folded, 1);
  const weights = made.trainableWeights.map((weight) => weight.read() as Variable);
  tf.tidy(() => {
    const { grads } = tf.variableGrads(() => (made.apply(input()) as Tensor).sum(), weights);
    assert.equal(Object.keys(grads).length, weights.length);
  });
});

test("a NaN reaches the output, and no tensor leaks", async () => {
  const { tf } = started;
  const made = model((x) =>
    through(
      x,
      tf.layers.depthwiseConv2d({ kernelSize: 1 }),
      tf.layers.batchNormalization({}),
      tf.layers.reLU({ maxValue: 6 }),
    ),
  );
  await evaluate(made);
  const before = [tf.memory().numTensors, tf.memory().numDataBuffers];
  tf.tidy(() => {
    const x = tf.where(tf.range(0, 5).equal(2), tf.scalar(NaN), input());
    const y = (made.apply(x) as Tensor).dataSync();
    assert.ok(y.every((value, i) => Number.isNaN(value) === (i % 5 === 2)));
  });
  assert.deepEqual([tf.memory().numTensors, tf.memory().numDataBuffers], before);
});
