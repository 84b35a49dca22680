/**
 * An engine as one object: its files in the order of their names, in one canonical archive (docs/formats.md,
 * "Engine"). The object id names the archive; the engine id, which trainings report, follows from its files.
 */
import { StemmaError } from "../errors.js";
import { objectId } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { engineId } from "./engine-id.js";

export interface EngineFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

export interface EngineArchive {
  /** The files in the order of their names. */
  readonly files: readonly EngineFile[];
  /** The id that trainings with it report. */
  readonly engine: Hash;
  /** Form of the jobs that it reads (engine.json). */
  readonly jobForm: number;
}

/** Longest archive; an engine is about 2 MB. */
export const maxEngineBytes = 64 * 1024 * 1024;
export const maxEngineFiles = 64;
const magic = "STEMENGN";
const headerBytes = 16;
/** The names of files: no folders, no dot in front, so that a name is always a file directly in the engine's folder. */
const fileName = /^[a-z0-9][a-z0-9_-]*(\.[a-z0-9_-]+)*$/;
const maxNameBytes = 64;
const manifestName = "engine.json";
const scriptName = "engine.mjs";

/** @throws ENGINE_INVALID */
export function encodeEngineArchive(files: readonly EngineFile[]): Uint8Array {
  const sorted = files.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const parts: Uint8Array[] = [Buffer.from(magic, "latin1"), u32(1), u32(sorted.length)];
  for (const { name, bytes } of sorted)
    parts.push(u32(Buffer.byteLength(name)), Buffer.from(name), u32(bytes.length), bytes);
  const archive = new Uint8Array(Buffer.concat(parts));
  decodeEngineArchive(archive);
  return archive;
}

/** Reads an archive that may be hostile; the files share its memory. @throws ENGINE_INVALID */
export function decodeEngineArchive(archive: Uint8Array): EngineArchive {
  if (archive.length > maxEngineBytes) return invalid(`it has more than ${maxEngineBytes} bytes`);
  const view = new DataView(archive.buffer, archive.byteOffset, archive.byteLength);
  if (archive.length < headerBytes || Buffer.from(archive.subarray(0, 8)).toString("latin1") !== magic)
    return invalid("it does not begin like one");
  if (view.getUint32(8, true) !== 1) return invalid("its format is not 1");
  const count = view.getUint32(12, true);
  if (count > maxEngineFiles) return invalid(`it has more than ${maxEngineFiles} files`);
  const files: EngineFile[] = [];
  let at = headerBytes;
  const take = (length: number): Uint8Array => {
    if (length > archive.length - at) return invalid("it is cut short");
    at += length;
    return archive.subarray(at - length, at);
  };
  const takeLength = (): number => {
    take(4);
    return view.getUint32(at - 4, true);
  };
  for (let i = 0; i < count; i++) {
    const name = nameOf(take(takeLength()));
    if (i > 0 && (files[i - 1] as EngineFile).name >= name)
      return invalid("its files are not in the order of their names");
    files.push({ name, bytes: take(takeLength()) });
  }
  if (at !== archive.length) return invalid("bytes follow its last file");
  if (!files.some(({ name }) => name === scriptName)) return invalid(`it has no ${scriptName}`);
  return { files, engine: engineId(files), jobForm: jobFormOf(files) };
}

/** The id of an archive in a store: the object id of kind "engine". */
export function engineObjectId(archive: Uint8Array): Hash {
  return objectId("engine", archive);
}

function jobFormOf(files: readonly EngineFile[]): number {
  const manifest = files.find(({ name }) => name === manifestName);
  if (manifest === undefined) return invalid(`it has no ${manifestName}`);
  try {
    const { job } = JSON.parse(Buffer.from(manifest.bytes).toString("utf8")) as { job?: unknown };
    if (Number.isSafeInteger(job) && (job as number) > 0) return job as number;
  } catch {
    /* refused below */
  }
  return invalid(`its ${manifestName} does not name the form of its jobs`);
}

function nameOf(bytes: Uint8Array): string {
  const name = Buffer.from(bytes).toString("latin1");
  if (bytes.length > maxNameBytes || !fileName.test(name))
    return invalid(`${JSON.stringify(name.slice(0, 80))} cannot name a file of it`);
  return name;
}

function u32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

function invalid(reason: string): never {
  throw new StemmaError(
    "ENGINE_INVALID",
    `This is not an engine: ${reason}. Take it from a build of Stemma (its folder dist/engine), or ` +
      "from a server that has it.",
  );
}
