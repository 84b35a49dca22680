/** Fusing an activation into the normalisation before it changes no bit, and happens only where it may. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { LayersModel, SymbolicTensor, Tensor, Variable, layers } from "@tensorflow/tfjs";
import { fuseActivations } from "../../../../../shared/train/backends/fused-layers.js";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { tensorOf, weighed } from "../kernels/compare-with-cpu.js";

let started: StartedBackend;
before(async () => {
  started = await startWasmBackend();
});
after(() => started.close());

type Build = (input: SymbolicTensor, normalization: layers.Layer) => SymbolicTensor | SymbolicTensor[];

function model(build: Build, config: { axis?: number } = {}): LayersModel {
  const { tf } = started;
  const input = tf.input({ shape: [6, 5, 7] });
  const made = tf.model({ inputs: input, outputs: build(input, tf.layers.batchNormalization(config)) });
  made.setWeights(made.getWeights().map((weight, i) => tensorOf(tf, weight.shape, 20 + i, [0.5, 2.5])));
  return made;
}

const through = (x: SymbolicTensor, ...all: layers.Layer[]): SymbolicTensor =>
  all.reduce((y, layer) => layer.apply(y) as SymbolicTensor, x);
const activations = (): Record<string, layers.Layer> => {
  const { tf } = started;
  return {
    relu6: tf.layers.reLU({ maxValue: 6 }),
    relu: tf.layers.reLU({}),
    "activation relu": tf.layers.activation({ activation: "relu" }),
    "activation relu6": tf.layers.activation({ activation: "relu6" }),
  };
};

/** Output, gradients and moved statistics of the first output, as bits. */
function trainingBits(trained: LayersModel, training = true): number[][] {
  const { tf } = started;
  const found: number[][] = [];
  tf.tidy(() => {
    const x: Tensor = tensorOf(tf, [3, 6, 5, 7], 1, [-3, 3]);
    const forward = (value: Tensor): Tensor => {
      const y = trained.apply(value, { training }) as Tensor | Tensor[];
      return Array.isArray(y) ? y[0]! : y;
    };
    const { grads } = tf.variableGrads(
      () => weighed(tf, forward(x)).sum(),
      trained.trainableWeights.map((weight) => weight.read() as Variable),
    );
    const results = [
      forward(x),
      tf.grad((v) => weighed(tf, forward(v)))(x),
      ...Object.values(grads),
      ...trained.getWeights(),
    ];
    found.push(...results.map((tensor) => [...new Uint32Array(Float32Array.from(tensor.dataSync()).buffer)]));
  });
  return found;
}

test("a model trains to the same bits whether the activation is inside the normalisation or behind it", () => {
  for (const name of Object.keys(activations())) {
    const inside = model((input, normalization) => through(input, normalization, activations()[name]!));
    const behind = model((input, normalization) => {
      const normal = normalization.apply(input) as SymbolicTensor;
      return [activations()[name]!.apply(normal) as SymbolicTensor, normal];
    });
    assert.deepEqual(trainingBits(inside), trainingBits(behind), name);
    assert.equal(fuseActivations(inside), 0, "the first training pass has fused it");
    assert.deepEqual(trainingBits(inside, false), trainingBits(behind, false), `${name}, inference`);
  }
});

test("only an activation that alone reads a normalisation over the last axis is fused", () => {
  const { tf } = started;
  const pair: Build = (input, normalization) => through(input, normalization, tf.layers.reLU({}));
  assert.equal(fuseActivations(model(pair)), 1);
  assert.equal(fuseActivations(model(pair, { axis: 3 })), 1);
  assert.equal(fuseActivations(model(pair, { axis: 1 })), 0);
  assert.equal(
    fuseActivations(
      model((input, normalization) => through(input, normalization, tf.layers.reLU({ maxValue: 1 }))),
    ),
    0,
  );
  assert.equal(
    fuseActivations(
      model((input, normalization) =>
        through(input, normalization, tf.layers.activation({ activation: "tanh" })),
      ),
    ),
    0,
  );
  assert.equal(
    fuseActivations(
      model((input, normalization) => {
        const y = normalization.apply(input) as SymbolicTensor;
        return tf.layers.add().apply([tf.layers.reLU({}).apply(y) as SymbolicTensor, y]) as SymbolicTensor;
      }),
    ),
    0,
  );
  assert.equal(
    fuseActivations(
      model((input, normalization) => {
        const y = normalization.apply(input) as SymbolicTensor;
        return [tf.layers.reLU({}).apply(y) as SymbolicTensor, y];
      }),
    ),
    0,
  );
  assert.equal(
    fuseActivations(
      model((input, normalization) =>
        through(through(input, normalization, tf.layers.reLU({})), normalization),
      ),
    ),
    0,
    "a layer that is used twice",
  );
});

test("an activation behind a frozen normalisation is still applied", () => {
  const { tf } = started;
  const trained = model((input, normalization) => through(input, normalization, tf.layers.reLU({})));
  assert.equal(fuseActivations(trained), 1);
  const frozen = trained.layers[1]!;
  const call = frozen.call.bind(frozen);
  frozen.call = (inputs, kwargs) => call(inputs, { ...kwargs, training: false });
  tf.tidy(() =>
    assert.ok(
      Math.min(
        ...(trained.apply(tensorOf(tf, [2, 6, 5, 7], 1, [-9, 9]), { training: true }) as Tensor).dataSync(),
      ) === 0,
    ),
  );
});
