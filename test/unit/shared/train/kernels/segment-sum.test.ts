/** Sums over segments, and the gradient of gathering, which is made of them. */
import { after, before, test } from "node:test";
import type { Tensor1D } from "@tensorflow/tfjs";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { assertSameAsCpu, tensorOf, weighed } from "./compare-with-cpu.js";

let started: StartedBackend;
before(async () => {
  started = await startWasmBackend();
});
after(() => started.close());

test("segments are summed, also repeated and missing ones", async () => {
  const { tf } = started;
  for (const rowShape of [[], [3], [8], [2, 5]]) {
    await assertSameAsCpu(tf, `rows [${rowShape.join()}]`, () =>
      tf.unsortedSegmentSum(tensorOf(tf, [6, ...rowShape], 1), tf.tensor1d([4, 0, 2, 2, 0, 4], "int32"), 6),
    );
  }
  await assertSameAsCpu(tf, "int32", () =>
    tf.unsortedSegmentSum(tf.tensor1d([1, 2, 3, 4], "int32"), tf.tensor1d([1, 0, 1, 1], "int32"), 2),
  );
});

test("gathering has a gradient over any axis and shape of indices", async () => {
  const { tf } = started;
  await assertSameAsCpu(tf, "rows", () =>
    tf.grad((x) => weighed(tf, tf.gather(x, tf.tensor1d([0, 2, 2, 1], "int32"))))(tensorOf(tf, [5, 6], 1)),
  );
  await assertSameAsCpu(tf, "columns", () =>
    tf.grad((x) => weighed(tf, tf.gather(x, tf.tensor1d([0, 2, 2, 1], "int32"), 1)))(tensorOf(tf, [5, 6], 1)),
  );
  await assertSameAsCpu(tf, "matrix of indices", () =>
    tf.grad((x) =>
      weighed(
        tf,
        tf.gather(
          x,
          tf.tensor2d(
            [
              [0, 2],
              [2, 1],
            ],
            [2, 2],
            "int32",
          ) as unknown as Tensor1D,
        ),
      ),
    )(tensorOf(tf, [5, 7], 1)),
  );
});
