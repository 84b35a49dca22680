/** Optimisers follow their published formulas, and continue from a saved state with the same bits. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { startWasmBackend, type StartedBackend } from "../../../../shared/train/backends/wasm.js";
import {
  checkOptimizerName,
  Optimizer,
  optimizerNames,
  type OptimizerSettings,
} from "../../../../shared/train/optimizers.js";
import type { TensorFlow, TfVariable } from "../../../../shared/train/tensorflow.js";

const start = [0.5, -1, 2, 0.25];
const target = [0, 1, -1, 3];

let backend: StartedBackend;
let tf: TensorFlow;
before(async () => {
  backend = await startWasmBackend();
  tf = backend.tf;
});
after(() => {
  backend.close();
});

/** Steps of the loss Σ (w − target)², whose gradient is 2 (w − target). */
function steps(optimizer: Optimizer, variable: TfVariable, count: number, rate = 0.1): void {
  for (let i = 0; i < count; i++) {
    const gradient = tf.tidy(() => tf.mul(tf.sub(variable, tf.tensor1d(target)), 2));
    optimizer.step(new Map([["0/0", gradient]]), rate);
    gradient.dispose();
  }
}

/** The textbook formula in float64, for one number. */
const textbook: Readonly<Record<string, (count: number, w: number, goal: number) => number>> = {
  sgd(count, w, goal) {
    for (let i = 0; i < count; i++) w -= 0.1 * 2 * (w - goal);
    return w;
  },
  momentum(count, w, goal) {
    let a = 0;
    for (let i = 0; i < count; i++) {
      a = 0.9 * a + 2 * (w - goal);
      w -= 0.1 * a;
    }
    return w;
  },
  rmsprop(count, w, goal) {
    let s = 0;
    for (let i = 0; i < count; i++) {
      const g = 2 * (w - goal);
      s = 0.9 * s + 0.1 * g * g;
      w -= (0.1 * g) / Math.sqrt(s + 1e-7);
    }
    return w;
  },
  adagrad(count, w, goal) {
    let s = 0.1;
    for (let i = 0; i < count; i++) {
      const g = 2 * (w - goal);
      s += g * g;
      w -= (0.1 * g) / Math.sqrt(s + 1e-7);
    }
    return w;
  },
  adam(count, w, goal) {
    let m = 0;
    let v = 0;
    for (let t = 1; t <= count; t++) {
      const g = 2 * (w - goal);
      m = 0.9 * m + 0.1 * g;
      v = 0.999 * v + 0.001 * g * g;
      w -= (0.1 * (m / (1 - 0.9 ** t))) / (Math.sqrt(v / (1 - 0.999 ** t)) + 1e-8);
    }
    return w;
  },
};

describe("optimisers", () => {
  for (const name of optimizerNames) {
    it(`${name} follows its published formula`, () => {
      const variable = tf.variable(tf.tensor1d(start));
      const optimizer = new Optimizer(tf, { name }, [{ path: "0/0", variable }]);
      steps(optimizer, variable, 7);
      const values = variable.dataSync();
      start.forEach((w, index) => {
        const expected = textbook[name]!(7, w, target[index]!);
        assert.ok(
          Math.abs(values[index]! - expected) < 1e-4 * Math.max(1, Math.abs(expected)),
          `${name}[${index}]: ${values[index]} for ${expected}`,
        );
      });
      optimizer.dispose();
      variable.dispose();
    });
  }

  const variants: readonly OptimizerSettings[] = [
    ...optimizerNames.map((name) => ({ name })),
    { name: "momentum", nesterov: true },
    { name: "rmsprop", centered: true, momentum: 0.5 },
  ];
  for (const settings of variants) {
    it(`${JSON.stringify(settings)} continues from its saved state with the same bits`, () => {
      const uninterrupted = tf.variable(tf.tensor1d(start));
      const straight = new Optimizer(tf, settings, [{ path: "0/0", variable: uninterrupted }]);
      steps(straight, uninterrupted, 3);
      const state = straight.state();
      const halfway = uninterrupted.dataSync().slice();
      steps(straight, uninterrupted, 4);
      const again = tf.variable(tf.tensor1d(halfway));
      const resumed = new Optimizer(tf, settings, [{ path: "0/0", variable: again }]);
      resumed.restore(structuredClone(state));
      steps(resumed, again, 4);
      assert.deepEqual(
        Buffer.from(again.dataSync().slice().buffer),
        Buffer.from(uninterrupted.dataSync().slice().buffer),
      );
      assert.equal(resumed.state().iterations, 7);
      if (settings.name !== "sgd") {
        const fresh = tf.variable(tf.tensor1d(halfway));
        const without = new Optimizer(tf, settings, [{ path: "0/0", variable: fresh }]);
        steps(without, fresh, 4);
        assert.notDeepEqual([...fresh.dataSync()], [...uninterrupted.dataSync()], "the state must matter");
        without.dispose();
        fresh.dispose();
      }
      straight.dispose();
      resumed.dispose();
      uninterrupted.dispose();
      again.dispose();
    });
  }

  it("keep Adam's products of its betas in their state", () => {
    const variable = tf.variable(tf.tensor1d(start));
    const optimizer = new Optimizer(tf, { name: "adam" }, [{ path: "0/0", variable }]);
    steps(optimizer, variable, 2);
    assert.deepEqual(optimizer.state().shared, { beta1Product: 0.9 * 0.9, beta2Product: 0.999 * 0.999 });
    optimizer.dispose();
    variable.dispose();
  });

  it("refuse the state of another optimiser", () => {
    const variable = tf.variable(tf.tensor1d(start));
    const adam = new Optimizer(tf, { name: "adam" }, [{ path: "0/0", variable }]);
    const state = adam.state();
    const refused = (error: unknown): boolean => isStemmaError(error, "RECIPE_PARAMETERS_INVALID");
    assert.throws(() => {
      adam.restore({ ...state, name: "sgd" });
    }, refused);
    assert.throws(() => {
      adam.restore({ ...state, slots: state.slots.slice(1) });
    }, refused);
    assert.throws(() => {
      adam.restore({
        ...state,
        slots: [...state.slots, { name: "first/9/9", shape: [1], values: new Float32Array(1) }],
      });
    }, refused);
    assert.throws(() => {
      adam.restore({
        ...state,
        slots: state.slots.map((slot) => ({ ...slot, values: new Float32Array(2) })),
      });
    }, refused);
    adam.dispose();
    variable.dispose();
  });

  it("reject adadelta and adamax with the reason, and unknown names", () => {
    for (const [name, reason] of [
      ["adadelta", /plain SGD/],
      ["Adamax", /cannot be read/],
      ["lion", /unknown/],
    ] as const) {
      assert.throws(
        () => checkOptimizerName(name),
        (error: unknown) => isStemmaError(error, "OPTIMIZER_REFUSED") && reason.test(error.message),
      );
    }
  });

  it("leak no tensors", () => {
    const before = tf.memory().numTensors;
    const variable = tf.variable(tf.tensor1d(start));
    for (const name of optimizerNames) {
      const optimizer = new Optimizer(tf, { name }, [{ path: "0/0", variable }]);
      steps(optimizer, variable, 3);
      optimizer.dispose();
    }
    tf.dispose([variable]);
    // The two sources that `variable` copied above are the test's own.
    assert.ok(tf.memory().numTensors - before <= 1, `${tf.memory().numTensors - before} tensors`);
  });
});
