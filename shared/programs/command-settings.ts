/** The settings that all programs of a user's own have in common: the command, its environment and its output. */
import { createHash } from "node:crypto";
import { isAbsolute } from "node:path";
import * as z from "zod";

/** A text that a program can be given. */
export const argumentSchema = z
  .string()
  .max(4096)
  .refine((text) => !text.includes("\0"), "must not contain a zero byte");

/** A program, by its absolute path, and its fixed arguments; no shell reads them. */
export const execSchema = z
  .array(argumentSchema)
  .min(1)
  .max(64)
  .refine(([program = ""]) => isAbsolute(program), "must begin with the absolute path of a program");

/** Bytes that a program may write. */
export const outputBytesSchema = z
  .number()
  .int()
  .min(4096)
  .max(2 ** 50);

export const variableName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/);

/** Environment variables by name. */
export const environmentSchema = z.record(variableName, argumentSchema).default({});

/** The members of a trainer's settings that mean the same on a device and on the machine of a modeller. */
export const trainerSettings = {
  exec: execSchema,
  /** Seconds after which it is ended. */
  timeoutSeconds: z.number().int().min(1).max(604_800).default(3600),
  /** Bytes that it may write; when absent, twice its base and 256 MiB. */
  maxOutputBytes: outputBytesSchema.optional(),
  /** True if it gets the samples of its training; one that has data of its own does not need them. */
  samples: z.boolean().default(true),
  /** Environment variables, in addition to those that every trainer gets. */
  environment: environmentSchema,
};

const absolutePath = argumentSchema.refine(isAbsolute, "must be an absolute path");

/** The part of a program that goes along with what it trains, so that it may be run again. */
export const recordSettings = {
  /** The program's own files. */
  files: z.array(absolutePath).max(256).default([]),
  /** The file that names its libraries with their versions. */
  lock: absolutePath.optional(),
  /** The variables of `environment` whose values go along; of others only the names. */
  variables: z.array(variableName).max(64).default([]),
};
export const recordSchema = z.strictObject(recordSettings);
export type RecordSettings = z.infer<typeof recordSchema>;

/** The files whose content is recorded. */
export function recordedFiles({
  record,
}: {
  readonly record?: RecordSettings | undefined;
}): readonly string[] {
  return record === undefined ? [] : [...record.files, ...(record.lock === undefined ? [] : [record.lock])];
}

/** The bytes that a trainer may write without a setting. */
export function defaultOutputBytes(baseBytes: number): number {
  return 2 * baseBytes + 256 * 1024 * 1024;
}

/** Hash of the program's path and its arguments. */
export function commandHash({ exec }: { readonly exec: readonly string[] }): string {
  return createHash("sha256").update("stemma-command-1\0").update(exec.join("\0")).digest("hex");
}
