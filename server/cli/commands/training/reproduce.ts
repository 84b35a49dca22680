/** `stemma reproduce`: runs of a training compared, recorded, replayed and remedied (CH §3; CH1). */
import { describeComparison } from "../../../../shared/determinism/reproduce/criteria-text.js";
import type { RunComparison } from "../../../../shared/determinism/reproduce/criteria.js";
import { exitStatus } from "../../../../shared/errors.js";
import { plain, type Printed } from "../../plain-command.js";
import { compareSides } from "../../reproduce/compare-sides.js";

const statusOf: Readonly<Record<RunComparison["verdict"], number | undefined>> = {
  equal: undefined,
  different: exitStatus.verification,
  incomplete: exitStatus.partly,
  nothing: exitStatus.notFound,
};

const compare = plain(null, {
  name: "compare",
  about: "compare two runs by accuracy, predictions, losses, epochs and tensors",
  takes: {
    a: "<a> a run's folder, one file of it, or a stored version",
    b: "<b> another one",
  },
  help: `
A run's folder has any of these files, which its program leaves in $STEMMA_RUN:
  model.safetensors
  predictions.csv or predictions.json: sample, actual, predicted or output
  log.jsonl or log.csv: a row for each step or epoch, with its loss
Of a version, its tensors, its evaluation and its measurements are compared. What only one side or
none has is said to be so, never called equal. Training time is not compared.

  stemma reproduce compare first second
  stemma reproduce compare soh:1 soh:2

Status 4: different; 5: equal, but one side lacks something; 3: nothing could be compared.
`,
  run: async ({ a, b }, context): Promise<Printed> => {
    const comparison = await compareSides(a, b, context);
    const status = statusOf[comparison.verdict];
    return {
      data: comparison,
      names: comparison.first === undefined ? [] : [comparison.first.criterion],
      text: context.output.wrap(describeComparison(comparison)),
      ...(status === undefined ? {} : { status }),
    };
  },
});

export const commands = [compare];
