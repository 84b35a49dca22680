/** An LSTM over all steps, and its gradient. */
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

export function lstm(registry: KernelRegistry, inputs: RecurrentTensors, hard: number): TensorInfo[] {
  const sizes = sizesOf(inputs);
  const { B, T, U, GU, stateStep, inputStep } = sizes;
  const { kernels, backend } = registry;
  const [states, gates, cells, cellTanhs] = [
    [B, T, U],
    [T, B, GU],
    [T, B, U],
    [T, B, U],
  ].map((shape) => backend.makeOutput(shape, "float32")) as [TensorInfo, TensorInfo, TensorInfo, TensorInfo];
  const work = new Workspace(registry);
  const fromInput = inputContribution(registry, work, inputs, sizes);
  const fromState = work.zeros(B * GU);
  const start = work.zeros(B * U);
  const panels = work.panels(registry.pointer(inputs.recurrent), U, GU, GU, 1);
  const [h, g, c, tanh] = [states, gates, cells, cellTanhs].map((info) => registry.pointer(info)) as [
    number,
    number,
    number,
    number,
  ];
  for (let t = 0; t < T; t++) {
    if (t > 0) kernels.matMulRows(h + (t - 1) * U * 4, T * U, panels, fromState, GU, B, GU, U);
    const cell = t === 0 ? start : c + (t - 1) * B * U * 4;
    kernels.lstmStep(
      fromInput + t * GU * 4,
      inputStep,
      fromState,
      cell,
      g + t * B * GU * 4,
      c + t * B * U * 4,
      tanh + t * B * U * 4,
      h + t * U * 4,
      stateStep,
      B,
      U,
      hard,
    );
  }
  work.free();
  return [states, gates, cells, cellTanhs];
}

export function lstmGradient(registry: KernelRegistry, inputs: GradientInputs, hard: number): TensorInfo[] {
  const sizes = sizesOf(inputs);
  const { B, T, U, GU, stateStep, inputStep } = sizes;
  const { kernels } = registry;
  const work = new Workspace(registry);
  const dz = work.zeros(B * T * GU);
  const dhNext = work.zeros(B * U);
  const dc = work.zeros(B * U);
  const start = work.zeros(B * U);
  const panels = work.panels(registry.pointer(inputs.recurrent), GU, U, 1, GU);
  const [dy, gates, cells, tanhs] = [inputs.dy, inputs.gates, inputs.first, inputs.second].map((info) =>
    registry.pointer(info),
  ) as [number, number, number, number];
  for (let t = T - 1; t >= 0; t--) {
    const cell = t === 0 ? start : cells + (t - 1) * B * U * 4;
    kernels.lstmStepGradient(
      dy + t * U * 4,
      stateStep,
      dhNext,
      dc,
      gates + t * B * GU * 4,
      cell,
      tanhs + t * B * U * 4,
      dz + t * GU * 4,
      inputStep,
      B,
      U,
      hard,
    );
    if (t > 0) kernels.matMulRows(dz + t * GU * 4, T * GU, panels, dhNext, U, B, U, GU);
  }
  const out = weightGradients(registry, work, inputs, sizes, dz);
  multiply(registry, previousStates(registry, work, inputs, sizes), dz, registry.pointer(out[2]), {
    M: U,
    N: GU,
    K: B * T,
    transposeA: true,
    transposeB: false,
  });
  work.free();
  return out;
}
