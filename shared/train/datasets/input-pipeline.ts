/** Makes the inputs of a model from what an application has, whatever reader its training had (ME8). Pure. */
import * as z from "zod";
import { StemmaError } from "../../errors.js";
import { inputOfPicture, picturePipelineOf, picturePipelineSchema } from "./picture-pipeline.js";
import { inputsOf, pipelineOf, pipelineSchema, type PipelineInputs } from "./table-pipeline.js";
import { inputOfText, textPipelineOf, textPipelineSchema } from "./text-pipeline.js";
import { inputsOfWindows, windowPipelineOf, windowPipelineSchema } from "./window-pipeline.js";

/** The schema of pipelines, as `stemma model pipeline` writes them. */
export const inputPipelineSchema = z.discriminatedUnion("kind", [
  pipelineSchema,
  picturePipelineSchema,
  textPipelineSchema,
  windowPipelineSchema,
]);
export type InputPipeline = z.infer<typeof inputPipelineSchema>;

/**
 * @param description an entry of the provenance member `data`
 * @throws NOT_FOUND where the record describes no way to inputs, or was redacted
 */
export function inputPipelineOf(description: unknown): InputPipeline {
  return (
    picturePipelineOf(description) ??
    textPipelineOf(description) ??
    windowPipelineOf(description) ??
    pipelineOf(description)
  );
}

/** Encodes a pipeline as a file. */
export function encodePipeline(pipeline: InputPipeline): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify(pipeline, undefined, 1)}\n`);
}

export interface InputFile {
  /** Names the file in errors. */
  readonly where: string;
  readonly bytes: Uint8Array;
}

/**
 * The inputs of files: all rows of one table or sequence; one of each picture or text, in the order of the files.
 * @throws DATASET_MALFORMED naming the file
 */
export function inputsOfFiles(pipeline: InputPipeline, files: readonly InputFile[]): PipelineInputs {
  switch (pipeline.kind) {
    case "stemma-pipeline":
      return ofOneFile(files, ({ bytes, where }) => inputsOf(pipeline, bytes, where));
    case "stemma-windows":
      return ofOneFile(files, ({ bytes, where }) => inputsOfWindows(pipeline, bytes, where));
    case "stemma-pictures": {
      const { height, width, colours } = pipeline;
      const shape = [height, width, colours === "rgb" ? 3 : 1];
      return joined(shape, files, ({ bytes, where }) => inputOfPicture(pipeline, bytes, where));
    }
    case "stemma-texts": {
      const shape = [pipeline.vocabulary.length];
      return joined(shape, files, ({ bytes, where }) => inputOfText(pipeline, bytes, where));
    }
  }
}

function ofOneFile(files: readonly InputFile[], read: (file: InputFile) => PipelineInputs): PipelineInputs {
  const [file, ...others] = files;
  if (file !== undefined && others.length === 0) return read(file);
  throw new StemmaError(
    "DATASET_MALFORMED",
    `${files.length} files were given, and the inputs of this model come from the rows of one. Name that file.`,
  );
}

function joined(
  shape: readonly number[],
  files: readonly InputFile[],
  read: (file: InputFile) => Float32Array,
): PipelineInputs {
  const length = shape.reduce((a, b) => a * b, 1);
  const inputs = new Float32Array(files.length * length);
  files.forEach((file, index) => {
    inputs.set(read(file), index * length);
  });
  return { count: files.length, length, shape, inputs };
}
