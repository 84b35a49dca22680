/** Prints what the codec benchmark measured, and draws the fine-tunes. */
import { barChart } from "./codec-chart.js";
import { kernels, type ComparisonResult, type Speed } from "./codec-measure.js";

/**
 * Peers on the same pairs, in bits per parameter, computed outside this project: FM-Delta's bound (the
 * entropy of its ordered-integer differences) and ZipNN on the xor with the base. By the child's name.
 */
const peers: Readonly<Record<string, readonly [fmDelta: number, zipNn: number | undefined]>> = {
  "lstm-sgd1e-3-10": [15.895, 17.97],
  "lstm-sgd1e-3-100": [18.733, 20.37],
  "lstm-sgd1e-3-200": [18.996, undefined],
  "lstm-adam1e-4-100": [23.5, 24.41],
  "mnv2-sgd1e-3-100": [18.441, 20.28],
  "mnv2-adam1e-4-100": [21.668, 23.13],
};
/** @param withTensors also each tensor */
export function printResult(result: ComparisonResult, withTensors: boolean): void {
  const bytes = (key: string): string =>
    typeof result[key] === "number"
      ? `${((100 * result[key]) / (result["rawBytes"] as number)).toFixed(2)} %`
      : "not measured (no zstd)";
  const against = result.base === undefined ? "" : ` against ${result.base}`;
  const andPrevious = result.previous === undefined ? "" : ` and ${result.previous}`;
  console.log(`== ${result.scenario}: ${result.child}${against}${andPrevious}`);
  if (withTensors)
    for (const row of result.tensors)
      console.log(
        `${String(row["name"]).padEnd(40)} ${String(row["dtype"])} [${String(row["shape"])}]  ${String(row["rawBytes"])} → ${String(row["bytes"])}  ${(row["bitsPerParameter"] as number).toFixed(3)} bits per parameter, ${String(row["encoding"])} against ${String(row["against"])}`,
      );
  console.log(
    `${String(result["rawBytes"])} → ${String(result["totalBytes"])} bytes, ${(result["bitsPerParameter"] as number).toFixed(3)} bits per parameter, ${String(result["tensorsCodedAgainstBase"])} of ${result.tensors.length} tensors against the base`,
  );
  console.log(
    `of raw: Stemma ${bytes("totalBytes")}, gzip ${bytes("gzipBytes")}, subtraction + planes + zstd ${bytes("subtractPlanesZstdBytes")}, xor + planes + zstd ${bytes("xorPlanesZstdBytes")}`,
  );
  for (const name of new Set([kernels.name, "plain"])) {
    const speed = result[name] as Speed;
    console.log(
      `${name.padEnd(5)} in ${speed.inMegabytesPerSecond.toFixed(0)} MB/s (${speed.inShareOfSha256.toFixed(2)} of SHA-256), out ${speed.outMegabytesPerSecond.toFixed(0)} MB/s (${speed.outShareOfSha256.toFixed(2)})`,
    );
  }
  const lowRank = result["lowRank"] as
    (Speed & { readonly bitsPerParameter: number; readonly tensors: number }) | undefined;
  if (lowRank !== undefined)
    console.log(
      `with low-rank predictions ${lowRank.bitsPerParameter.toFixed(3)} bits per parameter (${lowRank.tensors} tensors), in ${lowRank.inMegabytesPerSecond.toFixed(0)} MB/s (${lowRank.inShareOfSha256.toFixed(3)} of SHA-256), out ${lowRank.outMegabytesPerSecond.toFixed(0)} MB/s (${lowRank.outShareOfSha256.toFixed(2)})`,
    );
}

/** The fine-tunes, with the sizes that other methods reach. */
export function chartOf(results: readonly ComparisonResult[]): string {
  const bitsOf = (result: ComparisonResult, key: string): number | undefined =>
    typeof result[key] === "number" ? (8 * result[key]) / (result["parameters"] as number) : undefined;
  const groups = results
    .filter(({ scenario }) => scenario === "fine-tuned")
    .map((result) => {
      const [fmDelta, zipNn] = peers[result.child] ?? [undefined, undefined];
      return {
        name: result.child,
        values: [
          bitsOf(result, "gzipBytes"),
          bitsOf(result, "xorPlanesZstdBytes"),
          zipNn,
          fmDelta,
          bitsOf(result, "totalBytes"),
          (result["lowRank"] as { readonly bitsPerParameter: number } | undefined)?.bitsPerParameter,
        ],
      };
    });
  return barChart(
    "Fine-tunes given their base, bits per parameter (32 raw)",
    [
      "gzip of the child",
      "xor, byte planes, zstd",
      "ZipNN on the xor",
      "FM-Delta's bound",
      "Stemma",
      "Stemma, low rank",
    ],
    groups,
  );
}
