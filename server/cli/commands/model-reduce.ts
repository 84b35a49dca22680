/** `stemma model reduce`: a smaller, lossy form of a model. */
import type { Command } from "commander";
import { formatBytes } from "../../../shared/cli/output.js";
import type { ReduceReport } from "../../api/evaluation-schemas.js";
import { withContext } from "../context.js";
import { nameOf } from "../version-text.js";

interface ReduceChoices {
  readonly scheme: string;
  readonly name: string;
  readonly seed?: string;
  readonly dryRun: boolean;
}

const help = `
Schemes, by K bits a number:
  float16, bfloat16                       the two 16-bit types; ranges beyond theirs end at their largest number
  fixed:K (2 to 24)                       one exponent a tensor, K bits for sign and mantissa
  normalized:K (2 to 23)                  the same numbers, stored highest byte first, so that a part of the bytes tells most
  quantize-uniform:K (1 to 8)             2^K values at even distances, and a table of them
  quantize-random:K (1 to 8)              2^K of the tensor's own numbers, drawn with --seed
Matrices are reduced; vectors (biases, batch norm) and other types stay exact and are shared with the exact model.
The exact model stays as it is and is the base of the reduced one. What a scheme costs: stemma model eval, on both.
Devices are given exact models only, unless --allow-reduced says otherwise.
`;

export function addModelReduceCommand(model: Command): void {
  model
    .command("reduce")
    .argument("<model>", "the exact model: name, name:version, name:tag or id")
    .requiredOption(
      "--scheme <scheme>",
      "float16, bfloat16, fixed:K, normalized:K, quantize-uniform:K or quantize-random:K",
    )
    .requiredOption("--name <name>", "name of the reduced model; not one that exact versions have")
    .option("--seed <number>", "what quantize-random draws from (default 0)")
    .option("--dry-run", "say how small it would be and how far its numbers would lie, save nothing", false)
    .description("save a smaller form of a model that is not exact, for what needs no exactness")
    .addHelpText("after", help)
    .action(async (reference: string, choices: ReduceChoices, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const report = await (
          await operations()
        ).reduce({
          fleet: options.fleet,
          model: reference,
          scheme: choices.scheme,
          name: choices.name,
          seed: choices.seed,
          dryRun: choices.dryRun,
        });
        output.print({
          data: report,
          names: report.summary === null ? [] : [nameOf(report.summary)],
          text: describeReduction(report),
        });
      }),
    );
}

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
    `${reducedTensors} of ${tensors} tensors reduced; ${formatBytes(rawBytes)} lie in ${formatBytes(storedBytes)}, ${ratio.toFixed(2)} times smaller`,
    `${(100 * share).toFixed(1)} % of the numbers differ: by ${difference.largest.toExponential(2)} at most, ${difference.mean.toExponential(2)} on average`,
  ].join("\n");
}
