/**
 * Products of float32 matrices by pointer, cut into parts for all threads. Every element of a product is one sum in
 * the order of k (assembly/matmul.ts), so the cuts do not matter to the bits. Pointers are byte offsets.
 */
import type { KernelRegistry } from "./kernel-registry.js";

/** Rows of k, or positions of a convolution, in a block: BLOCK in assembly/matmul.ts. */
export const blockDepth = 256;
/** The number of rows below which the right operand is read in place: packing it would cost more. */
const rowsWorthPacking = 24;
/** Rows that are multiplied with all panels before the next ones: ROWS in assembly/matmul.ts. */
export const rowsPerTile = 64;

/** Sizes of C [M,N] = A [M,K] · B [K,N]. */
export interface ProductSizes {
  readonly M: number;
  readonly N: number;
  readonly K: number;
}
/** A transposed operand is stored the other way round. */
export interface Product extends ProductSizes {
  readonly transposeA: boolean;
  readonly transposeB: boolean;
}
type Strides = readonly [k: number, n: number];

/** out = a · b. */
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
  const strides: Strides = transposeB ? [1, K] : [N, 1];
  if (transposeA) {
    multiplyTransposed(registry, { a, b, out }, { M, N, K, strides });
    return;
  }
  const inPlace = transposeB || M >= rowsWorthPacking ? 0 : N - (N % 8);
  if (inPlace > 0)
    registry.run(
      "matMulInPlace",
      registry
        .cut(inPlace, { multipleOf: 8, work: M * K })
        .map(([n, columns]) => [a, K, b + n * 4, N, out + n * 4, N, M, columns, K]),
    );
  if (inPlace === N) return;
  const panels = registry.scratch(panelBytes(N - inPlace, K));
  packPanels(registry, { pointer: b + inPlace * strides[1] * 4, K, N: N - inPlace, strides }, panels);
  multiplyRows(registry, { a, panels, out: out + inPlace * 4 }, { M, N: N - inPlace, K }, N);
}

function multiplyTransposed(
  registry: KernelRegistry,
  { a, b, out }: { readonly a: number; readonly b: number; readonly out: number },
  { M, N, K, strides }: ProductSizes & { readonly strides: Strides },
): void {
  registry.run(
    "matMulTransposed",
    cutProduct(registry, { M, N, K }).map(([m, rows, n, columns]) => [
      ...[a + m * 4, M, b + n * strides[1] * 4, ...strides],
      ...[out + (m * N + n) * 4, N, rows, columns, K],
    ]),
    registry.scratchForThreads(
      0,
      Math.min(K, blockDepth) * 4 * (Math.ceil(M / 4) * 4 + Math.ceil(N / 8) * 8),
    ),
  );
}

/**
 * Cuts a product that sums over blocks of k into ranges of rows or of columns, whichever are more: every part packs
 * the other operand again.
 */
export function cutProduct(
  registry: KernelRegistry,
  { M, N, K }: ProductSizes,
): [m: number, rows: number, n: number, columns: number][] {
  const most = registry.threads;
  return M >= N
    ? registry.cut(M, { multipleOf: 4, work: N * K, most }).map(([m, rows]) => [m, rows, 0, N])
    : registry.cut(N, { multipleOf: 8, work: M * K, most }).map(([n, columns]) => [0, M, n, columns]);
}

/** Bytes of a packed matrix of `columns` columns and `depth` rows. */
export const panelBytes = (columns: number, depth: number): number => Math.ceil(columns / 8) * depth * 32;

/** Packs B [K,N], whose strides are given in elements, into panels of eight columns. */
export function packPanels(
  registry: KernelRegistry,
  {
    pointer,
    K,
    N,
    strides,
  }: { readonly pointer: number; readonly K: number; readonly N: number; readonly strides: Strides },
  panels: number,
): void {
  registry.run(
    "packPanels",
    registry
      .cut(N, { multipleOf: 8, work: K * packingWork })
      .map(([n, columns]) => [
        pointer + n * strides[1] * 4,
        panels + panelBytes(n, K),
        K,
        columns,
        ...strides,
      ]),
  );
}
/** The cost of packing one element, in multiplications. */
const packingWork = 8;

/** out = a · panels; rows of a are contiguous, those of out `rowStride` elements apart. */
export function multiplyRows(
  registry: KernelRegistry,
  { a, panels, out }: { readonly a: number; readonly panels: number; readonly out: number },
  { M, N, K }: ProductSizes,
  rowStride = N,
): void {
  const byRows = registry.cut(M, { multipleOf: rowsPerTile, work: N * K });
  registry.run(
    "matMulRows",
    byRows.length > 1 || M > rowsPerTile
      ? byRows.map(([m, rows]) => [a + m * K * 4, K, panels, out + m * rowStride * 4, rowStride, rows, N, K])
      : registry
          .cut(N, { multipleOf: 8, work: M * K })
          .map(([n, columns]) => [a, K, panels + panelBytes(n, K), out + n * 4, rowStride, M, columns, K]),
  );
}
