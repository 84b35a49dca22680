/** The folder of a study: what is studied, and a file for each complete pair, so that a killed study goes on. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { criteria } from "../../../shared/determinism/reproduce/criteria.js";
import { setupNames, type Setup, type StudyPair } from "../../../shared/determinism/reproduce/study.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { fileError } from "../../../shared/files/file-error.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { readTextFile } from "../text-file.js";

const maxFileBytes = 1 << 20;
const seconds = z.number().nonnegative();

/** Everything that must be the same where a study goes on. */
const planSchema = z.strictObject({
  format: z.literal(1),
  command: z.array(z.string()),
  folder: z.string(),
  patch: z.record(z.string(), z.string()),
  seeds: z.array(z.number()),
  assets: z.array(z.strictObject({ path: z.string(), sha256: z.string() })),
});
export type StudyPlan = Readonly<z.infer<typeof planSchema>>;

const pairSchema = z.strictObject({
  setup: z.enum(setupNames as [Setup, ...Setup[]]),
  pair: z.int().positive(),
  seed: z.number().exactOptional(),
  seconds: z.tuple([seconds, seconds]),
  profileBytes: z.number().exactOptional(),
  modelBytes: z.number().exactOptional(),
  diverged: z.string().exactOptional(),
  verdict: z.enum(["equal", "different", "incomplete"]),
  findings: z.array(
    z.strictObject({
      criterion: z.enum(criteria),
      verdict: z.enum(["equal", "different", "only in A", "only in B", "not recorded"]),
      difference: z.number().exactOptional(),
    }),
  ),
}) satisfies z.ZodType<StudyPair>;

const planFile = "study.json";
const pairFile = (setup: Setup, pair: number): string => `${setup}-${pair}.json`;

/** Begins a study in a new folder, or goes on with the same one. @throws USAGE where another one is there */
export async function openStudy(folder: string, plan: StudyPlan): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw fileError(error, "make the folder", folder);
  }
  const found = await readOf(folder, planFile, planSchema);
  if (found === undefined) return await write(folder, planFile, plan);
  const differing = (Object.keys(planSchema.shape) as (keyof StudyPlan)[]).filter(
    (key) => JSON.stringify(found[key]) !== JSON.stringify(plan[key]),
  );
  if (differing.length > 0)
    throw new StemmaError(
      "USAGE",
      `${folder} has the study of something else: ${differing.join(", ")} differ. Repeat its command to go on with it, ` +
        "or give another --study.",
      { folder, differing },
    );
}

/** The pair, if it is complete. @throws USAGE where its file is damaged */
export async function readPair(folder: string, setup: Setup, pair: number): Promise<StudyPair | undefined> {
  const found = await readOf(folder, pairFile(setup, pair), pairSchema);
  if (found !== undefined && (found.setup !== setup || found.pair !== pair))
    throw damaged(join(folder, pairFile(setup, pair)));
  return found;
}

export async function writePair(folder: string, pair: StudyPair): Promise<void> {
  await write(folder, pairFile(pair.setup, pair.pair), pair);
}

async function write(folder: string, name: string, value: StudyPlan | StudyPair): Promise<void> {
  await writeDurably(nodeFiles(), join(folder, name), Buffer.from(`${JSON.stringify(value, null, 2)}\n`));
}

async function readOf<Value>(
  folder: string,
  name: string,
  schema: z.ZodType<Value>,
): Promise<Value | undefined> {
  const path = join(folder, name);
  let text: string;
  try {
    text = await readTextFile(path, maxFileBytes);
  } catch (error) {
    if (isStemmaError(error, "FILE_MISSING")) return undefined;
    throw error;
  }
  try {
    return schema.parse(JSON.parse(text));
  } catch (cause) {
    throw damaged(path, cause);
  }
}

function damaged(path: string, cause?: unknown): StemmaError {
  return new StemmaError(
    "USAGE",
    `${path} is not what a study of this release leaves. Remove that file, and its pair is run again; or give another --study.`,
    { path, cause },
  );
}
