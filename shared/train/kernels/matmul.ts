/**
 * Matrix products on wasm. Both of tfjs 4.22's kernels are replaced: they cache a packed right operand by
 * data id without its shape (a reshaped view gets the packing of the other view), multiply transposed
 * operands slowly, and add the bias wrongly to a fused transposed product.
 */
import { StemmaError } from "../../errors.js";
import { activate } from "./convolution-forward.js";
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";
import { multiply } from "./matrix-product.js";

interface MatMulAttributes {
  readonly transposeA: boolean;
  readonly transposeB: boolean;
}
interface FusedAttributes extends MatMulAttributes {
  readonly activation?: string;
  readonly leakyreluAlpha?: number;
}

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
