/** The question which stored model an architecture shares the most layers with, and its answer. */
import * as z from "zod";
import { count, hash, modelText } from "../fields.js";
import type { ValueOf } from "../operation.js";

const text = z.string();

/** Weights as people write them (server/storage/lineage/source-weights.ts): each once, one of them more than 0. */
export const sourceWeightsText =
  /^(?=.*[1-9])(?!.*(prefix|quality|age)=.*\1=)(prefix|quality|age)=\d{1,6}(\.\d{1,6})?(,(prefix|quality|age)=\d{1,6}(\.\d{1,6})?){0,2}$/;

/** Weights by which models are ranked that a new one can inherit from. */
export const sourceRank = z
  .string()
  .regex(sourceWeightsText, "is not such as prefix=1,quality=0.5,age=0.1")
  .optional()
  .describe(
    "Weights of the common prefix, of quality and of age, such as prefix=1,quality=0.5; default: the longest prefix, then the highest quality, then the newest",
  );

/** Body of a question about an architecture: a stored model's, or one that is given. */
export const askingArchitecture = {
  model: modelText.optional().describe("The model that asks; it is not looked at itself"),
  modelJson: z
    .record(z.string(), z.unknown())
    .optional()
    .describe("Or an architecture: the content of a model.json with its weightsManifest"),
  rank: sourceRank,
};
/** A model.json of a few thousand layers. */
export const maxArchitectureBodyBytes = 16 * 1024 * 1024;

export const nearestModel = z
  .object({
    layers: count.describe("Layers of the architecture that asks"),
    indexed: count.describe("Models with an architecture that there were to choose from"),
    nearest: z
      .object({
        versionId: hash,
        name: text,
        version: count,
        layers: count.describe("Layers that both have, from the inputs on"),
        ofLayers: count.describe("Layers of this model"),
        tensors: z
          .array(z.object({ path: text, ancestor: text, name: text, bytes: count }))
          .describe(
            "Tensors that can be taken over: path in the model that asks; path, name, bytes in this one",
          ),
      })
      .nullable()
      .describe("Null where no model has the first layers"),
  })
  .meta({ id: "NearestModel" });
export type NearestModel = ValueOf<typeof nearestModel>;
