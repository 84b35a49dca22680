/**
 * Reads the program of a line whose owner has it recorded (`trainer.record`), so that a server may run it again. Only
 * what the owner lists goes along: the program then runs from a copy of these files, so that one that needs more fails
 * on the device, and not in a replay.
 */
import { stat } from "node:fs/promises";
import { basename, dirname, isAbsolute, relative, sep } from "node:path";
import { requireRecordable } from "../../shared/determinism/recorder/recordable.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError } from "../../shared/errors.js";
import { openRegularFile } from "../../shared/files/regular-file.js";
import { hashFile } from "../../shared/programs/hash-file.js";
import {
  encodeProgram,
  maxProgramBytes,
  maxProgramFiles,
  programId,
  type Program,
  type ProgramArgument,
  type ProgramFile,
} from "../../shared/programs/program-bundle.js";
import { machineFacts } from "../../shared/programs/program-record.js";
import type { MachineFacts } from "../../shared/provenance/provenance.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { CommandIdentity } from "../../shared/programs/trusted-command.js";
import { recordedFiles, type ExternalTrainer } from "../settings/external-trainer.js";
import { configFieldInvalid } from "../settings/settings-errors.js";

export interface RecordedProgram {
  readonly program: Program;
  readonly bytes: Uint8Array;
  readonly id: Hash;
  /** The interpreter's path; undefined where the program is an executable among its own files. */
  readonly interpreter: string | undefined;
  readonly machine: MachineFacts;
}

/**
 * @param command identified, for the hash of its interpreter
 * @returns undefined where the owner does not have it recorded
 * @throws CONFIG_INVALID where a listed file is missing or too large, or an argument is a file that is not listed
 */
export async function recordProgram(
  line: string,
  trainer: ExternalTrainer,
  command: Pick<CommandIdentity, "files">,
): Promise<RecordedProgram | undefined> {
  const { record, exec, environment } = trainer;
  if (record === undefined) return undefined;
  const field = `lines.${line}.trainer.record`;
  const unset = record.variables.find((name) => !Object.hasOwn(environment, name));
  if (unset !== undefined)
    throw configFieldInvalid(field, `lists the variable ${unset}, which trainer.environment does not set`);
  const listed = [...new Set(recordedFiles(trainer))];
  const folder = commonFolder(listed);
  const paths = listed.map((path) => ({ path, inside: relative(folder, path).split(sep).join("/") }));
  paths.sort((a, b) => (a.inside < b.inside ? -1 : 1));
  if (paths.length > maxProgramFiles)
    throw configFieldInvalid(field, `lists more than ${maxProgramFiles} files`);
  const files: ProgramFile[] = [];
  let left = maxProgramBytes;
  for (const { path, inside } of paths) {
    const file = await readListed(field, path, left);
    left -= file.bytes.length;
    files.push({ path: inside, ...file });
  }
  const program: Program = {
    exec: await argumentsOf(field, exec, paths),
    files,
    lock: record.lock === undefined ? undefined : paths.findIndex(({ path }) => path === record.lock),
    variables: Object.fromEntries(
      Object.entries(environment).filter(([name]) => record.variables.includes(name)),
    ),
    withheld: Object.keys(environment).filter((name) => !record.variables.includes(name)),
    ...(record.randomness ? { recordsRandomness: true } : {}),
  };
  if (record.randomness) await requireRecordedRandomness(field, exec);
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
async function requireRecordedRandomness(field: string, exec: readonly string[]): Promise<void> {
  try {
    await requireRecordable(exec);
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    throw configFieldInvalid(
      `${field}.randomness`,
      `is set, but ${messageOf(error)} Leave it out, or run another program`,
    );
  }
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
  field: string,
  exec: readonly string[],
  files: readonly { readonly path: string }[],
): Promise<readonly ProgramArgument[]> {
  const found: ProgramArgument[] = [];
  for (const [at, text] of exec.entries()) {
    const file = files.findIndex(({ path }) => path === text);
    if (file >= 0) found.push({ file });
    else if (at === 0) found.push({ interpreter: basename(text) });
    else if (isAbsolute(text) && (await stat(text).catch(() => undefined))?.isFile() === true)
      throw configFieldInvalid(
        field,
        `does not list the file ${text}, which is an argument of the program. List it in files: its content then ` +
          "goes to the server with each model",
      );
    else found.push({ text });
  }
  return found;
}

async function readListed(
  field: string,
  path: string,
  maxBytes: number,
): Promise<Pick<ProgramFile, "bytes" | "isExecutable">> {
  const { file, size, requireUnchanged } = await openRegularFile(path, { followLinks: true });
  try {
    if (size > maxBytes)
      throw configFieldInvalid(field, `lists files of more than ${maxProgramBytes} bytes together`);
    const bytes = new Uint8Array(size);
    const read = bytes.subarray(0, await file.read(bytes, 0));
    await requireUnchanged();
    return { bytes: read, isExecutable: ((await stat(path)).mode & 0o111) !== 0 };
  } finally {
    await file.close();
  }
}
