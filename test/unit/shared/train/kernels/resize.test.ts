/** Resizing images: output as on the cpu backend, and gradients, which the cpu backend computes wrongly. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Tensor, Tensor4D } from "@tensorflow/tfjs";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { assertSameAsCpu, tensorOf, weighed } from "./compare-with-cpu.js";

let started: StartedBackend;
before(async () => {
  started = await startWasmBackend();
});
after(() => started.close());

for (const kind of ["nearest", "bilinear"] as const) {
  for (const [from, to] of [
    [
      [4, 3],
      [8, 9],
    ],
    [
      [7, 6],
      [14, 12],
    ],
    [
      [5, 7],
      [3, 4],
    ],
    [
      [4, 4],
      [4, 4],
    ],
    [
      [3, 5],
      [7, 11],
    ],
    [
      [1, 1],
      [3, 2],
    ],
  ] as const) {
    for (const [alignCorners, halfPixelCenters] of [
      [false, false],
      [true, false],
      [false, true],
    ] as const) {
      test(`${kind} from ${from.join("×")} to ${to.join("×")}${alignCorners ? ", corners aligned" : ""}${halfPixelCenters ? ", pixel centres" : ""}: image, and a gradient that changes it as it says`, async () => {
        const { tf } = started;
        const resize = (x: Tensor): Tensor =>
          (kind === "nearest" ? tf.image.resizeNearestNeighbor : tf.image.resizeBilinear)(
            x as Tensor4D,
            [...to],
            alignCorners,
            halfPixelCenters,
          );
        for (const channels of [5, 8]) {
          await assertSameAsCpu(tf, kind, () => resize(tensorOf(tf, [3, ...from, channels], 1)));
          // The image is linear in its source. The cpu backend cannot be the reference: it confuses the
          // images of a batch.
          tf.tidy(() => {
            const [x, other] = [
              tensorOf(tf, [3, ...from, channels], 1),
              tensorOf(tf, [3, ...from, channels], 2),
            ];
            const value = (v: Tensor): Tensor => weighed(tf, resize(v)).sum();
            const parts = tf.grad(value)(x).mul(other.sub(x));
            const changed = value(other).sub(value(x));
            assert.ok(
              parts.sum().sub(changed).abs().dataSync()[0]! <= 1e-5 * parts.abs().sum().dataSync()[0]!,
            );
          });
        }
      });
    }
  }
}
