/** `stemma model pipeline`: how the rows of a table become the inputs of a model, from its record alone. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { formatBytes } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { safetensorsChunks } from "../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../shared/tensor/tensor.js";
import {
  inputsOf,
  pipelineOf,
  type PipelineInputs,
  type TablePipeline,
} from "../../../shared/train/datasets/table-pipeline.js";
import { withContext, type CommandContext } from "../context.js";
import { refuseExisting } from "../stream-file.js";

const help = `
Which columns are inputs, in which order, with which words and scales is in the record of a
model that was trained on a table. The inputs have the bits that the training saw:

  stemma model pipeline soh --input raw.csv --file inputs.safetensors
  stemma model pipeline soh --file pipeline.json    # for a program that runs the model
`;

interface PipelineChoices {
  readonly input?: string;
  readonly file?: string;
  readonly force: boolean;
}

export function addModelPipelineCommand(model: Command): void {
  model
    .command("pipeline")
    .argument("<model>", "name, name:version, name:tag or id")
    .option("--input <csv>", "make the inputs of this table's rows; it needs no targets")
    .option("--file <path>", "write the inputs (safetensors), or the pipeline (JSON) without --input")
    .option("--force", "overwrite a file that exists", false)
    .description("how the rows of a table become a model's inputs, rebuilt from its record")
    .addHelpText("after", help)
    .action(async (reference: string, choices: PipelineChoices, command: Command) =>
      withContext(command, (context) => pipelineCommand(reference, choices, context)),
    );
}

/** @throws NOT_FOUND where the record describes no table, DATASET_MALFORMED, FILE_EXISTS */
async function pipelineCommand(
  model: string,
  { input, file, force }: PipelineChoices,
  { output, operations, options: { fleet } }: CommandContext,
): Promise<void> {
  const path = file === undefined ? undefined : resolve(file);
  if (path !== undefined) await refuseExisting(path, force);
  const { provenance, versionId } = await (await operations()).model({ fleet, model });
  const { data } = (provenance ?? {}) as { readonly data?: unknown };
  const pipeline = pipelineOf(Array.isArray(data) ? data[0] : undefined);
  const described = describePipeline(pipeline);
  const write = async (bytes: Uint8Array, what: string): Promise<string> => {
    if (path === undefined) return "";
    await writeDurably(nodeFiles(), path, bytes);
    return `\nwrote ${what} to ${path}, ${formatBytes(bytes.length)}`;
  };
  if (input === undefined) {
    const written = await write(Buffer.from(`${JSON.stringify(pipeline, undefined, 1)}\n`), "the pipeline");
    output.print({ data: pipeline, names: [versionId], text: `${described}${written}` });
    return;
  }
  if (path === undefined)
    throw new StemmaError("USAGE", "Say with --file where the inputs go; they are written as safetensors.");
  const made = inputsOf(pipeline, await nodeFiles().read(resolve(input)), input);
  const { count, length, inputs } = made;
  const written = await write(await safetensorsOf(made), `${count} inputs of ${length} numbers`);
  output.print({
    data: { versionId, count, length, file: path, bytes: inputs.byteLength },
    names: [path],
    text: `${described}${written}`,
  });
}

/** A file with one tensor, `inputs`, of [count, length]. */
async function safetensorsOf({ count, length, inputs }: PipelineInputs): Promise<Uint8Array> {
  const bytes = new Uint8Array(inputs.buffer);
  const source = sourceOfTensor({ dtype: "F32", shape: [count, length], bytes });
  const chunks: Uint8Array[] = [];
  for await (const chunk of safetensorsChunks([{ name: "inputs", source }])) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function describePipeline({ columns }: TablePipeline): string {
  const inputs = columns.filter(({ role }) => role === "input");
  const described = inputs.map(({ name, words, centre, scale }) =>
    words !== undefined
      ? `${name}: one of ${words.join(", ")}`
      : scale === undefined
        ? name
        : `${name}: (number − ${centre ?? 0}) ÷ ${scale}`,
  );
  return described.join("\n");
}
