/** `stemma device rollback|evaluate`: an earlier model for a line, and how good a device finds its models. */
import { InvalidArgumentError } from "commander";
import { type Column, formatDuration } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { CallOutput } from "../../../interface/api/server-operations.js";
import { listed, plain } from "../../plain-command.js";
import { nameOf as titleOf } from "../../version-text.js";

const rollback = plain("rollbackDevice", {
  name: "rollback",
  about: "return a line of a device to an earlier model",
  takes: { device: "", line: "" },
  options: {
    to: "<model> the model (what the line ran before the present one)",
    dryRun: "show what would be, change nothing",
  },
  help: `
Without --to the line returns to what it ran before its present model. --to names any model
that the line ran, or that the device trained. The device fetches what it has deleted.

  stemma device rollback van-7 soh
  stemma device rollback van-7 soh --to soh-van-7:12

\`stemma rollout undo\` returns all devices of a rollout.
`,
  print: (summary, { device, line, dryRun }) => ({
    names: [titleOf(summary)],
    text: `${line} of ${device} ${dryRun ? "would return" : "returns"} to ${titleOf(summary)}`,
  }),
});

type Evaluation = CallOutput<"evaluateOnDevice">;
type Row = Evaluation["versions"][number];

const nameOf = ({ name, versionId }: Row): string => name ?? versionId.slice(0, 12);

const columns: readonly Column<Row>[] = [
  { title: "MODEL", value: nameOf },
  { title: "METRIC", value: ({ metric }) => metric.name },
  {
    title: "VALUE",
    value: ({ metric: { value, unit } }) =>
      value === null ? "not finite" : `${value.toPrecision(4)}${unit === "" ? "" : ` ${unit}`}`,
    align: "right",
  },
  { title: "TIME", value: ({ durationMs }) => formatDuration(durationMs), align: "right" },
];

/** @throws USAGE, shown by the parser */
function countOf(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError("It is a whole number from 1.");
  return value;
}

const evaluate = plain("evaluateOnDevice", {
  name: "evaluate",
  about: "ask a connected device to measure its models on its own held-out samples",
  takes: { device: "", line: "" },
  options: {
    model: "<model> the model to measure (what the line runs)",
    against: "<model> another one, compared with it sample by sample",
    limit: { text: "<n> only the first held-out samples", read: countOf },
  },
  help: `
The samples stay on the device; it answers with figures, which the server cannot check.
It measures between two trainings, and refuses while one runs. With --against two models
are compared on the same samples: before an update is given to many, or after it.

  stemma device evaluate van-7 soh
  stemma device evaluate van-7 soh --model soh:3 --against soh-van-7:12

The device must still have the models; it keeps the last ones (disk.keepLast).
`,
  input: async ({ device, line, model, against }, { call }) => {
    if (against === undefined) return { models: model === undefined ? [] : [model] };
    const runs = model ?? (await call("device", { device })).active[line]?.versionId;
    if (runs !== undefined) return { models: [runs, against] };
    throw new StemmaError(
      "MODEL_NOT_FOUND",
      `The device ${device} has not reported that ${line} runs a model. Name one with --model.`,
    );
  },
  print: (evaluation, { device }) => ({
    ...listed(evaluation.versions, { nameOf, columns, empty: "no model was measured" }),
    data: evaluation,
    text: describe(device, evaluation),
  }),
});

function describe(device: string, { samples, versions, paired, measuredBy }: Evaluation): string {
  const { evaluated, heldOut } = samples;
  const [first, second] = versions;
  const by = measuredBy === "program" ? `a program of ${device}` : device;
  const measured = `measured by ${by} on ${evaluated} of its ${heldOut} held-out samples`;
  if (paired === null || first === undefined || second === undefined) return measured;
  const { better, worse, equal, meanDifference, standardDeviation } = paired;
  const error = standardDeviation / Math.sqrt(paired.samples);
  return [
    measured,
    `${nameOf(first)} is less wrong than ${nameOf(second)} on ${counted(better, "sample")}, more on ${worse}, equal on ${equal};`,
    `mean difference of the losses ${meanDifference.toPrecision(3)}, standard error ${error.toPrecision(2)}`,
  ].join("\n");
}

export const commands = [rollback, evaluate];
