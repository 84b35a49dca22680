/** The schema of a job, which the engine checks before it does anything else. */
import * as z from "zod";
import { StemmaError } from "../../errors.js";
import { maxEvaluated, type EvaluationJob } from "../evaluation-job.js";
import { maxLeaves } from "../state-leaf.js";
import { jobFormat, type TrainingJob } from "../training.js";

const hash = z.string().regex(/^[0-9a-f]{64}$/);
const scalar = z.union([z.string().max(4096), z.number(), z.boolean()]);
const dataset = z.strictObject({
  reader: z.string().min(1).max(100),
  parameters: z.record(z.string().max(100), z.union([scalar, z.array(z.string().max(200)).max(10_000)])),
  location: z.string().max(4096).optional(),
  hash: hash.optional(),
});
const base = z.strictObject({ folder: z.string().min(1).max(4096), versionId: hash.optional() });
const memoryLimitMb = z.number().int().min(16).optional();
/** The largest number of threads; the engine takes the largest number that it can use. */
const threads = z.number().int().min(1).max(1024).optional();
const steps = z.number().int().min(0);
const training = z.strictObject({
  format: z.literal(jobFormat),
  recipe: z.string().min(1).max(100),
  ownRecipe: z
    .strictObject({
      id: hash,
      file: z.string().min(1).max(4096),
      command: z.array(z.string().max(8192)).min(1).max(200),
    })
    .optional(),
  parameters: z.record(z.string().max(100), scalar),
  dataset,
  seed: z.string().regex(/^(0|[1-9][0-9]{0,19})$/),
  invocation: z.number().int().min(0),
  base: base.optional(),
  memoryLimitMb,
  threads,
  state: z
    .strictObject({
      folder: z.string().min(1).max(4096),
      everySeconds: z.number().min(0).max(86_400).optional(),
      maxBytes: z.number().int().min(0).optional(),
    })
    .optional(),
  maxCheckpoints: z.number().int().min(0).max(10_000).optional(),
  lossReports: z.array(z.number().int().min(1)).min(1).max(1000).optional(),
  leaves: z
    .strictObject({
      everySteps: steps.min(1),
      maxCostPercent: z.number().min(0).max(100).optional(),
      keep: z
        .strictObject({ folder: z.string().min(1).max(4096), bytes: z.number().int().min(0) })
        .optional(),
    })
    .optional(),
  segments: z
    .array(
      z.strictObject({
        file: z.string().min(1).max(4096).optional(),
        fromStep: steps,
        toStep: steps,
        isLast: z.boolean(),
        everySteps: steps.min(1).optional(),
      }),
    )
    .min(1)
    .max(maxLeaves)
    .optional(),
});

const count = z.number().int().min(1).max(maxEvaluated).optional();
const evaluation = z.strictObject({
  format: z.literal(jobFormat),
  evaluate: z.strictObject({
    top: count,
    limit: count,
    outputs: z.boolean().optional(),
    inference: z.boolean().optional(),
  }),
  dataset,
  base,
  memoryLimitMb,
  threads,
});

const maxJobBytes = 8 * 1024 * 1024;

/**
 * Parses and checks job.json.
 * @throws RECIPE_PARAMETERS_INVALID naming the wrong field
 */
export function parseJob(bytes: Uint8Array): TrainingJob | EvaluationJob {
  const refuse = (problem: string, cause?: unknown): never => {
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The job is malformed: ${problem}. Correct it and start it again.`,
      { cause },
    );
  };
  if (bytes.length > maxJobBytes) refuse(`it has ${bytes.length} bytes, more than ${maxJobBytes}`);
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8"));
  } catch (cause) {
    return refuse("it is not valid JSON", cause);
  }
  const format: unknown = (value as { format?: unknown } | null)?.format;
  if (Number.isInteger(format) && format !== jobFormat)
    refuse(
      `it has the form ${String(format)}, and this engine reads the form ${jobFormat}. Use the engine ` +
        "that the job was written for",
    );
  const checked = (
    typeof value === "object" && value !== null && "evaluate" in value ? evaluation : training
  ).safeParse(value);
  if (!checked.success) {
    const [issue] = checked.error.issues;
    return refuse(`${issue?.path.join(".") ?? ""}: ${issue?.message ?? "invalid"}`);
  }
  return checked.data as TrainingJob | EvaluationJob;
}
