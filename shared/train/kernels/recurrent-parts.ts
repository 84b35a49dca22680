/** Parts of all recurrent layers: sizes, the memory of a call, and the products over all steps. */
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";
import { multiply } from "./matrix-product.js";

export interface RecurrentTensors extends Record<string, TensorInfo> {
  x: TensorInfo;
  kernel: TensorInfo;
  recurrent: TensorInfo;
  bias: TensorInfo;
}

/**
 * The tensors that the forward pass kept: all states, the gates, and for an LSTM `first` = cells and `second`
 * = their tanh, for a GRU `first` = the states after the reset gate, or the candidates' products before it.
 */
export interface GradientInputs extends RecurrentTensors {
  dy: TensorInfo;
  states: TensorInfo;
  gates: TensorInfo;
  first: TensorInfo;
  second: TensorInfo;
}

export interface Sizes {
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

export function sizesOf({ x, recurrent }: RecurrentTensors): Sizes {
  const [B, T, F] = x.shape as [number, number, number];
  const [U, GU] = recurrent.shape as [number, number];
  return { B, T, F, U, GU, stateStep: T * U * 4, inputStep: T * GU * 4 };
}

/** Memory that one call of a kernel holds until it ends; `scratch` would be overwritten by the products. */
export class Workspace {
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
export function inputContribution(
  registry: KernelRegistry,
  work: Workspace,
  inputs: RecurrentTensors,
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

/**
 * Allocates the gradients of x, kernel, recurrent and bias and computes all but that of `recurrent`, from
 * dz [B,T,G·U] (the gradient by the gates' sums).
 */
export function weightGradients(
  registry: KernelRegistry,
  work: Workspace,
  { x, kernel, recurrent, bias }: RecurrentTensors,
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
export function previousStates(
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
