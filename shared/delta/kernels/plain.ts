/**
 * The kernels in TypeScript: the same functions on the same memory layout. They write the same bytes without
 * WebAssembly.
 */
import { heapOf, type DeltaKernels, type Heap } from "./kernels.js";
import * as context from "./plain-contexts.js";
import * as fixed from "./plain-fixed.js";
import * as lanes from "./plain-lanes.js";
import * as lowRank from "./plain-low-rank.js";
import { packBits } from "./plain-pack.js";
import * as planes from "./plain-planes.js";
import * as planeCoders from "./plain-rans-planes.js";
import { ransDecode, ransEncode } from "./plain-rans.js";
import { differenceSymbols, exponentSymbols } from "./plain-symbols.js";
import { decodingRow, rowTotals } from "./plain-tables.js";
import { unpackBits, unpackExtras } from "./plain-unpack.js";

export function plainKernels(): DeltaKernels {
  let heap: Heap = heapOf(new ArrayBuffer(1 << 20));
  const reserve = (bytes: number): Heap => {
    if (bytes > heap.u8.length) {
      const grown = heapOf(new ArrayBuffer(Math.ceil(bytes / 65_536) * 65_536));
      grown.u8.set(heap.u8);
      heap = grown;
    }
    return heap;
  };
  return {
    name: "plain",
    reserve,
    widen: (...args) => lanes.widen(heap, ...args),
    narrow: (...args) => lanes.narrow(heap, ...args),
    predict: (...args) => lanes.predict(heap, ...args),
    magnitudes: (...args) => context.magnitudes(heap, ...args),
    contexts: (...args) => context.contexts(heap, ...args),
    differenceSymbols: (...args) => differenceSymbols(heap, ...args),
    exponentSymbols: (...args) => exponentSymbols(heap, ...args),
    rowTotals: (...args) => rowTotals(heap, ...args),
    decodingRow: (...args) => decodingRow(heap, ...args),
    packBits: (...args) => packBits(heap, ...args),
    unpackBits: (...args) => unpackBits(heap, ...args),
    unpackExtras: (...args) => unpackExtras(heap, ...args),
    ransEncode: (...args) => ransEncode(heap, ...args),
    ransDecode: (...args) => ransDecode(heap, ...args),
    ransDecodeOne: (...args) => planeCoders.ransDecodeOne(heap, ...args),
    ransDecodeTwo: (...args) => planeCoders.ransDecodeTwo(heap, ...args),
    ransDecodeMostlyZero: (...args) => planeCoders.ransDecodeMostlyZero(heap, ...args),
    markTouched: (...args) => planes.markTouched(heap, ...args),
    joinPlanes: (...args) => planes.joinPlanes(heap, ...args),
    splitPlanes: (...args) => planes.splitPlanes(heap, ...args),
    fixedExponents: (...args) => fixed.fixedExponents(heap, ...args),
    fixedSplit: (...args) => fixed.fixedSplit(heap, ...args),
    fixedJoin: (...args) => fixed.fixedJoin(heap, ...args),
    weightDifferences: (...args) => lowRank.weightDifferences(heap, ...args),
    multiply: (...args) => lowRank.multiply(heap, ...args),
    multiplyTransposed: (...args) => lowRank.multiplyTransposed(heap, ...args),
    addProduct: (...args) => lowRank.addProduct(heap, ...args),
  };
}
