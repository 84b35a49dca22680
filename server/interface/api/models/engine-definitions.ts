/** Operations on training engines, which replays run. */
import * as z from "zod";
import { maxEngineBytes } from "../../../../shared/train/engine-archive.js";
import type { EngineSummary } from "../../../storage/repository/answers/code-answers.js";
import { count, fleetParams, fleetPath, hash, reasonText, shortText, timeMs } from "../fields.js";
import { call } from "../operation.js";

const engineSummary = z
  .object({
    engine: hash.describe("Id of the stored archive, as save records name it"),
    engineId: hash.describe("What trainings with it report"),
    source: z.enum(["build", "approval"]).describe("build: it came with the server"),
    because: z.string(),
    atMs: timeMs,
    by: z.string().exactOptional().describe("The caller that approved it, or whose training stored it"),
    versions: count.describe("Kept versions that were trained by it"),
    isStored: z.boolean().describe("false: the store lost it; approve it again"),
  })
  .meta({ id: "Engine" }) satisfies z.ZodType<EngineSummary>;

const maxBase64Characters = Math.ceil(maxEngineBytes / 3) * 4;

export const engineOperations = {
  engines: call({
    summary: "Training engines that may be run here, oldest first",
    method: "GET",
    path: `${fleetPath}/engines`,
    right: "read",
    params: fleetParams,
    output: z.array(engineSummary),
  }),
  approveEngine: call({
    summary: "Approve a training engine: its code is run once, stored, and run by replays that need it",
    method: "POST",
    path: `${fleetPath}/engines`,
    right: "administer",
    scoped: "refused",
    params: fleetParams,
    body: {
      archive: z
        .string()
        .max(maxBase64Characters)
        .describe("The archive of the engine's files (docs/formats.md, Engine) in base64"),
      expected: hash.optional().describe("The engine id that it must have"),
      because: reasonText.optional(),
      dryRun: z.boolean().optional().describe("Only check it; it is not run"),
    },
    maxBodyBytes: maxBase64Characters + 64 * 1024,
    output: z.object({
      engine: hash,
      engineId: hash,
      jobForm: count.describe("Form of the jobs that it reads"),
      approved: z.boolean().describe("false after a dry run"),
    }),
    isLong: true,
  }),
  removeEngine: call({
    summary: "Do not run an engine any more; the next collection frees it",
    method: "POST",
    path: `${fleetPath}/engines/:engine/remove`,
    right: "administer",
    params: {
      ...fleetParams,
      engine: shortText.describe("Id of the engine or its archive, or at least 8 digits"),
    },
    body: { because: reasonText.optional() },
    output: z.array(engineSummary).describe("Those that are left"),
  }),
};
