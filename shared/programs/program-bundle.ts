/**
 * A user's own training program as one object: what is run, and with which files. (docs/formats.md, "Program of a
 * story") The object's hash names the program wherever it came from; no path of the device is in it beyond its files'
 * places to each other.
 *
 * Bytes: "STEMPROG" ‖ format u32 ‖ length of the manifest u32 ‖ manifest (canonical JSON) ‖ the files' bytes, in order.
 * Format 2 has the member `randomness`: an earlier release, which would run the program without it, refuses that.
 */
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { StemmaError } from "../errors.js";
import { fileError } from "../files/file-error.js";
import { decodeCanonical, encodeCanonical, type CanonicalValue } from "../model/canonical-json.js";
import { objectId } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

/** The name of the attachment that a version has its program in. */
export const programAttachment = "stemma-program";
/** Longest object; the attachments of a version have 48 MiB together. */
export const maxProgramBytes = 8 * 1024 * 1024;
export const maxProgramFiles = 256;

/** An argument as it is; a file of the program; or the interpreter, which is not among the files. */
export type ProgramArgument =
  { readonly text: string } | { readonly file: number } | { readonly interpreter: string };

export interface ProgramFile {
  /** The path from the folder that all files have in common. */
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly isExecutable: boolean;
}

export interface Program {
  /** The command, whose first argument is an interpreter or an executable file. */
  readonly exec: readonly ProgramArgument[];
  /** The files in the order of their paths. */
  readonly files: readonly ProgramFile[];
  /** The index of the file that locks the libraries' versions. */
  readonly lock?: number | undefined;
  /** Environment variables that go along. */
  readonly variables: Readonly<Record<string, string>>;
  /** Names of those whose values stay on the device. */
  readonly withheld: readonly string[];
  /** True if it runs with the recorder, which keeps what it draws, and gives it again in a replay. */
  readonly recordsRandomness?: boolean;
}

const magic = "STEMPROG";
const headerBytes = 16;
const limits = { maxBytes: 512 * 1024, maxDepth: 4 };
const maxArguments = 64;
const maxVariables = 64;
const maxText = 4096;
const maxPath = 240;
const variableName = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;
/** One part of a path: not "." or "..", without separators and characters that a terminal obeys. */
const pathPart = /^(?!\.{1,2}$)[^/\\\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]{1,128}$/u;

type Members = Readonly<Record<string, CanonicalValue | undefined>>;

export function programId(bytes: Uint8Array): Hash {
  return objectId("attachment", bytes);
}

/** @throws PROGRAM_INVALID */
export function encodeProgram(program: Program): Uint8Array {
  const { exec, files, lock, variables, withheld, recordsRandomness = false } = program;
  const manifest = encodeCanonical(
    {
      exec: exec.map((argument) => ({ ...argument })),
      files: files.map(({ path, bytes, isExecutable }) => ({
        path,
        byteLength: bytes.length,
        executable: isExecutable,
      })),
      lock,
      variables,
      withheld,
      ...(recordsRandomness ? { randomness: "recorded" } : {}),
    },
    limits,
  );
  const header = Buffer.alloc(headerBytes);
  header.write(magic, "latin1");
  header.writeUInt32LE(recordsRandomness ? 2 : 1, 8);
  header.writeUInt32LE(manifest.length, 12);
  const bytes = new Uint8Array(Buffer.concat([header, manifest, ...files.map((file) => file.bytes)]));
  decodeProgram(bytes);
  return bytes;
}

/** Reads a program that may be hostile; the files share its memory. @throws PROGRAM_INVALID */
export function decodeProgram(bytes: Uint8Array): Program {
  if (bytes.length > maxProgramBytes) return invalid(`it has more than ${maxProgramBytes} bytes`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < headerBytes || Buffer.from(bytes.subarray(0, 8)).toString("latin1") !== magic)
    return invalid("it does not begin like one");
  const format = view.getUint32(8, true);
  if (format !== 1 && format !== 2) return invalid("its format is not 1 or 2");
  const length = view.getUint32(12, true);
  if (length > limits.maxBytes || length > bytes.length - headerBytes) return invalid("it is cut short");
  const manifest = membersOf(manifestOf(bytes.subarray(headerBytes, headerBytes + length)), "its manifest", [
    "exec",
    "files",
    "lock",
    "variables",
    "withheld",
    ...(format === 2 ? ["randomness"] : []),
  ]);
  if (format === 2 && manifest["randomness"] !== "recorded")
    return invalid("it does not state that its randomness is recorded");
  const files = filesOf(manifest["files"], bytes.subarray(headerBytes + length));
  const lock = manifest["lock"] === undefined ? undefined : indexOf(manifest["lock"], files.length);
  return {
    exec: execOf(manifest["exec"], files),
    files,
    lock,
    variables: variablesOf(manifest["variables"]),
    withheld: listOf(manifest["withheld"], "withheld", maxVariables).map((name) =>
      typeof name === "string" && variableName.test(name)
        ? name
        : invalid("withheld is not names of variables"),
    ),
    ...(format === 2 ? { recordsRandomness: true } : {}),
  };
}

function manifestOf(bytes: Uint8Array): CanonicalValue {
  try {
    return decodeCanonical(bytes, limits);
  } catch (cause) {
    return invalid("its manifest is not canonical JSON", cause);
  }
}

function filesOf(value: CanonicalValue | undefined, content: Uint8Array): readonly ProgramFile[] {
  let at = 0;
  const files = listOf(value, "files", maxProgramFiles).map((item): ProgramFile => {
    const { path, byteLength, executable } = membersOf(item, "a file", ["path", "byteLength", "executable"]);
    if (typeof path !== "string" || path.length > maxPath || !path.split("/").every(isPathPart))
      return invalid("a file has a path that leads out of its folder, or cannot be shown");
    if (typeof executable !== "boolean") return invalid("a file does not state whether it is executable");
    const length = indexOf(byteLength, content.length - at + 1);
    at += length;
    return { path, bytes: content.subarray(at - length, at), isExecutable: executable };
  });
  if (at !== content.length) invalid("bytes follow its last file");
  const paths = new Set(files.map(({ path }) => path));
  files.forEach(({ path }, i) => {
    if (i > 0 && (files[i - 1] as ProgramFile).path >= path)
      invalid("its files are not in the order of their paths");
    for (let folder = dirname(path); folder !== "."; folder = dirname(folder))
      if (paths.has(folder)) invalid("one of its files is the folder of another");
  });
  return files;
}

function isPathPart(part: string): boolean {
  return pathPart.test(part);
}

function execOf(value: CanonicalValue | undefined, files: readonly ProgramFile[]): Program["exec"] {
  const exec = listOf(value, "exec", maxArguments).map((item, i): ProgramArgument => {
    const { text, file, interpreter, ...others } = membersOf(item, "an argument");
    if (Object.keys(others).length > 0) return invalid("an argument has an unknown member");
    if (isText(text) && file === undefined && interpreter === undefined && i > 0) return { text };
    if (file !== undefined && text === undefined && interpreter === undefined)
      return { file: indexOf(file, files.length) };
    if (i === 0 && text === undefined && typeof interpreter === "string" && isPathPart(interpreter))
      return { interpreter };
    return invalid("an argument is not a text, a file or an interpreter");
  });
  const [first] = exec;
  if (first === undefined) return invalid("it has no command");
  if ("file" in first && files[first.file]?.isExecutable !== true)
    return invalid("the file that it runs is not executable");
  return exec;
}

function variablesOf(value: CanonicalValue | undefined): Program["variables"] {
  const entries = Object.entries(membersOf(value, "variables"));
  if (entries.length > maxVariables) return invalid(`it has more than ${maxVariables} variables`);
  return Object.fromEntries(
    entries.map(([name, text]) =>
      variableName.test(name) && isText(text) ? [name, text] : invalid("a variable is malformed"),
    ),
  );
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.length <= maxText && !value.includes("\0");
}

function indexOf(value: CanonicalValue | undefined, count: number): number {
  const index = typeof value === "number" ? value : -1;
  return Number.isSafeInteger(index) && index >= 0 && index < count
    ? index
    : invalid("a length or an index is out of bounds");
}

function listOf(value: CanonicalValue | undefined, what: string, max: number): readonly CanonicalValue[] {
  return Array.isArray(value) && value.length <= max
    ? (value as readonly CanonicalValue[])
    : invalid(`${what} is not a list of at most ${max}`);
}

function membersOf(value: CanonicalValue | undefined, what: string, allowed?: readonly string[]): Members {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return invalid(`${what} is not an object`);
  if (allowed !== undefined && Object.keys(value).some((name) => !allowed.includes(name)))
    return invalid(`${what} has an unknown member`);
  return value as Members;
}

/**
 * Writes the files of a program into a folder that is not there yet.
 * @param interpreter the path of the interpreter on this machine
 * @returns the command that runs it there
 * @throws DISK_FULL, FILE_FAILED
 */
export async function placeProgram(
  program: Program,
  folder: string,
  interpreter: string | undefined,
): Promise<readonly string[]> {
  try {
    await mkdir(folder, { mode: 0o700 });
    for (const { path, bytes, isExecutable } of program.files) {
      const place = join(folder, path);
      await mkdir(dirname(place), { recursive: true, mode: 0o700 });
      await writeFile(place, bytes, { flag: "wx" });
      await chmod(place, isExecutable ? 0o500 : 0o400);
    }
  } catch (error) {
    throw fileError(error, "write", folder);
  }
  return program.exec.map((argument) =>
    "text" in argument
      ? argument.text
      : "file" in argument
        ? join(folder, (program.files[argument.file] as ProgramFile).path)
        : (interpreter ?? invalid("nothing here stands for its interpreter")),
  );
}

function invalid(reason: string, cause?: unknown): never {
  throw new StemmaError(
    "PROGRAM_INVALID",
    `This is not a recorded program: ${reason}. Have the model trained and reported again by the device's agent.`,
    { cause },
  );
}
