/** `stemma agent samples`: submits samples to a running agent, lists and removes those that it holds. */
import { Option, type Command } from "commander";
import { Output } from "../../../shared/cli/output.js";
import { counted } from "../../../shared/printable.js";
import { StemmaError } from "../../../shared/errors.js";
import { regularFiles } from "../../../shared/files/regular-files.js";
import type { ListedSample, Removed, Taken } from "../../intake/intake-answers.js";
import { parseJsonLines } from "../../../shared/train/datasets/json-lines.js";
import { callRunningAgent, commonOptionsOf } from "../common-options.js";

const submitted =
  '{"label": 1, "shape": [28, 28, 1], "values": numbers or base64 of float32}; returns when they are on the disk';

export function addSamples(program: Command): void {
  const samples = program
    .command("samples")
    .argument("[line]")
    .argument("[file]", "one JSON object per line; standard input when absent")
    .usage("[add|list|rm] <line> [options]")
    .description(`submit samples (the same as samples add), list or remove them: ${submitted}`)
    .action(async (line: string | undefined, file: string | undefined, _: unknown, command: Command) => {
      if (line === undefined)
        throw new StemmaError(
          "USAGE",
          "Name the line: `stemma agent samples add LINE [FILE]`, `samples list LINE` or `samples rm LINE`.",
        );
      await submit(line, file, command);
    });
  samples
    .command("add")
    .argument("<line>")
    .argument("[file]", "one JSON object per line; standard input when absent")
    .description(`submit samples: ${submitted}`)
    .action((line: string, file: string | undefined, _: unknown, command: Command) =>
      submit(line, file, command),
    );
  samples
    .command("list")
    .argument("<line>")
    .description("show the newest samples that the line holds, and which of them trainings skip and why")
    .option("--unfit", "only samples that trainings skip", false)
    .option("--limit <n>", "at most so many, the newest", "100")
    .action(listSamples);
  samples
    .command("rm")
    .argument("<line>")
    .argument("[id...]", "ids of the samples, as `samples list` shows them")
    .description("remove samples of a line for good")
    .addOption(new Option("--unfit", "all samples that trainings skip").conflicts("all"))
    .addOption(new Option("--all", "all samples of the line"))
    .action(removeSamples);
}

async function submit(line: string, file: string | undefined, command: Command): Promise<void> {
  const { home, output } = commonOptionsOf(command);
  const samples = parseJsonLines(
    file === undefined
      ? await readStandardInput()
      : Buffer.from(await regularFiles().read(file)).toString("utf8"),
    file ?? "standard input",
  );
  const answer = (await callRunningAgent(home, "samples", { do: "samples", line, samples })) as Taken;
  const duplicates = answer.alreadyThere > 0 ? `, ${answer.alreadyThere} were stored already` : "";
  new Output(output).print({
    data: answer,
    text: `${counted(answer.accepted, "sample")} stored for ${line}${duplicates}`,
  });
}

const columns = [
  { title: "ID", value: (row: ListedSample) => row.id },
  { title: "TIME", value: (row: ListedSample) => new Date(row.timeMs).toISOString() },
  { title: "PART", value: (row: ListedSample) => row.split },
  { title: "SHAPE", value: (row: ListedSample) => `[${row.shape.join(", ")}]` },
  {
    title: "LABEL",
    value: (row: ListedSample) =>
      row.targets !== undefined
        ? row.targets.join(", ")
        : row.label === undefined || row.label.length <= 4
          ? (row.label?.join(", ") ?? "")
          : `${row.label.length} numbers`,
  },
  { title: "SKIPPED BECAUSE", value: (row: ListedSample) => row.unfit ?? "" },
];

async function listSamples(
  line: string,
  { unfit, limit }: { readonly unfit: boolean; readonly limit: string },
  command: Command,
): Promise<void> {
  const { home, output } = commonOptionsOf(command);
  const count = Number(limit);
  if (!Number.isInteger(count) || count < 1 || count > 100_000)
    throw new StemmaError("USAGE", `--limit ${limit} is not a whole number from 1 to 100000. Correct it.`);
  const rows = (await callRunningAgent(home, "control", {
    do: "list-samples",
    line,
    limit: count,
    unfit,
  })) as readonly ListedSample[];
  new Output(output).print<ListedSample>({
    data: rows,
    names: rows.map(({ id }) => id),
    table: {
      rows,
      columns,
      empty: unfit ? `every sample of ${line} fits its model` : `${line} holds no samples`,
    },
  });
}

async function removeSamples(
  line: string,
  ids: readonly string[],
  { unfit, all }: { readonly unfit?: true; readonly all?: true },
  command: Command,
): Promise<void> {
  const { home, output } = commonOptionsOf(command);
  if ([ids.length > 0, unfit === true, all === true].filter(Boolean).length !== 1)
    throw new StemmaError(
      "USAGE",
      "Name the samples to remove: their ids, or --unfit for all that trainings skip, or --all.",
    );
  const answer = (await callRunningAgent(home, "control", {
    do: "remove-samples",
    line,
    ...(unfit === true ? { unfit } : all === true ? { all } : { ids }),
  })) as Removed;
  const out = new Output(output);
  const trainedOn =
    answer.trainedOn === 0
      ? ""
      : `; ${answer.trainedOn} of them trained a model that is not released yet, and that training cannot be repeated without them`;
  out.print({ data: answer, text: `${counted(answer.removed, "sample")} of ${line} removed${trainedOn}` });
  if (answer.unknown.length > 0)
    out.info(`no sample of ${line} has the id ${answer.unknown.slice(0, 5).join(", ")}`);
}

async function readStandardInput(): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of process.stdin) parts.push(part as Buffer);
  return Buffer.concat(parts).toString("utf8");
}
