/**
 * The settings of a user's own program that trains candidates: a file that the command line names, on the machine that
 * runs it. They are those of a device's trainer (docs/own-models.md), and the metric that the program measures. No
 * request has them: nothing runs that somebody sent.
 */
import { createHash } from "node:crypto";
import * as z from "zod";
import { defined } from "../defined.js";
import { describeIssues } from "../describe-issues.js";
import { StemmaError } from "../errors.js";
import { recordedFiles, recordSchema, trainerSettings } from "./command-settings.js";
import { recordProgram, type RecordedProgram } from "./record-program.js";
import { checkCommand, checkSettingsFile, identifyCommand, type CommandIdentity } from "./trusted-command.js";

const schema = z.strictObject({
  ...trainerSettings,
  /** The program's own files, which are stored with each model, so that it can be run again; absent: none are. */
  record: recordSchema.optional(),
  /** The metric that it measures when a training has ended, where a rule keeps candidates by it. */
  metric: z
    .strictObject({ name: z.string().min(1).max(64), lowerIsBetter: z.boolean().default(false) })
    .optional(),
});
export type ProgramSettings = z.infer<typeof schema>;

/** Settings, and the file that they are in. */
export interface ProgramFile {
  readonly path: string;
  readonly settings: ProgramSettings;
}

/** A program that may run, as it is now. */
export interface TrustedProgram {
  readonly settings: ProgramSettings;
  readonly command: CommandIdentity;
  /** The program's files, from whose copy it runs, where its owner has it recorded. */
  readonly recorded?: RecordedProgram;
  /** Hash of the settings, and of the program's files: an evaluation goes on with the same alone. */
  readonly id: string;
}

/**
 * @param path of the file, for messages
 * @throws CONFIG_INVALID
 */
export function programSettingsOf(value: unknown, path: string): ProgramSettings {
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  throw new StemmaError(
    "CONFIG_INVALID",
    `${path} does not have the settings of a program that trains: ${describeIssues(read.error)}. Write such as ` +
      '{"exec": ["/usr/bin/python3", "/home/me/train.py"], "timeoutSeconds": 600}; docs/own-models.md has the members.',
  );
}

/**
 * Looks at the program before anything is trained.
 * @throws CONFIG_INVALID where it is missing, or others than this user and root may change it or its settings
 */
export async function trustedProgram({ settings, path }: ProgramFile): Promise<TrustedProgram> {
  const owner = process.getuid?.();
  const texts = {
    title: "The program that is to train cannot be used",
    file: path,
    afterwards: "run the same command again",
  };
  await checkSettingsFile(path, owner, texts);
  const exec = [...settings.exec, ...recordedFiles(settings)];
  await checkCommand({ exec }, { field: "exec", owner, settings: texts });
  const command = await identifyCommand(settings);
  const recorded = await recordProgram(settings, command, {
    field: "record",
    invalid: (field, why) => new StemmaError("CONFIG_INVALID", `${path}: ${field} ${why}.`, { field }),
  });
  const id = createHash("sha256")
    .update(JSON.stringify([settings, command, ...(recorded === undefined ? [] : [recorded.id])]))
    .digest("hex");
  return { settings, command, id, ...defined({ recorded }) };
}
