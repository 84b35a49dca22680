/**
 * Every layer class that Stemma builds: output in training, gradients of input and weights, compared with the
 * cpu backend.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { allowedLayers } from "../../../../../shared/model/layer-catalog.js";
import { checkLayer } from "./check-layer.js";
import { layerCases, untestedLayers } from "./layer-cases.js";

let started: StartedBackend;

for (const fused of [true, false]) {
  describe(fused ? "fused" : "with only the kernels that tfjs lacks or gets wrong", () => {
    before(async () => {
      started = await startWasmBackend({ fused });
    });
    after(() => started.close());
    for (const each of layerCases)
      test(`${each.label}: output and gradients in training`, () =>
        checkLayer(started.tf, each, { countBuffers: fused }));
  });
}

test("no layer class that Stemma builds is left out", () => {
  const covered = new Set([...layerCases.flatMap(({ classes }) => classes), ...untestedLayers]);
  assert.deepEqual(
    allowedLayers.filter((name) => !covered.has(name)),
    [],
  );
});
