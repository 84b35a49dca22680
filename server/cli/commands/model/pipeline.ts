/** `stemma model pipeline`: how what an application has becomes the inputs of a model, from its record alone. */
import { join, resolve } from "node:path";
import { formatBytes } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import { StemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { regularFiles } from "../../../../shared/files/regular-files.js";
import { safetensorsChunks } from "../../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../../shared/tensor/tensor.js";
import {
  encodePipeline,
  inputPipelineOf,
  inputsOfFiles,
  type InputFile,
  type InputPipeline,
} from "../../../../shared/train/datasets/input-pipeline.js";
import type { PipelineInputs, TablePipeline } from "../../../../shared/train/datasets/table-pipeline.js";
import { pathOf, plain, type Printed } from "../../plain-command.js";
import { refuseExisting } from "../../stream-file.js";

/** @throws NOT_FOUND where the record describes no way to inputs, DATASET_MALFORMED, FILE_EXISTS */
const pipelineOf = plain("model", {
  name: "pipeline",
  about: "how what an application has becomes a model's inputs, rebuilt from its record",
  takes: { model: "name, name:version, name:tag or id" },
  options: {
    input: "<path> make the inputs of this file, or of a folder's pictures or texts by name",
    file: {
      text: "<path> write the inputs (safetensors), or the pipeline (JSON) without --input",
      read: pathOf,
    },
    force: "overwrite a file that exists",
  },
  help: `
Which columns are inputs, in which order, with which words and scales is in the record of a
model that was trained on a table; of one that was trained on pictures, texts or cycles of
cells, their size and colours, the vocabulary, or the window. The inputs have the bits that the
training saw:

  stemma model pipeline soh --input raw.csv --file inputs.safetensors
  stemma model pipeline signs --input ./pictures --file inputs.safetensors
  stemma model pipeline soh --file pipeline.json    # for a program that runs the model
`,
  run: async ({ model, input, file: path, force }, { call }): Promise<Printed> => {
    if (path !== undefined) await refuseExisting(path, force);
    const { provenance, versionId } = await call("model", { model });
    const { data } = (provenance ?? {}) as { readonly data?: unknown };
    const pipeline = inputPipelineOf(Array.isArray(data) ? data[0] : undefined);
    const described = describePipeline(pipeline);
    const write = async (bytes: Uint8Array, what: string): Promise<string> => {
      if (path === undefined) return "";
      await writeDurably(regularFiles(), path, bytes);
      return `\nwrote ${what} to ${path}, ${formatBytes(bytes.length)}`;
    };
    if (input === undefined) {
      const written = await write(encodePipeline(pipeline), "the pipeline");
      return { data: pipeline, names: [versionId], text: `${described}${written}` };
    }
    if (path === undefined)
      throw new StemmaError("USAGE", "Say with --file where the inputs go; they are written as safetensors.");
    const made = inputsOfFiles(pipeline, await readInputs(input));
    const { count, length, shape, inputs } = made;
    const written = await write(await safetensorsOf(made), `${count} inputs of ${length} numbers`);
    return {
      data: { versionId, count, length, shape, file: path, bytes: inputs.byteLength },
      names: [path],
      text: `${described}${written}`,
    };
  },
});

/** A file, or the files of a folder in the order of their names but for hidden ones. @throws FILE_MISSING */
async function readInputs(input: string): Promise<readonly InputFile[]> {
  const files = regularFiles();
  const path = resolve(input);
  if ((await files.stat(path))?.kind !== "folder") return [{ where: input, bytes: await files.read(path) }];
  const names = (await files.list(path)).filter((name) => !name.startsWith(".")).sort();
  return await Promise.all(
    names.map(async (name) => ({ where: join(input, name), bytes: await files.read(join(path, name)) })),
  );
}

/** A file with one tensor, `inputs`, of [count, ...shape of a sample]. */
async function safetensorsOf({ count, shape, inputs }: PipelineInputs): Promise<Uint8Array> {
  const bytes = new Uint8Array(inputs.buffer);
  const source = sourceOfTensor({ dtype: "F32", shape: [count, ...shape], bytes });
  const chunks: Uint8Array[] = [];
  for await (const chunk of safetensorsChunks([{ name: "inputs", source }])) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function describePipeline(pipeline: InputPipeline): string {
  switch (pipeline.kind) {
    case "stemma-pipeline":
      return describeTable(pipeline);
    case "stemma-pictures":
      return `pictures of ${pipeline.height} × ${pipeline.width} pixels, ${pipeline.colours}, numbers from 0 to 1`;
    case "stemma-texts":
      return `${pipeline.numbers} of ${pipeline.vocabulary.length} terms (${pipeline.terms})`;
    case "stemma-windows":
      return [
        ...pipeline.columns.map(({ name, centre, factor }) => `${name}: (number − ${centre}) × ${factor}`),
        `windows of ${counted(pipeline.window, "row")}`,
      ].join("\n");
  }
}

function describeTable({ columns }: TablePipeline): string {
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

export const commands = [pipelineOf];
