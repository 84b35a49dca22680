/**
 * The way of a text into a model, rebuilt from the provenance record of its training (ME8): the vocabulary, and what is
 * counted of it. It gives the bits that the training saw. Pure.
 */
import * as z from "zod";
import { inputOf, numberKinds, textOf } from "./text-folder.js";
import { termKinds, termsOf } from "./terms.js";

/** The schema of a text pipeline, as `stemma model pipeline` writes it. */
export const textPipelineSchema = z.strictObject({
  kind: z.literal("stemma-texts"),
  format: z.literal(1),
  terms: z.enum(termKinds),
  numbers: z.enum(numberKinds),
  vocabulary: z.array(z.string().max(4096)).min(1).max(4096),
});
export type TextPipeline = z.infer<typeof textPipelineSchema>;

const descriptionSchema = z.object({
  reader: z.literal("text-folder"),
  parameters: z.looseObject({
    terms: z.enum(termKinds).default("unigrams"),
    numbers: z.enum(numberKinds).default("presence"),
  }),
  columns: z.array(z.object({ name: z.string(), role: z.string() })),
});

/** @returns undefined where the description is not one of texts in folders */
export function textPipelineOf(description: unknown): TextPipeline | undefined {
  const parsed = descriptionSchema.safeParse(description).data;
  if (parsed === undefined) return undefined;
  const { terms, numbers } = parsed.parameters;
  const vocabulary = parsed.columns.flatMap(({ name, role }) => (role === "input" ? name : []));
  return textPipelineSchema.safeParse({ kind: "stemma-texts", format: 1, terms, numbers, vocabulary }).data;
}

/** The input of one text (UTF-8): a number for each term of the vocabulary. @throws DATASET_MALFORMED */
export function inputOfText(pipeline: TextPipeline, bytes: Uint8Array, where: string): Float32Array {
  const { terms, numbers, vocabulary } = pipeline;
  return inputOf({ terms: termsOf(textOf(bytes, where), terms) }, vocabulary, numbers);
}
