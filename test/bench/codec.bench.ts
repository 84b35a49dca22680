/**
 * Size and speed of the delta codec. `stemma bench codec [BASE CHILD [PREVIOUS]]` measures any safetensors
 * files, by tensor and in total. Without files it measures ModelHub's three scenarios (§V-B), retrained,
 * fine-tuned and adjacent checkpoints, on the fine-tunes below STEMMA_DATA, or on generated models when they
 * are not there. For comparison it prints raw, gzip, and the difference (subtracted, xored) in byte planes
 * compressed with zstd when a zstd is on the path. Speeds are processor time, best of STEMMA_BENCH_ROUNDS (7),
 * as shares of SHA-256 over the same bytes in the same run. Pairs are measured without and with low-rank
 * predictions; merged LoRAs and bfloat16 pairs are made from the fine-tunes. Asserts nothing; `-o json` prints
 * JSON, `--svg FILE` draws the fine-tunes, `--types` compares every type with general compressors instead,
 * also at 16 MiB unless `--quick`.
 */
import { writeFile } from "node:fs/promises";
import { comparisonsOf } from "./codec-comparisons.js";
import { codec, compare, type ComparisonResult } from "./codec-measure.js";
import { chartOf, printResult } from "./codec-report.js";
import { compareTypes, printTypes } from "./codec-types.js";

const args = process.argv.slice(2);
const asJson = args.includes("json");
const quick = args.includes("--quick");
const valued = ["-o", "--output", "--svg"];
const files = args.filter((arg, i) => !arg.startsWith("-") && !valued.includes(args[i - 1] ?? ""));
const svgFile = args[args.indexOf("--svg") + 1 || args.length];
const rounds = Number(process.env["STEMMA_BENCH_ROUNDS"] ?? (quick ? 2 : 7));

if (args.includes("--types")) {
  const results = compareTypes(codec, !quick);
  if (asJson) console.log(JSON.stringify({ bench: "codec", types: [...results] }, undefined, 2));
  else printTypes(results);
} else if (files.length === 1 || files.length > 3) {
  console.error("usage: stemma bench codec [BASE.safetensors CHILD.safetensors [PREVIOUS.safetensors]]");
  process.exitCode = 2;
} else {
  const results: ComparisonResult[] = [];
  for (const comparison of await comparisonsOf(files)) {
    const result = compare(comparison, rounds);
    results.push(result);
    if (!asJson) printResult(result, files.length > 0);
  }
  if (svgFile !== undefined) await writeFile(svgFile, chartOf(results));
  const [only] = results;
  if (asJson)
    console.log(
      JSON.stringify(
        {
          bench: "codec",
          rounds,
          ...(files.length > 0
            ? { totalBytes: only!["totalBytes"], bitsPerParameter: only!["bitsPerParameter"] }
            : {}),
          results,
        },
        undefined,
        2,
      ),
    );
  else {
    console.log("with low-rank predictions: in ≥ 60 and out ≥ 150 MB/s at rank 16 on one free core");
    console.log(
      "aims: in ≥ 0.17 and out ≥ 0.27 of SHA-256 (0.14 and 0.24 with a previous update), plain 0.07 and 0.10; retrained models encoded alone",
    );
  }
}
