/** `stemma device evaluate`: a device measures its models on its own held-out samples. */
import { InvalidArgumentError, type Command } from "commander";
import { formatDuration, type Column } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import { withContext, type CommandContext } from "../context.js";

interface Choices {
  readonly model?: string;
  readonly against?: string;
  readonly limit?: number;
}

const help = `
The samples stay on the device; it answers with figures, which the server cannot check.
It measures between two trainings, and refuses while one runs. With --against two models
are compared on the same samples: before an update is given to many, or after it.

  stemma device evaluate van-7 soh
  stemma device evaluate van-7 soh --model soh:3 --against soh-van-7:12

The device must still have the models; it keeps the last ones (disk.keepLast).
`;

const count = (text: string): number => {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError("It is a whole number from 1.");
  return value;
};

export function addEvaluateCommand(device: Command): void {
  device
    .command("evaluate")
    .argument("<device>")
    .argument("<line>")
    .option("--model <model>", "the model to measure (what the line runs)")
    .option("--against <model>", "another one, compared with it sample by sample")
    .option("--limit <n>", "only the first held-out samples", count)
    .description("ask a connected device to measure its models on its own held-out samples")
    .addHelpText("after", help)
    .action(async (name: string, line: string, choices: Choices, command: Command) =>
      withContext(command, (context) => evaluateCommand({ device: name, line }, choices, context)),
    );
}

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

async function evaluateCommand(
  { device, line }: { readonly device: string; readonly line: string },
  { model, against, limit }: Choices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const { fleet } = options;
  const opened = await operations();
  const runs = async (): Promise<string> => {
    const active = (await opened.device({ fleet, device })).active[line];
    if (active !== undefined) return active.versionId;
    throw new StemmaError(
      "MODEL_NOT_FOUND",
      `The device ${device} has not reported that ${line} runs a model. Name one with --model.`,
    );
  };
  const models =
    against === undefined ? (model === undefined ? [] : [model]) : [model ?? (await runs()), against];
  const evaluation = await opened.evaluateOnDevice({
    fleet,
    device,
    line,
    models,
    ...(limit === undefined ? {} : { limit }),
  });
  output.print({
    data: evaluation,
    names: evaluation.versions.map(nameOf),
    table: { rows: evaluation.versions, columns, empty: "no model was measured" },
    text: describe(device, evaluation),
  });
}

function describe(device: string, { samples, versions, paired }: Evaluation): string {
  const { evaluated, heldOut } = samples;
  const [first, second] = versions;
  const measured = `measured by ${device} on ${evaluated} of its ${heldOut} held-out samples`;
  if (paired === null || first === undefined || second === undefined) return measured;
  const { better, worse, equal, meanDifference, standardDeviation } = paired;
  const error = standardDeviation / Math.sqrt(paired.samples);
  return [
    measured,
    `${nameOf(first)} is less wrong than ${nameOf(second)} on ${better} samples, more on ${worse}, equal on ${equal};`,
    `mean difference of the losses ${meanDifference.toPrecision(3)}, standard error ${error.toPrecision(2)}`,
  ].join("\n");
}
