/**
 * Matrix products on wasm. tfjs 4.22 keeps a packed right operand by data id without its shape (a
 * reshaped view gets the other view's packing), multiplies transposed operands slowly, and adds the
 * bias wrongly when it fuses a transposed product; so both product kernels are replaced.
 */
import { StemmaError } from "../../errors.js";
import { activate } from "./convolution-forward.js";
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";

interface MatMulAttributes {
  readonly transposeA: boolean;
  readonly transposeB: boolean;
}
interface FusedAttributes extends MatMulAttributes {
  readonly activation?: string;
  readonly leakyreluAlpha?: number;
}

/** Fewer rows than this are multiplied with the right operand where it lies: packing would cost more. */
const rowsWorthPacking = 24;
/** Depth of a block when the left operand is transposed. */
const blockDepth = 256;

/** a [B…,M,K], b [B…,K,N] (or transposed) → [B…,M,N], batch dimensions broadcast. */
export function registerMatMul(room: KernelRegistry): void {
  room.kernel<{ a: TensorInfo; b: TensorInfo }, MatMulAttributes>(
    "BatchMatMul",
    ({ inputs: { a, b }, attrs }) => batchMatMul(room, a, b, attrs),
  );
  room.kernel<
    { a: TensorInfo; b: TensorInfo; bias?: TensorInfo; preluActivationWeights?: TensorInfo },
    FusedAttributes
  >("_FusedMatMul", ({ inputs, attrs }) => fusedMatMul(room, inputs, attrs));
}

function batchMatMul(
  room: KernelRegistry,
  a: TensorInfo,
  b: TensorInfo,
  { transposeA, transposeB }: MatMulAttributes,
): TensorInfo {
  if (a.dtype !== "float32" || b.dtype !== "float32")
    throw new StemmaError(
      "OPERATION_MISSING",
      `the wasm backend multiplies float32 matrices only, not ${a.dtype} by ${b.dtype}: cast them first`,
    );
  const { util, broadcast_util: broadcast } = room.tf;
  const [outerA, outerB] = [a.shape.slice(0, -2), b.shape.slice(0, -2)];
  const [a0, a1] = a.shape.slice(-2) as [number, number];
  const [b0, b1] = b.shape.slice(-2) as [number, number];
  const [M, K] = transposeA ? [a1, a0] : [a0, a1];
  const [depthB, N] = transposeB ? [b1, b0] : [b0, b1];
  if (K !== depthB)
    throw new StemmaError(
      "SHAPE_INVALID",
      `cannot multiply [${a.shape.join(", ")}]${transposeA ? " transposed" : ""} by [${b.shape.join(", ")}]${transposeB ? " transposed" : ""}: inner sizes ${K} and ${depthB} differ`,
    );
  const outer = broadcast.assertAndGetBroadcastShape(outerA, outerB);
  const out = room.backend.makeOutput([...outer, M, N], "float32");
  const product = { M, N, K, transposeA, transposeB };
  const [pa, pb, pout] = [room.pointer(a), room.pointer(b), room.pointer(out)];
  const batches = util.sizeFromShape(outer);
  const [indexA, indexB] = [batchIndex(outerA, outer), batchIndex(outerB, outer)];
  for (let i = 0; i < batches; i++)
    multiply(room, pa + indexA(i) * M * K * 4, pb + indexB(i) * K * N * 4, pout + i * M * N * 4, product);
  return out;
}

export interface Product {
  readonly M: number;
  readonly N: number;
  readonly K: number;
  readonly transposeA: boolean;
  readonly transposeB: boolean;
}

export function multiply(
  room: KernelRegistry,
  a: number,
  b: number,
  out: number,
  { M, N, K, transposeA, transposeB }: Product,
): void {
  const { kernels } = room;
  if (M === 0 || N === 0) return;
  if (K === 0) {
    kernels.zero(out, M * N * 4);
    return;
  }
  const strides: [number, number] = transposeB ? [1, K] : [N, 1];
  if (transposeA) {
    const depth = Math.min(K, blockDepth);
    const rowBytes = Math.ceil(M / 4) * depth * 16;
    const rows = room.scratch(rowBytes + Math.ceil(N / 8) * depth * 32);
    const panels = rows + rowBytes;
    for (let k = 0; k < K; k += blockDepth) {
      const count = Math.min(blockDepth, K - k);
      kernels.packRows(a + k * M * 4, rows, count, M, M);
      kernels.packPanels(b + k * strides[0] * 4, panels, count, N, ...strides);
      kernels.matMulPacked(rows, panels, out, N, M, N, count, k > 0 ? 1 : 0);
    }
    return;
  }
  const inPlace = transposeB || M >= rowsWorthPacking ? 0 : N - (N % 8);
  if (inPlace > 0) kernels.matMulInPlace(a, K, b, N, out, N, M, inPlace, K);
  if (inPlace === N) return;
  const panels = room.scratch(Math.ceil((N - inPlace) / 8) * K * 32);
  kernels.packPanels(b + inPlace * strides[1] * 4, panels, K, N - inPlace, ...strides);
  kernels.matMulRows(a, K, panels, out + inPlace * 4, N, M, N - inPlace, K);
}

/** Which matrix of an operand belongs to the i-th of the broadcast batch. */
function batchIndex(own: readonly number[], broadcast: readonly number[]): (i: number) => number {
  const strides: number[] = [];
  let step = 1;
  for (let d = own.length - 1; d >= 0; d--) {
    strides.unshift(own[d] === 1 ? 0 : step);
    step *= own[d]!;
  }
  return (i) => {
    let rest = i;
    let index = 0;
    for (let d = broadcast.length - 1; d >= 0; d--) {
      const size = broadcast[d]!;
      const at = rest % size;
      rest = (rest - at) / size;
      index += at * (strides[d - (broadcast.length - own.length)] ?? 0);
    }
    return index;
  };
}

/** Product, bias and activation one after the other, with the kernels that do each right. */
function fusedMatMul(
  room: KernelRegistry,
  inputs: { a: TensorInfo; b: TensorInfo; bias?: TensorInfo; preluActivationWeights?: TensorInfo },
  attrs: FusedAttributes,
): TensorInfo {
  const out = batchMatMul(room, inputs.a, inputs.b, attrs);
  if (!inputs.bias) return activate(room, out, attrs, inputs.preluActivationWeights);
  const add = room.stockKernel("Add")!;
  const biased = add({ inputs: { a: out, b: inputs.bias }, backend: room.backend, attrs: {} }) as TensorInfo;
  room.backend.disposeData(out.dataId);
  return activate(room, biased, attrs, inputs.preluActivationWeights);
}
