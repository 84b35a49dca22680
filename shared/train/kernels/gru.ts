/** A GRU whose reset gate multiplies the state before the product, over all steps, and its gradient. */
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

export function gru(registry: KernelRegistry, inputs: RecurrentTensors, hard: number): TensorInfo[] {
  const sizes = sizesOf(inputs);
  const { B, T, U, GU, stateStep, inputStep } = sizes;
  const { kernels, backend } = registry;
  const [states, gates, resets] = [
    [B, T, U],
    [T, B, GU],
    [B, T, U],
  ].map((shape) => backend.makeOutput(shape, "float32")) as [TensorInfo, TensorInfo, TensorInfo];
  const work = new Workspace(registry);
  const fromInput = inputContribution(registry, work, inputs, sizes);
  const fromState = work.zeros(B * 2 * U);
  const fromReset = work.zeros(B * U);
  const start = work.zeros(B * T * U);
  const recurrent = registry.pointer(inputs.recurrent);
  const toGates = work.panels(recurrent, U, 2 * U, GU, 1);
  const toCandidate = work.panels(recurrent + 2 * U * 4, U, U, GU, 1);
  const [h, g, r] = [states, gates, resets].map((info) => registry.pointer(info)) as [number, number, number];
  for (let t = 0; t < T; t++) {
    const before = t === 0 ? start : h + (t - 1) * U * 4;
    const reset = r + t * U * 4;
    const now = fromInput + t * GU * 4;
    if (t > 0) kernels.matMulRows(before, T * U, toGates, fromState, 2 * U, B, 2 * U, U);
    kernels.gruGates(now, inputStep, fromState, before, stateStep, g + t * B * GU * 4, reset, B, U, hard);
    if (t > 0) kernels.matMulRows(reset, T * U, toCandidate, fromReset, U, B, U, U);
    kernels.gruStep(now, inputStep, fromReset, before, h + t * U * 4, stateStep, g + t * B * GU * 4, B, U);
  }
  work.free();
  return [states, gates, resets];
}

export function gruGradient(registry: KernelRegistry, inputs: GradientInputs, hard: number): TensorInfo[] {
  const sizes = sizesOf(inputs);
  const { B, T, U, GU, stateStep, inputStep } = sizes;
  const { kernels } = registry;
  const work = new Workspace(registry);
  const dz = work.zeros(B * T * GU);
  const dhNext = work.zeros(B * U);
  const dReset = work.zeros(B * U);
  const byGates = work.zeros(B * U);
  const recurrent = registry.pointer(inputs.recurrent);
  const previous = previousStates(registry, work, inputs, sizes);
  const fromGates = work.panels(recurrent, 2 * U, U, 1, GU);
  const fromCandidate = work.panels(recurrent + 2 * U * 4, U, U, 1, GU);
  const [dy, gates, resets] = [inputs.dy, inputs.gates, inputs.first].map((info) =>
    registry.pointer(info),
  ) as [number, number, number];
  for (let t = T - 1; t >= 0; t--) {
    const before = previous + t * U * 4;
    const now = dz + t * GU * 4;
    const g = gates + t * B * GU * 4;
    kernels.gruStepGradient(dy + t * U * 4, stateStep, dhNext, before, g, now, inputStep, B, U, hard);
    kernels.matMulRows(now + 2 * U * 4, T * GU, fromCandidate, dReset, U, B, U, U);
    kernels.gruGatesGradient(dReset, before, stateStep, g, now, inputStep, dhNext, B, U, hard);
    if (t === 0) break;
    kernels.matMulRows(now, T * GU, fromGates, byGates, U, B, U, 2 * U);
    kernels.addBias(dhNext, byGates, 1, B * U);
  }
  const out = weightGradients(registry, work, inputs, sizes, dz);
  // The gates z and r multiply the previous state, the candidate the reset state: two products over all
  // columns, from which each part of the columns is copied.
  const products = work.zeros(2 * U * GU);
  multiply(registry, previous, dz, products, { M: U, N: GU, K: B * T, transposeA: true, transposeB: false });
  multiply(registry, resets, dz, products + U * GU * 4, {
    M: U,
    N: GU,
    K: B * T,
    transposeA: true,
    transposeB: false,
  });
  const { HEAPU8 } = registry.backend.wasm;
  const to = registry.pointer(out[2]);
  for (let u = 0; u < U; u++) {
    const row = u * GU * 4;
    const split = 2 * U * 4;
    HEAPU8.copyWithin(to + row, products + row, products + row + split);
    HEAPU8.copyWithin(
      to + row + split,
      products + U * GU * 4 + row + split,
      products + U * GU * 4 + row + GU * 4,
    );
  }
  work.free();
  return out;
}
