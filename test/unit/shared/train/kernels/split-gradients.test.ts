/** The gradient of splitting a tensor. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { assertSameAsCpu, tensorOf, weighed } from "./compare-with-cpu.js";

let started: StartedBackend;
before(async () => {
  started = await startWasmBackend();
});
after(() => started.close());

test("the gradient of a split tensor is joined from those of its parts", async () => {
  const { tf } = started;
  for (const axis of [0, 1, 2]) {
    await assertSameAsCpu(tf, `unstack ${axis}`, () =>
      tf.grad((x) => weighed(tf, tf.addN(tf.unstack(x, axis).map((part, i) => part.mul(i + 1)))))(
        tensorOf(tf, [2, 3, 4], 1),
      ),
    );
    await assertSameAsCpu(tf, `split ${axis}`, () =>
      tf.grad((x) => weighed(tf, tf.split(x, [1, [2, 3, 4][axis]! - 1], axis)[1]!))(
        tensorOf(tf, [2, 3, 4], 1),
      ),
    );
  }
});

test("a split into one part has a gradient, too", () => {
  const { tf } = started;
  tf.tidy(() => {
    const x = tensorOf(tf, [1, 3], 1);
    assert.deepEqual(
      [
        ...tf
          .grad((v) => tf.unstack(v)[0]!.mul([1, 2, 3]))(x)
          .dataSync(),
      ],
      [1, 2, 3],
    );
    assert.deepEqual(
      [
        ...tf
          .grad((v) => tf.split(v, 1, 1)[0]!.mul([1, 2, 3]))(x)
          .dataSync(),
      ],
      [1, 2, 3],
    );
    const layer = tf.layers.lstm({ units: 2, activation: "relu" });
    assert.equal(
      tf
        .grad((v) => layer.apply(v) as typeof v)(tensorOf(tf, [2, 1, 3], 1))
        .shape.join(),
      "2,1,3",
    );
    layer.dispose();
  });
});
