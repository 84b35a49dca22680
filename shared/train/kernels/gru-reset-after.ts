/**
 * A GRU whose reset gate multiplies the state's product with the recurrent kernel, as PyTorch and cuDNN have it, over
 * all steps, and its gradient. Its bias is [2,3·U]: the first row is added to the input's product, the second to the
 * state's.
 */
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";
import { multiply } from "./matrix-product.js";
import {
  inputContribution,
  previousStates,
  sizesOf,
  weightGradients,
  Workspace,
  type GradientInputs,
  type RecurrentTensors,
} from "./recurrent-parts.js";

export function gruResetAfter(
  registry: KernelRegistry,
  inputs: RecurrentTensors,
  hard: number,
): TensorInfo[] {
  const sizes = sizesOf(inputs);
  const { B, T, U, GU, stateStep, inputStep } = sizes;
  const { kernels, backend } = registry;
  const [states, gates, products] = [
    [B, T, U],
    [T, B, GU],
    [T, B, U],
  ].map((shape) => backend.makeOutput(shape, "float32")) as [TensorInfo, TensorInfo, TensorInfo];
  const work = new Workspace(registry);
  const fromInput = inputContribution(registry, work, inputs, sizes);
  const fromState = work.zeros(B * GU);
  const start = work.zeros(B * T * U);
  const panels = work.panels(registry.pointer(inputs.recurrent), U, GU, GU, 1);
  const stateBias = registry.pointer(inputs.bias) + GU * 4;
  const [h, g, p] = [states, gates, products].map((info) => registry.pointer(info)) as [
    number,
    number,
    number,
  ];
  for (let t = 0; t < T; t++) {
    const before = t === 0 ? start : h + (t - 1) * U * 4;
    if (t > 0) kernels.matMulRows(before, T * U, panels, fromState, GU, B, GU, U);
    kernels.addBias(fromState, stateBias, B, GU);
    kernels.gruResetAfterStep(
      fromInput + t * GU * 4,
      inputStep,
      fromState,
      before,
      h + t * U * 4,
      stateStep,
      g + t * B * GU * 4,
      p + t * B * U * 4,
      B,
      U,
      hard,
    );
  }
  work.free();
  return [states, gates, products];
}

export function gruResetAfterGradient(
  registry: KernelRegistry,
  inputs: GradientInputs,
  hard: number,
): TensorInfo[] {
  const sizes = sizesOf(inputs);
  const { B, T, U, GU, stateStep, inputStep } = sizes;
  const { kernels } = registry;
  const work = new Workspace(registry);
  // The gradients by the sums of the gates: those of the input's product and those of the state's.
  const dz = work.zeros(B * T * GU);
  const dState = work.zeros(B * T * GU);
  const dhNext = work.zeros(B * U);
  const byGates = work.zeros(B * U);
  const previous = previousStates(registry, work, inputs, sizes);
  const panels = work.panels(registry.pointer(inputs.recurrent), GU, U, 1, GU);
  const [dy, gates, products] = [inputs.dy, inputs.gates, inputs.first].map((info) =>
    registry.pointer(info),
  ) as [number, number, number];
  for (let t = T - 1; t >= 0; t--) {
    kernels.gruResetAfterStepGradient(
      dy + t * U * 4,
      stateStep,
      dhNext,
      previous + t * U * 4,
      gates + t * B * GU * 4,
      products + t * B * U * 4,
      dz + t * GU * 4,
      dState + t * GU * 4,
      inputStep,
      B,
      U,
      hard,
    );
    if (t === 0) break;
    kernels.matMulRows(dState + t * GU * 4, T * GU, panels, byGates, U, B, U, GU);
    kernels.addBias(dhNext, byGates, 1, B * U);
  }
  const out = weightGradients(registry, work, inputs, sizes, dz);
  kernels.sumRows(dState, registry.pointer(out[3]) + GU * 4, work.zeros(GU), 1, B * T, GU, 1);
  multiply(registry, previous, dState, registry.pointer(out[2]), {
    M: U,
    N: GU,
    K: B * T,
    transposeA: true,
    transposeB: false,
  });
  work.free();
  return out;
}
