/**
 * agent.json, the settings of one device: its lines, what trains them, on which data, how often. The profile
 * limits what its class of devices may use; the enrolment identifies the device. Reads and checks, decides
 * nothing.
 */
import { isAbsolute, join } from "node:path";
import * as z from "zod";
import { logLevels } from "../../shared/adapters/log-forms.js";
import type { Files } from "../../shared/ports.js";
import { releasePolicies } from "../../shared/trust/enrolment.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { deviceKeySchema } from "./device-key.js";
import { externalTrainerSchema } from "./external-trainer.js";
import { hooksSchema } from "./hooks.js";
import { ownerCertificateSchema } from "./owner-certificate.js";
import { measureProgramSchema } from "./measure-program.js";
import { describeIssues } from "../../shared/describe-issues.js";
import { parseJsonFile } from "./json-file.js";
import { configFieldInvalid } from "./settings-errors.js";
import { witnessesSchema } from "./witnesses.js";

/** Line names, like device names, are part of topics and folder names: no dots, no slashes. */
export const lineName = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/,
    "must be 1 to 64 letters, digits, - or _, beginning with a letter or digit",
  );
const scalar = z.union([z.string().max(4096), z.number(), z.boolean()]);

const datasetSchema = z.strictObject({
  reader: z.string().min(1).max(64),
  parameters: z
    .record(z.string().max(64), z.union([scalar, z.array(z.string().max(256)).max(256)]))
    .default({}),
  location: z.string().max(4096).optional(),
  hash: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .transform((text) => text as Hash)
    .optional(),
});

const lineFields = z.strictObject({
  /** Name of the models this line saves; `<line>-<device>` when absent. */
  name: z.string().min(1).max(128).optional(),
  /** Training recipe, `own:NAME` for one of the fleet's own; a line without one only receives models. */
  recipe: z.string().min(1).max(64).optional(),
  parameters: z.record(z.string().max(64), scalar).default({}),
  /** A program of the device's own that trains this line instead of a recipe. */
  trainer: externalTrainerSchema.optional(),
  /** A program of the device's own that measures this line's models instead of the engine. */
  measure: measureProgramSchema.optional(),
  /** Commands that are run when the line switches to another model. */
  hooks: hooksSchema,
  /** Training data; the line's own collected samples when absent. */
  dataset: datasetSchema.optional(),
  /** True if the samples of a training, collected or of its `dataset`, are sent to the server with its model. */
  sendSamples: z.boolean().default(false),
  /**
   * The way to report a trained model: its parameters; or its recipe and data at first, from which the server
   * makes the parameters, and gets them only where it cannot.
   */
  approach: z.enum(["parameters", "provenance"]).default("parameters"),
  /**
   * The states of its trainings that are committed to and kept, so that the server can check parts of them: steps
   * between two, percent of the time that they may take, and bytes for all that are kept. Further apart where they
   * would need more.
   */
  spotChecks: z
    .strictObject({
      everySteps: z.number().int().min(1).max(1_000_000_000),
      maxCostPercent: z.number().min(1).max(100).default(5),
      keepBytes: z
        .number()
        .int()
        .min(0)
        .default(256 * 2 ** 20),
    })
    .optional(),
  /**
   * Decimal seed of all random streams of this line's trainings; when absent, derived from device and line.
   */
  seed: z
    .string()
    .regex(/^\d{1,20}$/)
    .optional(),
  /** Overrides the profile's schedule for this line. */
  schedule: z
    .strictObject({
      everySeconds: z.number().positive().max(31_536_000).nullable().optional(),
      afterSamples: z.number().int().min(1).nullable().optional(),
      /** Total number of scheduled trainings; no limit when absent. */
      rounds: z.number().int().min(0).optional(),
    })
    .default({}),
  /** Folder whose *.jsonl files are read as samples and removed; `<home>/inbox/<line>` when absent. */
  watch: z.string().refine(isAbsolute, "must be an absolute path").optional(),
});

const lineSchema = lineFields.refine(({ recipe, trainer }) => recipe === undefined || trainer === undefined, {
  message: "a line has either a recipe or a trainer, not both",
  path: ["trainer"],
});

export const configSchema = z.strictObject({
  format: z.literal(1),
  /** Overrides the profile that the enrolment names: a built-in name or an absolute path. */
  profile: z.string().min(1).max(4096).optional(),
  /** The program that has this device's key, where that is not in the enrolment file. */
  deviceKey: deviceKeySchema.optional(),
  /** The device's certificate of its owner's authority, where it is enrolled with that. */
  certificate: ownerCertificateSchema.optional(),
  /** Overrides the profile's `training.threads`: devices of one class differ in cores. */
  threads: z.number().int().min(1).max(64).optional(),
  lines: z.record(lineName, lineSchema).default({}),
  /**
   * The policy for releases: whether only released versions and own ones are installed; absent: as pinned, or
   * as the enrolment asks.
   */
  releases: z.enum(releasePolicies).optional(),
  /** The witnesses of the fleet's journal, without whose cosignatures no model of the server is installed. */
  witnesses: witnessesSchema.optional(),
  /** Recipes of the fleet's own, whose code runs confined. */
  recipes: z
    .strictObject({
      /** The required confinement: `interpreter` is for devices that have no namespaces. */
      confinement: z.enum(["namespaces", "interpreter"]).default("namespaces"),
    })
    .default({ confinement: "namespaces" }),
  /** The file where the device states its power and its link, for rollouts that ask for some. */
  conditions: z
    .strictObject({
      file: z.string().max(4096).refine(isAbsolute, "must be an absolute path"),
      validSeconds: z.number().int().min(1).max(86_400).default(900),
    })
    .optional(),
  /** Seconds between two scans of the watched folders. */
  watchSeconds: z.number().min(0.05).max(3600).default(2),
  /** The agent's log; `agent run --log-level` and `--verbose` override the level. */
  log: z.strictObject({ level: z.enum(logLevels).default("info") }).default({ level: "info" }),
});

export type AgentConfig = z.infer<typeof configSchema>;
export type LineConfig = AgentConfig["lines"][string];

/**
 * Checks a parsed configuration.
 * @throws CONFIG_INVALID naming the field
 */
export function parseConfig(value: unknown, where: string): AgentConfig {
  const result = configSchema.safeParse(value);
  if (!result.success) throw configFieldInvalid(where, describeIssues(result.error));
  return result.data;
}

/**
 * Reads `<home>/agent.json`, or the file at `path`. A home without one gets the defaults: its lines only
 * receive models.
 * @throws CONFIG_INVALID naming the field
 */
export async function loadConfig(files: Files, home: string, path?: string): Promise<AgentConfig> {
  const file = path ?? join(home, "agent.json");
  if (path === undefined && (await files.stat(file)) === undefined)
    return parseConfig({ format: 1 }, "(none)");
  return parseConfig(await parseJsonFile(files, file, "CONFIG_INVALID"), file);
}
