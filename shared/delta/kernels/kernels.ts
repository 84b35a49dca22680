/**
 * The codec's operations on many numbers at a time, given as byte offsets into one memory. They are
 * implemented by delta.wasm and by its twin in TypeScript, which writes the same bytes. The sources in
 * assembly/ document each function. Does not depend on tensors or formats.
 */

/** One memory seen in several widths; valid until the next `reserve`. */
export interface Heap {
  readonly u8: Uint8Array;
  readonly u16: Uint16Array;
  readonly u32: Uint32Array;
  readonly i32: Int32Array;
  readonly f32: Float32Array;
}

export interface KernelFunctions {
  widen(source: number, target: number, count: number, kind: number): void;
  narrow(source: number, target: number, count: number, kind: number): void;
  predict(base: number, previous: number, count: number, alpha: number, out: number): void;
  magnitudes(
    prediction: number,
    child: number,
    rows: number,
    columns: number,
    inner: number,
    rowSums: number,
    columnSums: number,
    innerSums: number,
    integers: number,
  ): void;
  contexts(
    prediction: number,
    rows: number,
    columns: number,
    inner: number,
    rowScales: number,
    columnScales: number,
    innerScales: number,
    exponentMask: number,
    out: number,
  ): void;
  differenceSymbols(
    prediction: number,
    child: number,
    context: number,
    n: number,
    emax: number,
    orderMask: number,
    shift: number,
    limit: number,
    out: number,
    folded: number,
    histogram: number,
  ): void;
  exponentSymbols(
    child: number,
    context: number,
    n: number,
    emax: number,
    out: number,
    histogram: number,
  ): void;
  rowTotals(histogram: number, out: number): void;
  decodingRow(lengths: number, meanings: number, work: number, out: number): void;
  packBits(
    indices: number,
    folded: number,
    child: number,
    n: number,
    shift: number,
    table: number,
    first: number,
    second: number,
    bitCounts: number,
  ): void;
  unpackBits(
    prediction: number,
    context: number,
    n: number,
    table: number,
    streams: number,
    orderMask: number,
    shift: number,
    emax: number,
    out: number,
  ): number;
  unpackExtras(
    prediction: number,
    symbols: number,
    n: number,
    table: number,
    stream: number,
    streamBits: number,
    orderMask: number,
    shift: number,
    emax: number,
    out: number,
  ): number;
  ransEncode(indices: number, n: number, table: number, start: number, end: number): number;
  ransDecode(context: number, n: number, table: number, start: number, end: number, out: number): number;
  ransDecodeOne(state: number, n: number, table: number, start: number, end: number, plane: number): number;
  ransDecodeTwo(
    state: number,
    n: number,
    table: number,
    streams: number,
    planes: number,
    stride: number,
  ): number;
  ransDecodeMostlyZero(
    n: number,
    table: number,
    share: number,
    start: number,
    end: number,
    out: number,
  ): number;
  markTouched(plane: number, n: number, mask: number, state: number): void;
  joinPlanes(
    planes: number,
    stride: number,
    n: number,
    width: number,
    known: number,
    base: number,
    out: number,
  ): void;
  splitPlanes(child: number, base: number, n: number, width: number, planes: number, stride: number): void;
  fixedExponents(child: number, n: number, first: number, channels: number, exponents: number): number;
  fixedSplit(
    child: number,
    n: number,
    first: number,
    channels: number,
    exponents: number,
    planes: number,
    stride: number,
    stream: number,
  ): number;
  fixedJoin(
    planes: number,
    stride: number,
    n: number,
    first: number,
    channels: number,
    exponents: number,
    stream: number,
    streamBits: number,
    out: number,
  ): number;
  weightDifferences(
    base: number,
    child: number,
    rows: number,
    columns: number,
    rowWeights: number,
    columnWeights: number,
    out: number,
  ): void;
  multiply(matrix: number, rows: number, columns: number, right: number, width: number, out: number): void;
  multiplyTransposed(
    matrix: number,
    rows: number,
    columns: number,
    left: number,
    width: number,
    out: number,
  ): void;
  addProduct(
    base: number,
    rows: number,
    columns: number,
    left: number,
    rank: number,
    right: number,
    out: number,
  ): void;
}

export interface DeltaKernels extends KernelFunctions {
  readonly name: "wasm" | "plain";
  /** The memory, at least `bytes` long; its content is kept. */
  reserve(bytes: number): Heap;
}

export function heapOf(buffer: ArrayBuffer): Heap {
  return {
    u8: new Uint8Array(buffer),
    u16: new Uint16Array(buffer),
    u32: new Uint32Array(buffer),
    i32: new Int32Array(buffer),
    f32: new Float32Array(buffer),
  };
}
