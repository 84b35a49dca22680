/**
 * Matrix products on wasm. Both of tfjs 4.22's kernels are replaced: they cache a packed right operand by
 * data id without its shape (a reshaped view gets the packing of the other view), multiply transposed
 * operands slowly, and add the bias wrongly to a fused transposed product.
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

/** With fewer rows than this the right operand is read in place: packing it would cost more. */
const rowsWorthPacking = 24;
/** Depth of a block when the left operand is transposed. */
const blockDepth = 256;

/** a [B…,M,K], b [B…,K,N] (or transposed) → [B…,M,N], batch dimensions broadcast. */
export function registerMatMul(registry: KernelRegistry): void {
  registry.kernel<{ a: TensorInfo; b: TensorInfo }, MatMulAttributes>(
    "BatchMatMul",
    ({ inputs: { a, b }, attrs }) => batchMatMul(registry, a, b, attrs),
  );
  registry.kernel<
    { a: TensorInfo; b: TensorInfo; bias?: TensorInfo; preluActivationWeights?: TensorInfo },
    FusedAttributes
  >("_FusedMatMul", ({ inputs, attrs }) => fusedMatMul(registry, inputs, attrs));
}

function batchMatMul(
  registry: KernelRegistry,
  a: TensorInfo,
  b: TensorInfo,
  { transposeA, transposeB }: MatMulAttributes,
): TensorInfo {
  if (a.dtype !== "float32" || b.dtype !== "float32")
    throw new StemmaError(
      "OPERATION_MISSING",
      `The wasm backend multiplies only float32 matrices, not ${a.dtype} by ${b.dtype}. Cast them first.`,
    );
  const { util, broadcast_util: broadcast } = registry.tf;
  const [outerA, outerB] = [a.shape.slice(0, -2), b.shape.slice(0, -2)];
  const [a0, a1] = a.shape.slice(-2) as [number, number];
  const [b0, b1] = b.shape.slice(-2) as [number, number];
  const [M, K] = transposeA ? [a1, a0] : [a0, a1];
  const [depthB, N] = transposeB ? [b1, b0] : [b0, b1];
  if (K !== depthB)
    throw new StemmaError(
      "SHAPE_INVALID",
      `[${a.shape.join(", ")}]${transposeA ? " transposed" : ""} cannot be multiplied by [${b.shape.join(", ")}]${transposeB ? " transposed" : ""}: the inner sizes ${K} and ${depthB} differ. Check the shapes of both operands.`,
    );
  const outer = broadcast.assertAndGetBroadcastShape(outerA, outerB);
  const out = registry.backend.makeOutput([...outer, M, N], "float32");
  const product = { M, N, K, transposeA, transposeB };
  const [pa, pb, pout] = [registry.pointer(a), registry.pointer(b), registry.pointer(out)];
  const batches = util.sizeFromShape(outer);
  const [indexA, indexB] = [batchIndex(outerA, outer), batchIndex(outerB, outer)];
  for (let i = 0; i < batches; i++)
    multiply(registry, pa + indexA(i) * M * K * 4, pb + indexB(i) * K * N * 4, pout + i * M * N * 4, product);
  return out;
}

/** Sizes of C [M,N] = A [M,K] · B [K,N]; a transposed operand is stored the other way round. */
interface Product {
  readonly M: number;
  readonly N: number;
  readonly K: number;
  readonly transposeA: boolean;
  readonly transposeB: boolean;
}

/** Multiplies float32 matrices by pointer: a, b and out are byte offsets. */
export function multiply(
  registry: KernelRegistry,
  a: number,
  b: number,
  out: number,
  { M, N, K, transposeA, transposeB }: Product,
): void {
  const { kernels } = registry;
  if (M === 0 || N === 0) return;
  if (K === 0) {
    kernels.zero(out, M * N * 4);
    return;
  }
  const strides: [number, number] = transposeB ? [1, K] : [N, 1];
  if (transposeA) {
    const depth = Math.min(K, blockDepth);
    const rowBytes = Math.ceil(M / 4) * depth * 16;
    const rows = registry.scratch(rowBytes + Math.ceil(N / 8) * depth * 32);
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
  const panels = registry.scratch(Math.ceil((N - inPlace) / 8) * K * 32);
  kernels.packPanels(b + inPlace * strides[1] * 4, panels, K, N - inPlace, ...strides);
  kernels.matMulRows(a, K, panels, out + inPlace * 4, N, M, N - inPlace, K);
}

/** Maps an index of the broadcast batch to the index of the operand's matrix. */
function batchIndex(own: readonly number[], broadcast: readonly number[]): (i: number) => number {
  const strides: number[] = [];
  let step = 1;
  for (let d = own.length - 1; d >= 0; d--) {
    strides.unshift(own[d] === 1 ? 0 : step);
    step *= own[d]!;
  }
  return (i) => {
    let remaining = i;
    let index = 0;
    for (let d = broadcast.length - 1; d >= 0; d--) {
      const size = broadcast[d]!;
      const position = remaining % size;
      remaining = (remaining - position) / size;
      index += position * (strides[d - (broadcast.length - own.length)] ?? 0);
    }
    return index;
  };
}

/** Computes product, bias and activation one after the other, each with a kernel that is correct. */
function fusedMatMul(
  registry: KernelRegistry,
  inputs: { a: TensorInfo; b: TensorInfo; bias?: TensorInfo; preluActivationWeights?: TensorInfo },
  attrs: FusedAttributes,
): TensorInfo {
  const out = batchMatMul(registry, inputs.a, inputs.b, attrs);
  if (!inputs.bias) return activate(registry, out, attrs, inputs.preluActivationWeights);
  const add = registry.stockKernel("Add")!;
  const biased = add({
    inputs: { a: out, b: inputs.bias },
    backend: registry.backend,
    attrs: {},
  }) as TensorInfo;
  registry.backend.disposeData(out.dataId);
  return activate(registry, biased, attrs, inputs.preluActivationWeights);
}
