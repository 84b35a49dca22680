/**
 * Reads a program whose owner has it recorded (`record` in a trainer's settings), so that a server may run it again.
 * Only what the owner lists goes along: the program then runs from a copy of these files, so that one that needs more
 * fails in its training, and not in a replay.
 */
import { stat } from "node:fs/promises";
import { basename, dirname, isAbsolute, relative, sep } from "node:path";
import { requireRecordable } from "../determinism/recorder/recordable.js";
import { messageOf } from "../error-text.js";
import { isStemmaError, type StemmaError } from "../errors.js";
import { openRegularFile } from "../files/regular-file.js";
import { hashFile } from "./hash-file.js";
import {
  encodeProgram,
  maxProgramBytes,
  maxProgramFiles,
  programAttachment,
  programId,
  type Program,
  type ProgramArgument,
  type ProgramFile,
} from "./program-bundle.js";
import { machineFacts } from "./program-record.js";
import type { MachineFacts } from "../provenance/provenance.js";
import type { Hash } from "../tensor/tensor.js";
import type { CommandIdentity } from "./trusted-command.js";
import { maxAttachmentBytes } from "../save/attachment-limit.js";
import { layoutName } from "../layouts/layout.js";
import { recordedFiles, type RecordSettings } from "./command-settings.js";
import type { Attachment, AttachmentSpace } from "./read-output.js";

export interface RecordedProgram {
  readonly program: Program;
  readonly bytes: Uint8Array;
  readonly id: Hash;
  /** The interpreter's path; undefined where the program is an executable among its own files. */
  readonly interpreter: string | undefined;
  readonly machine: MachineFacts;
}

/** A program and its settings, which may have it recorded. */
export interface ProgramToRecord {
  readonly exec: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly record?: (RecordSettings & { readonly randomness?: boolean }) | undefined;
}

/** Makes the error of a setting. @param why as the end of a sentence */
export type SettingInvalid = (field: string, why: string) => StemmaError;

/**
 * @param command identified, for the hash of its interpreter
 * @returns undefined where the owner does not have it recorded
 * @throws CONFIG_INVALID where a listed file is missing or too large, or an argument is a file that is not listed
 */
export async function recordProgram(
  trainer: ProgramToRecord,
  command: Pick<CommandIdentity, "files">,
  { field, invalid }: { readonly field: string; readonly invalid: SettingInvalid },
): Promise<RecordedProgram | undefined> {
  const { record, exec, environment } = trainer;
  if (record === undefined) return undefined;
  const refused = (why: string): StemmaError => invalid(field, why);
  const unset = record.variables.find((name) => !Object.hasOwn(environment, name));
  if (unset !== undefined)
    throw refused(`lists the variable ${unset}, which trainer.environment does not set`);
  const listed = [...new Set(recordedFiles(trainer))];
  const folder = commonFolder(listed);
  const paths = listed.map((path) => ({ path, inside: relative(folder, path).split(sep).join("/") }));
  paths.sort((a, b) => (a.inside < b.inside ? -1 : 1));
  if (paths.length > maxProgramFiles) throw refused(`lists more than ${maxProgramFiles} files`);
  const files: ProgramFile[] = [];
  let left = maxProgramBytes;
  for (const { path, inside } of paths) {
    const file = await readListed(path, left, refused);
    left -= file.bytes.length;
    files.push({ path: inside, ...file });
  }
  const program: Program = {
    exec: await argumentsOf(exec, paths, refused),
    files,
    lock: record.lock === undefined ? undefined : paths.findIndex(({ path }) => path === record.lock),
    variables: Object.fromEntries(
      Object.entries(environment).filter(([name]) => record.variables.includes(name)),
    ),
    withheld: Object.keys(environment).filter((name) => !record.variables.includes(name)),
    ...(record.randomness === true ? { recordsRandomness: true } : {}),
  };
  if (record.randomness === true) await requireRecordedRandomness({ field, invalid }, exec);
  const [first = ""] = exec;
  const interpreter = listed.includes(first) ? undefined : first;
  const bytes = encodeProgram(program);
  const hashed = command.files.find(({ argument }) => argument === 0);
  const machine = machineFacts(
    interpreter === undefined ? undefined : (hashed?.sha256 ?? (await hashFile(interpreter))),
  );
  return { program, bytes, id: programId(bytes), interpreter, machine };
}

/** @throws CONFIG_INVALID for a program of which a recorder would see nothing */
async function requireRecordedRandomness(
  { field, invalid }: { readonly field: string; readonly invalid: SettingInvalid },
  exec: readonly string[],
): Promise<void> {
  try {
    await requireRecordable(exec);
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    throw invalid(
      `${field}.randomness`,
      `is set, but ${messageOf(error)} Leave it out, or run another program`,
    );
  }
}

/** The attachments that a program may leave, beside those that Stemma attaches. */
export function spaceBeside(recorded: Pick<RecordedProgram, "bytes"> | undefined): AttachmentSpace {
  return {
    maxBytes: maxAttachmentBytes - (recorded?.bytes.length ?? 0),
    taken: [layoutName, ...(recorded === undefined ? [] : [programAttachment])],
  };
}

/** The recorded program as an attachment of its model. */
export function programAttachments(
  recorded: Pick<RecordedProgram, "bytes"> | undefined,
): readonly Attachment[] {
  return recorded === undefined ? [] : [{ name: programAttachment, bytes: recorded.bytes }];
}

/** The deepest folder that all files are below. */
function commonFolder(paths: readonly string[]): string {
  const [first = "/"] = paths;
  let folder = dirname(first);
  while (!paths.every((path) => path.startsWith(folder === sep ? sep : folder + sep)))
    folder = dirname(folder);
  return folder;
}

async function argumentsOf(
  exec: readonly string[],
  files: readonly { readonly path: string }[],
  refused: (why: string) => StemmaError,
): Promise<readonly ProgramArgument[]> {
  const found: ProgramArgument[] = [];
  for (const [at, text] of exec.entries()) {
    const file = files.findIndex(({ path }) => path === text);
    if (file >= 0) found.push({ file });
    else if (at === 0 && (await isScript(text)))
      throw refused(
        `does not list the script ${text}, which starts a program that would not be recorded. Name that program in ` +
          "exec in its place, or list the script in files",
      );
    else if (at === 0) found.push({ interpreter: basename(text) });
    else if (isAbsolute(text) && (await stat(text).catch(() => undefined))?.isFile() === true)
      throw refused(
        `does not list the file ${text}, which is an argument of the program. List it in files: its content then ` +
          "goes to the server with each model",
      );
    else found.push({ text });
  }
  return found;
}

/** True where the system runs it by another program, as the commands are that version managers put in its place. */
async function isScript(path: string): Promise<boolean> {
  const { file } = await openRegularFile(path, { followLinks: true });
  try {
    const first = new Uint8Array(2);
    await file.read(first, 0);
    return Buffer.from(first).toString("latin1") === "#!";
  } finally {
    await file.close();
  }
}

async function readListed(
  path: string,
  maxBytes: number,
  refused: (why: string) => StemmaError,
): Promise<Pick<ProgramFile, "bytes" | "isExecutable">> {
  const { file, size, requireUnchanged } = await openRegularFile(path, { followLinks: true });
  try {
    if (size > maxBytes) throw refused(`lists files of more than ${maxProgramBytes} bytes together`);
    const bytes = new Uint8Array(size);
    const read = bytes.subarray(0, await file.read(bytes, 0));
    await requireUnchanged();
    return { bytes: read, isExecutable: ((await stat(path)).mode & 0o111) !== 0 };
  } finally {
    await file.close();
  }
}
