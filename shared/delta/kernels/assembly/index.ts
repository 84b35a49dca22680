// Exports the functions of delta.wasm. All functions work on byte offsets into an imported memory, whose
// layout shared/delta/kernel-memory.ts decides; the module has no data and no memory of its own. Every
// function has a twin in ../plain-*.ts that leaves the same bytes.
export { widen, narrow, predict } from "./lanes";
export { magnitudes, contexts } from "./contexts";
export { differenceSymbols, exponentSymbols } from "./symbols";
export { packBits } from "./pack";
export { unpackBits, unpackExtras } from "./unpack";
export { ransEncode, ransDecode } from "./rans";
export { ransDecodeOne, ransDecodeTwo, ransDecodeMostlyZero } from "./rans-planes";
export { rowTotals, decodingRow } from "./tables";
export { markTouched, joinPlanes, splitPlanes } from "./planes";
export { fixedExponents, fixedSplit, fixedJoin } from "./fixed";
export { weightDifferences, multiply, multiplyTransposed, addProduct } from "./low-rank";
