/** Compares one layer of a case with the cpu backend: output in training, gradients of input and weights. */
import type { LayersModel, SymbolicTensor, Tensor, Variable } from "@tensorflow/tfjs";
import type { Tf } from "../../../../../shared/train/kernels/kernel-registry.js";
import { assertSameAsCpu, numbers, tensorOf, weighed, type Comparison } from "../kernels/compare-with-cpu.js";
import type { LayerCase } from "./layer-cases.js";

function build(tf: Tf, { shape, make, inputs = 1 }: LayerCase): LayersModel {
  const symbols = Array.from({ length: inputs }, () => tf.input({ shape: shape as number[] }));
  return tf.model({
    inputs: symbols,
    outputs: make(tf).apply(inputs === 1 ? symbols[0]! : symbols) as SymbolicTensor,
  });
}

/** Asserts that output and gradients of a layer, in training, are those of the cpu backend. */
export async function checkLayer(tf: Tf, each: LayerCase, comparison: Comparison): Promise<void> {
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
  await assertSameAsCpu(tf, each.label, run, { within: 3e-5, ...comparison });
  model.dispose();
}
