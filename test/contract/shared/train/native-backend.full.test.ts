/** The backend contract and the gradient suite on a linked TensorFlow, fetched where it can be had. */
import assert from "node:assert/strict";
import { after, before, describe, it, test } from "node:test";
import { nativeFolder } from "../../../../agent/backend/link-file.js";
import { isStemmaError } from "../../../../shared/errors.js";
import type { StartedBackend } from "../../../../shared/train/backends/wasm.js";
import { startNativeBackend } from "../../../../shared/train/native/start-native.js";
import { linkedHome, nativeLibrary } from "../../../helpers/native-library.js";
import { checkLayer } from "../../../unit/shared/train/backends/check-layer.js";
import { layerCases } from "../../../unit/shared/train/backends/layer-cases.js";
import { relativeError, tensorOf, weighed } from "../../../unit/shared/train/kernels/compare-with-cpu.js";
import { backendContract } from "./backend-contract.js";

const library = await nativeLibrary();
const cleanups: (() => unknown)[] = [];
const folder =
  "folder" in library
    ? nativeFolder(
        (await linkedHome({ after: (undo) => void cleanups.push(undo as () => unknown) }, library.folder))
          .home,
      )
    : undefined;
after(async () => {
  for (const cleanup of cleanups) await cleanup();
});

/** TensorFlow.js's cpu backend divides by the complete window at borders, TensorFlow by what is in it. */
const differing = layerCases.filter(({ label }) => /^AveragePooling.* same/.test(label));

if (folder === undefined)
  test("native backend", { skip: "whyNot" in library && library.whyNot }, () => undefined);
else {
  backendContract("native", (memoryLimitMb) => startNativeBackend({ folder, memoryLimitMb }));

  describe("native", () => {
    let started: StartedBackend;
    before(async () => {
      started = await startNativeBackend({ folder });
    });
    after(() => {
      started.close();
    });

    for (const each of layerCases.filter((one) => !differing.includes(one)))
      it(`${each.label}: output and gradients in training`, () =>
        checkLayer(started.tf, each, { countBuffers: false, backend: "tensorflow" }));

    it("average pooling with padding has the gradient that differences of its output have", () => {
      const { tf } = started;
      const shape: [number, number, number, number] = [1, 5, 5, 1];
      const pool = (x: unknown): number =>
        tf.tidy(
          () =>
            weighed(tf, tf.avgPool(x as never, 3, 2, "same"))
              .sum()
              .dataSync()[0] as number,
        );
      const x = tensorOf(tf, shape, 3, [-1, 1]);
      const gradient = tf.tidy(() =>
        tf
          .grad((input) => weighed(tf, tf.avgPool(input as never, 3, 2, "same")).sum())(x)
          .dataSync()
          .slice(),
      );
      const step = 0.5;
      const values = x.dataSync<"float32">();
      const numeric = values.map((_, at) => {
        const moved = (by: number): number =>
          tf.tidy(() =>
            pool(
              tf.tensor(
                values.map((value, i) => (i === at ? value + by : value)),
                shape,
              ),
            ),
          );
        return (moved(step) - moved(-step)) / (2 * step);
      });
      x.dispose();
      assert.ok(relativeError(gradient, numeric) < 1e-5, String(relativeError(gradient, numeric)));
    });

    it("keeps the same tensors, here and in the library, over 50 steps of each optimizer's operations", () => {
      const { tf } = started;
      const library = tf.backend() as unknown as { getNumOfTFTensors(): number };
      const weights = tf.variable(tensorOf(tf, [8, 3], 1));
      const moments = tf.variable(tf.zeros([8, 3]), false);
      const step = (): void => {
        tf.tidy(() => {
          const x = tensorOf(tf, [4, 8], 2);
          const { grads } = tf.variableGrads(
            () =>
              tf
                .softmax(x.matMul(weights as never))
                .log()
                .mean(),
            [weights],
          );
          const gradient = grads[weights.name] as typeof weights;
          moments.assign(moments.mul(0.9).add(gradient.square()));
          weights.assign(weights.sub(gradient.div(moments.sqrt().add(1e-8)).mul(0.01)));
        });
      };
      step();
      const counts = (): readonly number[] => [tf.memory().numTensors, library.getNumOfTFTensors()];
      const first = counts();
      for (let i = 0; i < 50; i++) step();
      assert.deepEqual(counts(), first);
      tf.dispose([weights, moments]);
    });

    it("refuses by name what it cannot compute, differentiate or seed", () => {
      const { tf } = started;
      const refused = (operation: string) => (error: unknown) =>
        isStemmaError(error, "OPERATION_MISSING") &&
        error.message.includes(operation) &&
        error.details["operation"] === operation;
      assert.throws(() => tf.multinomial(tf.tensor1d([0.1, 0.9]), 3), refused("Multinomial"));
      assert.throws(
        () => tf.tidy(() => tf.maxPool(tf.zeros([1, 4, 4, 1]) as never, 2, 1, 1)),
        refused("MaxPool"),
      );
      assert.throws(
        () => tf.tidy(() => tf.grad((x) => tf.topk(x, 1).values)(tf.tensor1d([1, 2]))),
        refused("TopK"),
      );
    });
  });
}
