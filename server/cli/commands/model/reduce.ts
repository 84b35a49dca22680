/** `stemma model reduce`: a smaller, lossy form of a model. */
import { formatBytes } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import type { ReduceReport } from "../../../interface/api/models/reduce-schemas.js";
import { plain } from "../../plain-command.js";
import { nameOf } from "../../version-text.js";

const reduce = plain("reduce", {
  name: "reduce",
  about: "save a smaller form of a model that is not exact, for uses that need no exactness",
  takes: { model: "the exact model: name, name:version, name:tag or id" },
  options: {
    scheme: "<scheme>",
    name: "<name>",
    seed: "<number>",
    dryRun: "report the size and how much the numbers would change, save nothing",
  },
  help: `
Schemes, with K bits per number:
  float16, bfloat16           the 16-bit types; numbers beyond their range
                              become their largest number
  fixed:K (2 to 24)           one exponent per tensor, K bits for sign and
                              mantissa
  normalized:K (2 to 23)      the same numbers, stored highest byte first, so
                              that part of the bytes gives approximations
  quantize-uniform:K (1 to 8) 2^K values at even distances, and a table of them
  quantize-random:K (1 to 8)  2^K of the tensor's own numbers, drawn with --seed

Matrices are reduced; vectors (biases, batch norm) and other types stay exact
and are shared with the exact model, which does not change and is the base of
the reduced one. To see what a scheme costs, run stemma model eval on both.
Devices get exact models only, unless --allow-reduced is given.
`,
  print: (report) => ({
    names: report.summary === null ? [] : [nameOf(report.summary)],
    text: describeReduction(report),
  }),
});

function describeReduction({
  base,
  summary,
  scheme,
  tensors,
  reducedTensors,
  rawBytes,
  storedBytes,
  ratio,
  difference,
}: ReduceReport): string {
  const share = difference.numbers === 0 ? 0 : difference.changed / difference.numbers;
  return [
    summary === null
      ? `${nameOf(base)} would be reduced by ${scheme}`
      : `saved as ${nameOf(summary)} (${summary.versionId.slice(0, 12)}): ${nameOf(base)} reduced by ${scheme}`,
    `${reducedTensors} of ${counted(tensors, "tensor")} reduced; ${formatBytes(rawBytes)} stored in ${formatBytes(storedBytes)}, ${ratio.toFixed(2)} times smaller`,
    `${(100 * share).toFixed(1)} % of the numbers differ: by ${difference.largest.toExponential(2)} at most, ${difference.mean.toExponential(2)} on average`,
  ].join("\n");
}

export const commands = [reduce];
