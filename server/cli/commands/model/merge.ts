/** `stemma model merge`: the average of several models as a version of its own. */
import { StemmaError } from "../../../../shared/errors.js";
import { describeMerge } from "../../average-text.js";
import { plain } from "../../plain-command.js";
import { nameOf } from "../../version-text.js";

const merge = plain("mergeModels", {
  name: "merge",
  about: "save the average of models as a new version, which a replay can compute again",
  takes: { models: "<models...> two or more of one architecture, in any order" },
  options: {
    name: "<name>",
    rule: "<rule>",
    weights: {
      text: "<numbers> for the rule weighted: 3,1,2, one for each model",
      read: (text: string) => text.split(",").map((each) => numberOf("--weights", each)),
    },
    trim: "<share> for the rule trimmed: 0.2 leaves out a fifth at each end",
  },
  help: `
Numbers are averaged position by position: summed in float64 in the order of
the version ids, and rounded once. Tensors of whole numbers must be equal in
all models. Models with NaN or infinite numbers are refused.

  stemma model merge soh:3 soh:4 soh:7 --name soh-average
  stemma model merge soh:3 soh:4 --weights 3,1 --name soh-average
  stemma replay run soh-average       # computes it again, and compares

Whether an average is better than its models only a measurement tells:
stemma model eval.
`,
  print: (report, _, { output }) => ({
    names: [nameOf(report.summary)],
    text: output.wrap(describeMerge(report)),
  }),
});

/** @throws USAGE */
function numberOf(option: string, text: string): number {
  const number = text.trim() === "" ? Number.NaN : Number(text);
  if (Number.isFinite(number) && number > 0) return number;
  throw new StemmaError(
    "USAGE",
    `${option} has ${JSON.stringify(text.slice(0, 40))}, which is not a number above 0. Write numbers with commas between them: 3,1,2.`,
  );
}

export const commands = [merge];
