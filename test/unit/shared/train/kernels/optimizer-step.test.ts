/** Fused steps of the optimisers agree with TensorFlow.js, and with the same operations unfused. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Optimizer, Tensor } from "@tensorflow/tfjs";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import type { Tf } from "../../../../../shared/train/kernels/kernel-registry.js";
import {
  adagradStep,
  adamStep,
  allFinite,
  momentumStep,
  rmsPropStep,
  sgdStep,
  type StepInputs,
} from "../../../../../shared/train/kernels/optimizer-step.js";
import { numbers, relativeError, tensorOf } from "./compare-with-cpu.js";

let started: StartedBackend;
before(async () => {
  started = await startWasmBackend();
});
after(() => started.close());

const steps = 12;
const rate = 0.05;
type Step = (
  tf: Tf,
  inputs: StepInputs,
  state: Tensor[],
  powers: { beta1: number; beta2: number },
) => [Tensor, ...Tensor[]];

const optimizers: Record<
  string,
  { make: (tf: Tf) => Optimizer; slots: number; initial?: number; step: Step }
> = {
  sgd: {
    make: (tf) => tf.train.sgd(rate),
    slots: 0,
    step: (tf, inputs) => [sgdStep(tf, inputs, { learningRate: rate }).weight],
  },
  ...Object.fromEntries(
    [false, true].map((nesterov) => [
      nesterov ? "nesterov" : "momentum",
      {
        make: (tf: Tf) => tf.train.momentum(rate, 0.9, nesterov),
        slots: 1,
        step: (tf, inputs, [a]) => {
          const r = momentumStep(
            tf,
            { ...inputs, accumulator: a! },
            { learningRate: rate, momentum: 0.9, nesterov },
          );
          return [r.weight, r.accumulator];
        },
      },
    ]),
  ),
  adagrad: {
    make: (tf) => tf.train.adagrad(rate, 0.1),
    slots: 1,
    initial: 0.1,
    step: (tf, inputs, [a]) => {
      const r = adagradStep(
        tf,
        { ...inputs, accumulator: a! },
        { learningRate: rate, epsilon: tf.backend().epsilon() },
      );
      return [r.weight, r.accumulator];
    },
  },
  ...Object.fromEntries(
    [false, true].map((centred) => [
      centred ? "rmsprop centred" : "rmsprop",
      {
        make: (tf: Tf) => tf.train.rmsprop(rate, 0.9, 0.5, 1e-7, centred),
        slots: centred ? 3 : 2,
        step: (tf, inputs, [s, m, a]) => {
          const r = rmsPropStep(
            tf,
            { ...inputs, meanSquare: s!, moment: m!, ...(a && { meanGradient: a }) },
            { learningRate: rate, decay: 0.9, momentum: 0.5, epsilon: 1e-7 },
          );
          return [r.weight, r.meanSquare, r.moment, ...(r.meanGradient ? [r.meanGradient] : [])];
        },
      },
    ]),
  ),
  adam: {
    make: (tf) => tf.train.adam(rate, 0.9, 0.999, 1e-7),
    slots: 2,
    step: (tf, inputs, [m, v], { beta1, beta2 }) => {
      const r = adamStep(
        tf,
        { ...inputs, first: m!, second: v! },
        {
          learningRate: rate,
          beta1: 0.9,
          beta2: 0.999,
          epsilon: 1e-7,
          beta1Product: beta1,
          beta2Product: beta2,
        },
      );
      return [r.weight, r.first, r.second];
    },
  },
};

const gradientOf = (tf: Tf, shape: number[], i: number): Tensor =>
  tf.tensor(
    numbers(
      shape.reduce((a, b) => a * b, 1),
      100 + i,
      -2,
      2,
    ),
    shape,
  );
const bitsOf = (tensor: Tensor): number[] => [
  ...new Uint32Array(Float32Array.from(tensor.dataSync()).buffer),
];

function withOwnSteps(
  tf: Tf,
  shape: number[],
  { slots, initial = 0, step }: (typeof optimizers)[string],
): Tensor[] {
  let weight: Tensor = tensorOf(tf, shape, 1);
  let state = Array.from({ length: slots }, (): Tensor => tf.fill(shape, initial));
  const powers = { beta1: 0.9, beta2: 0.999 };
  for (let i = 0; i < steps; i++) {
    [weight, ...state] = step(tf, { weight, gradient: gradientOf(tf, shape, i) }, state, powers);
    powers.beta1 *= 0.9;
    powers.beta2 *= 0.999;
  }
  return [weight, ...state];
}

for (const [name, optimizer] of Object.entries(optimizers)) {
  for (const shape of [[5, 8], [13], [1], [3, 3, 2, 7]]) {
    test(`${name}: ${steps} steps on [${shape.join(", ")}] agree with TensorFlow.js's optimiser`, () => {
      const { tf } = started;
      tf.tidy(() => {
        const [mine] = withOwnSteps(tf, shape, optimizer);
        const theirs = optimizer.make(tf);
        const variable = tensorOf(tf, shape, 1).variable(true, `w-${name}-${shape.join("x")}`);
        for (let i = 0; i < steps; i++) theirs.applyGradients({ [variable.name]: gradientOf(tf, shape, i) });
        assert.ok(relativeError(mine!.dataSync(), variable.dataSync()) < 1e-4);
        theirs.dispose();
        variable.dispose();
      });
    });
  }
}

test("without the fused kernels the same operations give the same bits", async () => {
  const shape = [3, 7];
  const fused = Object.values(optimizers).map((optimizer) =>
    started.tf.tidy(() => withOwnSteps(started.tf, shape, optimizer).map(bitsOf)),
  );
  started.close();
  started = await startWasmBackend({ fused: false });
  const plain = Object.values(optimizers).map((optimizer) =>
    started.tf.tidy(() => withOwnSteps(started.tf, shape, optimizer).map(bitsOf)),
  );
  started.close();
  started = await startWasmBackend();
  assert.deepEqual(plain, fused);
});

test("allFinite finds a NaN or an infinity at any position", () => {
  const { tf } = started;
  for (const length of [0, 1, 3, 4, 9, 64]) {
    const values = numbers(length, 3);
    assert.equal(allFinite(tf, tf.tensor1d(values)), true);
    for (let i = 0; i < length; i++)
      for (const bad of [NaN, Infinity, -Infinity]) {
        const changed = values.slice();
        changed[i] = bad;
        assert.equal(allFinite(tf, tf.tensor1d(changed)), false, `${bad} at ${i} of ${length}`);
      }
  }
  assert.equal(allFinite(tf, tf.tensor1d([-0, 1e-45, 3.4028234e38])), true);
  tf.disposeVariables();
});
