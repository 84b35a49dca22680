/**
 * Turns a sequence into a model's inputs, rebuilt from the provenance record of its training (ME8). It states which
 * columns, with which scales, and how many rows a window has. It gives the bits that the training saw. Pure.
 */
import * as z from "zod";
import { StemmaError } from "../../errors.js";
import { parseCsv } from "./csv-records.js";
import type { PipelineInputs } from "./table-pipeline.js";

/** The schema of a window pipeline, as `stemma model pipeline` writes it. */
export const windowPipelineSchema = z.strictObject({
  kind: z.literal("stemma-windows"),
  format: z.literal(1),
  /** Rows of one sample, of which the last is the newest. */
  window: z.number().int().min(1).max(512),
  /** A number becomes (number − centre) × factor. */
  columns: z
    .array(z.strictObject({ name: z.string().min(1).max(4096), centre: z.number(), factor: z.number() }))
    .min(1)
    .max(64),
});
export type WindowPipeline = z.infer<typeof windowPipelineSchema>;

const descriptionSchema = z.object({
  reader: z.enum(["nasa-battery", "battery-simulated"]),
  columns: z.array(z.object({ name: z.string(), role: z.string() })),
  transformations: z.array(z.unknown()),
});
/** "NAME → (NAME − CENTRE) × FACTOR"; escaped, because bundles are read as ASCII. */
const scalePattern = /^(\w+) \u2192 \(\1 \u2212 (-?[0-9.]+)\) \u00d7 (-?[0-9.]+)$/;
const windowPattern = /^windows of (\d{1,3}) cycles$/;

/** @returns undefined where the description is not one of windows over cycles */
export function windowPipelineOf(description: unknown): WindowPipeline | undefined {
  const parsed = descriptionSchema.safeParse(description).data;
  if (parsed === undefined) return undefined;
  const steps = parsed.transformations.filter((step) => typeof step === "string");
  const scales = new Map(
    steps.flatMap((step) => {
      const [, name, centre, factor] = scalePattern.exec(step) ?? [];
      return name === undefined ? [] : [[name, { centre: Number(centre), factor: Number(factor) }] as const];
    }),
  );
  const inputs = parsed.columns.filter(({ role }) => role === "input");
  return windowPipelineSchema.safeParse({
    kind: "stemma-windows",
    format: 1,
    window: Number(steps.flatMap((step) => windowPattern.exec(step)?.[1] ?? [])[0]),
    columns: inputs.map(({ name }) => ({ name, ...scales.get(name) })),
  }).data;
}

/**
 * The inputs of a CSV file with a header line and a line for each cycle, oldest first: a window ends at each row that
 * has enough rows before it. Columns are found by their names; others are skipped.
 * @throws DATASET_MALFORMED naming file, line and column
 */
export function inputsOfWindows(pipeline: WindowPipeline, bytes: Uint8Array, where: string): PipelineInputs {
  const { window, columns } = pipeline;
  const malformed = (problem: string): StemmaError =>
    new StemmaError("DATASET_MALFORMED", `${where}: ${problem}. Correct the file.`, { file: where });
  const [head, ...rows] = parseCsv({ bytes, where, delimiter: "," });
  const places = columns.map(({ name }) => {
    const at = head?.fields.indexOf(name) ?? -1;
    if (at < 0) throw malformed(`it has no column "${name.slice(0, 60)}", which the model needs`);
    return at;
  });
  if (rows.length < window) throw malformed(`it has ${rows.length} rows, and a window has ${window}`);
  const scaled = rows.map(({ line, fields }) =>
    columns.map(({ name, centre, factor }, column) => {
      const text = fields[places[column] as number] ?? "";
      const number = text.trim() === "" ? NaN : Number(text);
      if (!Number.isFinite(number)) throw malformed(`line ${line} has no number in "${name.slice(0, 60)}"`);
      return (number - centre) * factor;
    }),
  );
  const count = rows.length - window + 1;
  const length = window * columns.length;
  const inputs = new Float32Array(count * length);
  for (let first = 0; first < count; first++)
    inputs.set(scaled.slice(first, first + window).flat(), first * length);
  return { count, length, shape: [window, columns.length], inputs };
}
