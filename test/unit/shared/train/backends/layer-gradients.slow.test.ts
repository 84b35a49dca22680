/**
 * Every layer class that Stemma builds: output in training, gradients of input and weights, compared with the
 * cpu backend.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { LayersModel, SymbolicTensor, Tensor, Variable } from "@tensorflow/tfjs";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import type { Tf } from "../../../../../shared/train/kernels/kernel-registry.js";
import { allowedLayers } from "../../../../../shared/model/layer-catalog.js";
import { assertSameAsCpu, numbers, tensorOf, weighed } from "../kernels/compare-with-cpu.js";
import { layerCases, untestedLayers, type LayerCase } from "./layer-cases.js";

let started: StartedBackend;

function build(tf: Tf, { shape, make, inputs = 1 }: LayerCase): LayersModel {
  const symbols = Array.from({ length: inputs }, () => tf.input({ shape: shape as number[] }));
  return tf.model({
    inputs: symbols,
    outputs: make(tf).apply(inputs === 1 ? symbols[0]! : symbols) as SymbolicTensor,
  });
}

async function checkLayer(each: LayerCase, fused: boolean): Promise<void> {
  const { tf } = started;
  const model = build(tf, each);
  model.setWeights(model.getWeights().map((weight, i) => tensorOf(tf, weight.shape, 20 + i, [0.1, 0.9])));
  const run = (): Tensor[] => {
    const count = each.shape.reduce((a, b) => a * b, 3);
    const xs = Array.from({ length: each.inputs ?? 1 }, (_, i): Tensor =>
      each.indices
        ? tf.tensor(Int32Array.from(numbers(count, 5, 0, each.indices)), [3, ...each.shape], "int32")
        : tensorOf(tf, [3, ...each.shape], 5 + i, [-3, 3]),
    );
    const forward = (...inputs: Tensor[]): Tensor =>
      model.apply(inputs.length === 1 ? inputs[0]! : inputs, { training: true }) as Tensor;
    const before = model.getWeights().map((weight) => weight.clone());
    const y = forward(...xs);
    const moved = model.nonTrainableWeights.map((weight) => weight.read().clone());
    const variables = model.trainableWeights.map((weight) => weight.read() as Variable);
    const { grads } =
      variables.length === 0
        ? { grads: {} as Record<string, Tensor> }
        : tf.variableGrads(() => weighed(tf, forward(...xs)).sum(), variables);
    const inputGradients = each.indices ? [] : tf.grads((...inputs) => weighed(tf, forward(...inputs)))(xs);
    model.setWeights(before);
    return [y, ...moved, ...inputGradients, ...variables.map((variable) => grads[variable.name]!)];
  };
  await assertSameAsCpu(tf, each.label, run, { within: 3e-5, countBuffers: fused });
  model.dispose();
}

for (const fused of [true, false]) {
  describe(fused ? "fused" : "with only the kernels that tfjs lacks or gets wrong", () => {
    before(async () => {
      started = await startWasmBackend({ fused });
    });
    after(() => started.close());
    for (const each of layerCases)
      test(`${each.label}: output and gradients in training`, () => checkLayer(each, fused));
  });
}

test("no layer class that Stemma builds is left out", () => {
  const covered = new Set([...layerCases.flatMap(({ classes }) => classes), ...untestedLayers]);
  assert.deepEqual(
    allowedLayers.filter((name) => !covered.has(name)),
    [],
  );
});
