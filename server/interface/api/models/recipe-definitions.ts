/** Operations on a fleet's own recipes. */
import * as z from "zod";
import { maxBundleBytes } from "../../../../shared/train/own-recipes/bundle.js";
import type { RecipeSummary } from "../../../storage/repository/answers/code-answers.js";
import { count, fleetParams, fleetPath, hash, reasonText, shortText, timeMs } from "../fields.js";
import { call } from "../operation.js";

const recipeSummary = z
  .object({
    recipe: hash.describe("Id of the bundle, as save records name it"),
    name: z.string(),
    version: count.describe("The recipe's own number"),
    because: z.string(),
    atMs: timeMs,
    by: z.string().exactOptional().describe("The caller that approved it"),
    revoked: z
      .object({ atMs: timeMs, because: z.string(), by: z.string().exactOptional() })
      .exactOptional()
      .describe("Nothing runs it any more"),
    versions: count.describe("Kept versions that were trained by it"),
    devices: count.describe("Devices that were given it, because a line names it"),
    isStored: z.boolean().describe("false: the store lost it; approve it again"),
  })
  .meta({ id: "OwnRecipe" }) satisfies z.ZodType<RecipeSummary>;

const maxBase64Characters = Math.ceil(maxBundleBytes / 3) * 4;

export const recipeOperations = {
  recipes: call({
    summary: "The fleet's own recipes in the order of their approvals, revoked ones too",
    method: "GET",
    path: `${fleetPath}/recipes`,
    right: "read",
    params: fleetParams,
    output: z.array(recipeSummary),
  }),
  approveRecipe: call({
    summary:
      "Approve a recipe's bundle: it is described once, confined, and stored; trainings and replays may run it",
    method: "POST",
    path: `${fleetPath}/recipes`,
    right: "administer",
    params: fleetParams,
    body: {
      bundle: z.string().max(maxBase64Characters).describe("The bundle, one ES module, in base64"),
      expected: hash.optional().describe("The id that the bundle must have"),
      because: reasonText.optional(),
      dryRun: z.boolean().optional().describe("Only check it"),
    },
    maxBodyBytes: maxBase64Characters + 64 * 1024,
    output: z.object({
      recipe: hash,
      name: z.string(),
      version: count,
      title: z.string(),
      approved: z.boolean().describe("false after a dry run"),
    }),
    isLong: true,
  }),
  revokeRecipe: call({
    summary: "Do not run a recipe any more; versions that it trained stay, with its bundle",
    method: "POST",
    path: `${fleetPath}/recipes/:recipe/revoke`,
    right: "administer",
    params: { ...fleetParams, recipe: shortText.describe("Its name, its id, or at least 8 digits of that") },
    body: { because: reasonText.optional() },
    output: z.array(recipeSummary),
  }),
};
