/** The linked backend of an agent's home, `native/`: what is in it, and the facts of which link.json keeps a record. */
import { join } from "node:path";
import * as z from "zod";
import { messageOf } from "../../shared/error-text.js";
import type { EnvironmentFacts } from "../../shared/model/environment.js";
import type { Files } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { runsDisagree, type RunnerManifest } from "../../shared/train/native/native-class.js";
import { describeIssues } from "../../shared/describe-issues.js";
import { parseJsonFile } from "../settings/json-file.js";
import { linkDamaged } from "./backend-errors.js";

const hash = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .transform((text) => text as Hash);
const text = z.string().max(4096);
const names = z.array(z.string().max(512)).max(1000);

const linkSchema = z.strictObject({
  format: z.literal(1),
  /** Id of the linked runner, which its trainings report. */
  runner: hash,
  /** Folder of the libraries. */
  folder: text,
  libraries: z
    .array(z.strictObject({ name: text, bytes: z.number(), modifiedMs: z.number(), sha256: hash }))
    .length(2),
  binding: z.strictObject({ sha256: hash, from: z.enum(["compiled", "taken"]) }),
  /** Versions of the libraries in the runner. */
  versions: z.record(text, text),
  probe: z.strictObject({
    worst: z.strictObject({ operation: text, error: z.number() }),
    compared: z.number(),
    peakBytes: z.number(),
    loadOrder: names,
    backendOrder: names,
    /** Lines of the library about GPUs. */
    notes: names,
  }),
  linkedAtMs: z.number(),
  stemma: text,
});
const manifestSchema = z.strictObject({
  job: z.number().int(),
  knownAnswer: text,
  class: z.strictObject({
    tensorflow: text,
    library: hash,
    arch: text,
    instructionSet: text,
    threads: z.number().int().min(1),
    oneDnn: text,
    deterministicOps: text,
    gpu: text.optional(),
    driver: text.optional(),
    cuda: text.optional(),
    cudnn: text.optional(),
    referenceTraining: text,
  }),
});

export interface Link extends z.infer<typeof linkSchema> {
  readonly class: RunnerManifest["class"];
}

export const nativeFolder = (home: string): string => join(home, "native");
const linkFile = (folder: string): string => join(folder, "link.json");
const manifestFile = (folder: string): string => join(folder, "engine.json");

/** @returns undefined where nothing is linked. @throws BACKEND_UNAVAILABLE where it cannot be read */
export async function readLink(files: Files, folder: string): Promise<Link | undefined> {
  if ((await files.stat(linkFile(folder))) === undefined) return undefined;
  const parse = async <T>(path: string, schema: z.ZodType<T>): Promise<T> => {
    const result = schema.safeParse(await parseJsonFile(files, path, "BACKEND_UNAVAILABLE"));
    if (!result.success) throw linkDamaged(path, describeIssues(result.error));
    return result.data;
  };
  const { class: exactness } = await parse(manifestFile(folder), manifestSchema);
  return { ...(await parse(linkFile(folder), linkSchema)), class: exactness };
}

/** Returns why nothing may train on what is linked; undefined where it may. Reads no library. */
export async function whyUnusable(files: Files, { folder, libraries }: Link): Promise<string | undefined> {
  for (const { name, bytes, modifiedMs } of libraries) {
    const path = join(folder, name);
    try {
      const found = await files.stat(path);
      if (found === undefined) return `${path} is not there any more`;
      if (found.size !== bytes || found.modifiedMs !== modifiedMs)
        return `${path} changed since it was linked`;
    } catch (error) {
      return messageOf(error);
    }
  }
  return undefined;
}

/** The facts that the environment of a version trained on it states. */
export function environmentOfLink({ class: exactness, versions, probe }: Link): Partial<EnvironmentFacts> {
  const { tensorflow, library, ...facts } = exactness;
  return {
    ...facts,
    libraries: { ...versions, tensorflow, "tensorflow.sha256": library },
    loadOrder: probe.loadOrder.join(", "),
    backendOrder: probe.backendOrder.join(", "),
  };
}

/** A line for people: the version, where it is, what it runs on, and whether two runs agree. */
export function describeLink({ class: exactness, folder }: Link): string {
  const { tensorflow, gpu, threads, referenceTraining } = exactness;
  const device = gpu === undefined ? `no GPU, ${threads} thread${threads === 1 ? "" : "s"}` : `GPU ${gpu}`;
  const runs = referenceTraining === runsDisagree ? "two runs disagree" : "two runs agree";
  return `libtensorflow ${tensorflow} in ${folder}, ${device}, ${runs}`;
}
