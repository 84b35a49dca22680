/**
 * LSTM and GRU over a complete sequence as one operation, with the gradient as another. tfjs records about
 * forty small operations per time step, whose bookkeeping costs ten times their arithmetic. The input's
 * contribution is one matrix product over all steps, and so are the gradients of all weights.
 */
import type { Tensor } from "@tensorflow/tfjs";
import type { KernelRegistry, TensorInfo, Tf } from "./kernel-registry.js";
import { multiply } from "./matrix-product.js";

export type RecurrentKind = "Lstm" | "Gru";
/** Activation of the gates: clip(0.2·x + 0.5, 0, 1), or the logistic function. States use tanh. */
export type GateActivation = "hardSigmoid" | "sigmoid";

interface Attributes {
  readonly gate: GateActivation;
}
interface RecurrentInputs {
  /** The inputs, [B,T,F]. */
  readonly x: Tensor;
  /** The kernel, [F,G·U]. */
  readonly kernel: Tensor;
  /** The recurrent kernel, [U,G·U]. */
  readonly recurrent: Tensor;
  /** The bias, [G·U]. */
  readonly bias: Tensor;
}
interface Inputs extends Record<string, TensorInfo> {
  x: TensorInfo;
  kernel: TensorInfo;
  recurrent: TensorInfo;
  bias: TensorInfo;
}

/**
 * Computes all states of a layer, starting from zeros. The gates are i, f, c, o (LSTM, G = 4) or z, r, h
 * (GRU, G = 3). Gradients flow to all four inputs.
 * @returns [B,T,U]
 */
export function recurrentStates(
  tf: Tf,
  kind: RecurrentKind,
  { x, kernel, recurrent, bias }: RecurrentInputs,
  gate: GateActivation,
): Tensor {
  const [states] = tf
    .engine()
    .runKernel(`Stemma${kind}`, { x, kernel, recurrent, bias }, { gate }) as unknown as Tensor[];
  return states!;
}

export function registerRecurrent(registry: KernelRegistry): void {
  for (const [kind, forward, backward] of [
    ["Lstm", lstm, lstmGradient],
    ["Gru", gru, gruGradient],
  ] as const) {
    const name = `Stemma${kind}`;
    const gradientName = `${name}Gradient`;
    registry.kernel<Inputs, Attributes>(name, ({ inputs, attrs }) =>
      forward(registry, inputs, attrs.gate === "hardSigmoid" ? 1 : 0),
    );
    registry.kernel<Inputs, Attributes>(gradientName, ({ inputs, attrs }) =>
      backward(registry, inputs as GradientInputs, attrs.gate === "hardSigmoid" ? 1 : 0),
    );
    registry.gradient({
      kernelName: name,
      inputsToSave: ["x", "kernel", "recurrent", "bias"],
      outputsToSave: kind === "Lstm" ? [true, true, true, true] : [true, true, true],
      gradFunc: (dys, saved, attrs) => {
        const [x, kernel, recurrent, bias, states, gates, first, second] = saved as [
          Tensor,
          Tensor,
          Tensor,
          Tensor,
          Tensor,
          Tensor,
          Tensor,
          Tensor?,
        ];
        const inputs = {
          x,
          kernel,
          recurrent,
          bias,
          states,
          gates,
          first,
          ...(second && { second }),
          dy: (dys as unknown as Tensor[])[0]!,
        };
        const [dx, dkernel, drecurrent, dbias] = registry.tf
          .engine()
          .runKernel(gradientName, inputs, attrs) as unknown as [Tensor, Tensor, Tensor, Tensor];
        return { x: () => dx, kernel: () => dkernel, recurrent: () => drecurrent, bias: () => dbias };
      },
    });
  }
}

interface Sizes {
  readonly B: number;
  readonly T: number;
  readonly F: number;
  readonly U: number;
  /** G·U: gates times units. */
  readonly GU: number;
  /** Bytes between samples of [B,T,U]. */
  readonly stateStep: number;
  /** Bytes between samples of [B,T,G·U]. */
  readonly inputStep: number;
}

function sizesOf({ x, recurrent }: Inputs): Sizes {
  const [B, T, F] = x.shape as [number, number, number];
  const [U, GU] = recurrent.shape as [number, number];
  return { B, T, F, U, GU, stateStep: T * U * 4, inputStep: T * GU * 4 };
}

/** Memory that one call of a kernel holds until it ends; `scratch` would be overwritten by the products. */
class Workspace {
  readonly #held: TensorInfo[] = [];
  constructor(private readonly registry: KernelRegistry) {}
  /** Allocates `count` float32 zeros; returns their byte offset. */
  zeros(count: number): number {
    const info = this.registry.backend.makeOutput([count], "float32");
    this.#held.push(info);
    const pointer = this.registry.pointer(info);
    this.registry.kernels.zero(pointer, count * 4);
    return pointer;
  }
  /** Packs the matrix B[k][n] at `src` into panels; strides in elements. Returns their byte offset. */
  panels(src: number, K: number, N: number, strideK: number, strideN: number): number {
    const pointer = this.zeros(Math.ceil(N / 8) * K * 8);
    this.registry.kernels.packPanels(src, pointer, K, N, strideK, strideN);
    return pointer;
  }
  free(): void {
    for (const info of this.#held) this.registry.backend.disposeData(info.dataId);
  }
}

/** Computes x·kernel + bias for all steps, [B,T,G·U]; returns the byte offset of the result. */
function inputContribution(
  registry: KernelRegistry,
  work: Workspace,
  inputs: Inputs,
  { B, T, F, GU }: Sizes,
): number {
  const out = work.zeros(B * T * GU);
  multiply(registry, registry.pointer(inputs.x), registry.pointer(inputs.kernel), out, {
    M: B * T,
    N: GU,
    K: F,
    transposeA: false,
    transposeB: false,
  });
  registry.kernels.addBias(out, registry.pointer(inputs.bias), B * T, GU);
  return out;
}

function lstm(registry: KernelRegistry, inputs: Inputs, hard: number): TensorInfo[] {
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

/**
 * The tensors that the forward pass kept: all states, the gates, and for an LSTM `first` = cells and `second`
 * = their tanh, for a GRU `first` = the states after the reset gate.
 */
interface GradientInputs extends Inputs {
  dy: TensorInfo;
  states: TensorInfo;
  gates: TensorInfo;
  first: TensorInfo;
  second: TensorInfo;
}

function lstmGradient(registry: KernelRegistry, inputs: GradientInputs, hard: number): TensorInfo[] {
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

/**
 * Allocates the gradients of x, kernel, recurrent and bias and computes all but that of `recurrent`, from
 * dz [B,T,G·U] (the gradient by the gates' sums).
 */
function weightGradients(
  registry: KernelRegistry,
  work: Workspace,
  { x, kernel, recurrent, bias }: Inputs,
  { B, T, F, GU }: Sizes,
  dz: number,
): [TensorInfo, TensorInfo, TensorInfo, TensorInfo] {
  const out = [x, kernel, recurrent, bias].map(({ shape }) =>
    registry.backend.makeOutput(shape, "float32"),
  ) as [TensorInfo, TensorInfo, TensorInfo, TensorInfo];
  multiply(registry, dz, registry.pointer(kernel), registry.pointer(out[0]), {
    M: B * T,
    N: F,
    K: GU,
    transposeA: false,
    transposeB: true,
  });
  multiply(registry, registry.pointer(x), dz, registry.pointer(out[1]), {
    M: F,
    N: GU,
    K: B * T,
    transposeA: true,
    transposeB: false,
  });
  registry.kernels.sumRows(dz, registry.pointer(out[3]), work.zeros(GU), 1, B * T, GU, 1);
  return out;
}

/** Copies the state before each step, [B,T,U]; returns the byte offset of the copy. */
function previousStates(
  registry: KernelRegistry,
  work: Workspace,
  { states }: GradientInputs,
  { B, T, U, stateStep }: Sizes,
): number {
  const out = work.zeros(B * T * U);
  const from = registry.pointer(states);
  const { HEAPU8 } = registry.backend.wasm;
  for (let b = 0; b < B; b++)
    HEAPU8.copyWithin(out + b * stateStep + U * 4, from + b * stateStep, from + (b + 1) * stateStep - U * 4);
  return out;
}

function gru(registry: KernelRegistry, inputs: Inputs, hard: number): TensorInfo[] {
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

function gruGradient(registry: KernelRegistry, inputs: GradientInputs, hard: number): TensorInfo[] {
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
