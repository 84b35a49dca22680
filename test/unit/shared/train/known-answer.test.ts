/** The known answer: the same for every number of threads, another one where a machine does not compute exactly. */
import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { startWasmBackend } from "../../../../shared/train/backends/wasm.js";
import { fuseActivations } from "../../../../shared/train/backends/fused-layers.js";
import { builtInEngineFolder, expectedKnownAnswer } from "../../../../shared/train/engine-folder.js";
import { computeKnownAnswer } from "../../../../shared/train/engine-process.js";
import { knownAnswer } from "../../../../shared/train/known-answer.js";
import type { TensorFlow } from "../../../../shared/train/tensorflow.js";
import { trainInChild } from "../../../../shared/train/train-in-child.js";
import { jobFormat } from "../../../../shared/train/training.js";
import { drawn } from "../../../helpers/test-depth.js";

test("the engine computes its known answer, with every number of threads", async () => {
  const expected = await expectedKnownAnswer();
  assert.equal(await computeKnownAnswer(), expected, "run `node launcher/engine.mjs --accept`");
  for (const threads of drawn([1, 2, 4], 2)) {
    const { tf, close } = await startWasmBackend({ threads });
    assert.equal(await knownAnswer({ tf, fuseActivations }), expected, `${threads} threads`);
    assert.equal(tf.memory().numTensors, 0);
    close();
  }
});

/** The backend with something changed on the way in or out of one of its functions. */
function changed(tf: TensorFlow, name: "tensor" | "relu", change: (call: never) => unknown): TensorFlow {
  const own = { ...tf, [name]: change(tf[name] as never) };
  return own;
}
const mapped =
  (map: (value: number) => number) =>
  (make: (values: Float32Array, shape: number[]) => unknown) =>
  (values: Float32Array, shape: number[]): unknown =>
    make(values.map(map), shape);

test("it differs on a machine that flushes denormals, loses −0 or loses a NaN; NaN's own bits do not count", async () => {
  const { tf, close } = await startWasmBackend();
  const answer = (changedTf: TensorFlow): Promise<string> => knownAnswer({ tf: changedTf, fuseActivations });
  const expected = await answer(tf);
  const flush = mapped((value) => (Math.abs(value) < 2 ** -126 ? 0 : value));
  const losesSign = mapped((value) => (value === 0 ? 0 : value));
  assert.notEqual(await answer(changed(tf, "tensor", flush)), expected, "denormals");
  assert.notEqual(await answer(changed(tf, "tensor", losesSign)), expected, "−0");
  const losesNan = (relu: TensorFlow["relu"]) => (x: never) =>
    tf.tidy(() => relu(tf.where(tf.isNaN(x), tf.zerosLike(x), x)));
  assert.notEqual(await answer(changed(tf, "relu", losesNan)), expected, "NaN");
  const otherNan =
    (make: TensorFlow["tensor"]) =>
    (values: Float32Array, shape: number[]): unknown => {
      const bits = new Uint32Array(values.slice().buffer);
      values.forEach((value, index) => {
        if (Number.isNaN(value)) bits[index] = 0xffc00001;
      });
      return make(new Float32Array(bits.buffer), shape);
    };
  assert.equal(await answer(changed(tf, "tensor", otherNan as never)), expected, "bits of a NaN");
  close();
});

test("an engine trains nothing on a machine that gives another answer", async () => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-answer-"));
  try {
    const engineFolder = join(folder, "engine");
    await cp(builtInEngineFolder(), engineFolder, { recursive: true });
    const path = join(engineFolder, "engine.json");
    const manifest = JSON.parse(await readFile(path, "utf8")) as object;
    for (const knownAnswer of drawn(["0".repeat(64), undefined, 7, ["x"]], 1)) {
      await writeFile(path, JSON.stringify({ ...manifest, knownAnswer }));
      const training = trainInChild(
        {
          format: jobFormat,
          recipe: "battery-soh",
          parameters: { epochs: 1 },
          dataset: { reader: "battery-simulated", parameters: {} },
          seed: "1",
          invocation: 0,
        },
        { workFolder: join(folder, "work"), engineFolder },
      );
      await assert.rejects(training, { code: "MACHINE_INEXACT" });
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
