/** The layers themselves are compared with the cpu backend in backends/layer-gradients.slow.test. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { recurrentStates, type RecurrentKind } from "../../../../../shared/train/kernels/recurrent.js";
import { numbers, tensorOf, weighed } from "./compare-with-cpu.js";

let started: StartedBackend;
before(async () => {
  started = await startWasmBackend();
});
after(() => started.close());

const kinds = ["Lstm", "Gru", "GruResetAfter"] as const;
const biasOf = (kind: RecurrentKind, GU: number): number[] => (kind === "GruResetAfter" ? [2, GU] : [GU]);
const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

/** One unit whose gates see one feature each: the state is a formula of the input. */
function oneUnit(kind: RecurrentKind, features: Float32Array): Float32Array {
  const { tf } = started;
  const gates = kind === "Lstm" ? 4 : 3;
  return tf.tidy(() =>
    recurrentStates(
      tf,
      kind,
      {
        x: tf.tensor(features, [features.length / gates, 1, gates]),
        kernel: tf.eye(gates),
        recurrent: tf.zeros([1, gates]),
        bias: tf.zeros(kind === "GruResetAfter" ? [2, gates] : [gates]),
      },
      "sigmoid",
    ).dataSync<"float32">(),
  );
}

test("gates are as exact as float32 allows, from tiny numbers to saturation", () => {
  for (const range of [1e-6, 0.5, 3, 30, 200]) {
    const x = numbers(4 * 500, 1, -range, range);
    oneUnit("Lstm", x).forEach((h, i) => {
      const [zi, , zc, zo] = x.subarray(i * 4) as unknown as [number, number, number, number];
      const expected = sigmoid(zo) * Math.tanh(sigmoid(zi) * Math.tanh(zc));
      assert.ok(Math.abs(h - expected) <= 1e-6 * Math.abs(expected) + 1e-37, `${h} for ${expected}`);
    });
    for (const kind of ["Gru", "GruResetAfter"] as const)
      oneUnit(kind, x.subarray(0, 1500)).forEach((h, i) => {
        const [zz, , zh] = x.subarray(i * 3) as unknown as [number, number, number];
        const expected = (1 - sigmoid(zz)) * Math.tanh(zh);
        assert.ok(Math.abs(h - expected) <= 1e-6 * Math.abs(Math.tanh(zh)), `${h} for ${expected}`);
      });
  }
});

test("large numbers saturate, a NaN is kept and affects only its own sample", () => {
  const at = (...gates: number[]): number => oneUnit("Lstm", Float32Array.from(gates))[0]!;
  assert.ok(Math.abs(at(1e30, 0, 1e30, 1e30) - Math.tanh(1)) < 1e-6);
  assert.ok(Math.abs(at(-1e30, 0, 1e30, 1e30)) < 1e-30);
  for (const gates of [
    [NaN, 0, 1, 1],
    [1, 0, NaN, 1],
    [1, 0, 1, NaN],
  ])
    assert.ok(Number.isNaN(at(...gates)));
  const { tf } = started;
  tf.tidy(() => {
    for (const kind of kinds)
      for (const gate of ["sigmoid", "hardSigmoid"] as const) {
        const GU = kind === "Lstm" ? 20 : 15;
        const x = numbers(3 * 4 * 2, 1);
        x[10] = NaN; // second sample, second step
        const states = recurrentStates(
          tf,
          kind,
          {
            x: tf.tensor(x, [3, 4, 2]),
            kernel: tensorOf(tf, [2, GU], 2),
            recurrent: tensorOf(tf, [5, GU], 3),
            bias: tensorOf(tf, biasOf(kind, GU), 4),
          },
          gate,
        ).dataSync();
        assert.deepEqual(
          [...states]
            .map((value, i) => (Number.isNaN(value) ? Math.floor(i / 5) : -1))
            .filter((row) => row >= 0),
          [5, 6, 7].flatMap((row) => [row, row, row, row, row]),
          `${kind} ${gate}`,
        );
      }
  });
});

test("forward and backward passes leak no tensors", () => {
  const { tf } = started;
  const held = [started.allocatedBytes(), tf.memory().numTensors, tf.memory().numDataBuffers];
  for (let i = 0; i < 3; i++)
    tf.tidy(() => {
      for (const kind of kinds) {
        const GU = kind === "Lstm" ? 12 : 9;
        tf.grads((x, kernel, recurrent, bias) =>
          weighed(
            tf,
            recurrentStates(tf, kind, { x: x, kernel: kernel, recurrent: recurrent, bias: bias }, "sigmoid"),
          ),
        )([
          tensorOf(tf, [2, 5, 2], 1),
          tensorOf(tf, [2, GU], 2),
          tensorOf(tf, [3, GU], 3),
          tensorOf(tf, biasOf(kind, GU), 4),
        ]);
      }
    });
  const scratchBytes = 4096;
  assert.deepEqual([tf.memory().numTensors, tf.memory().numDataBuffers], held.slice(1));
  assert.ok(started.allocatedBytes() <= held[0]! + scratchBytes);
});
