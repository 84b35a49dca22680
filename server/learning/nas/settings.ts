/** Defines the request of a search, as `search.json` in its folder keeps it. */
import * as z from "zod";
import { sourceWeightsText } from "../../interface/api/models/nearest-schemas.js";
import { searchDamaged } from "./search-errors.js";
import { spaceSchema } from "./search-space.js";

const count = z.number().int().min(1);

const settingsSchema = z.strictObject({
  format: z.literal(1),
  fleet: z.string(),
  /** The name of the models. */
  name: z.string(),
  /** Name of registered data. */
  data: z.string(),
  space: spaceSchema,
  strategy: z.enum(["evolution", "random"]),
  population: count,
  sample: count,
  drop: z.enum(["oldest", "worst"]),
  seed: z.string(),
  epochs: count,
  batchSize: count,
  learningRate: z.number(),
  transfer: z.boolean(),
  keepAll: z.boolean(),
  /** Weights by which sources are chosen; absent: by prefix, then quality, then age. */
  rank: z.string().regex(sourceWeightsText).exactOptional(),
  /** The step after which candidates are judged, and by what share of those before; absent: none is. */
  judgeAfter: count.exactOptional(),
  judgeShare: z.number().gt(0).lte(1).exactOptional(),
  /** The number of candidates that was asked for last; unlike the others it may change. */
  candidates: count.exactOptional(),
});
export type KeptSettings = z.infer<typeof settingsSchema>;

/** @throws SEARCH_DAMAGED */
export function checkSettings(value: unknown, where: string): KeptSettings {
  const read = settingsSchema.safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw searchDamaged(
    where,
    `it does not have the settings of a search: ${issue?.path.join(".") ?? ""} ${issue?.message ?? ""}`,
  );
}
