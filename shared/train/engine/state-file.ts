/**
 * Reads and writes the file of a training's state. It is "STEMTST1" ‖ steps done u32 ‖ header length u32 ‖
 * header (JSON) ‖ arrays as float32 ‖ SHA-256 of all that. Numbers are little-endian. Written durably: a
 * crash leaves the state before or the new one.
 */
import { createHash } from "node:crypto";
import { StemmaError } from "../../errors.js";
import { replaceDurably } from "../../files/durable-write.js";
import type { Files, OpenFile } from "../../ports.js";
import type { Hash } from "../../tensor/tensor.js";
import {
  stateMagic,
  type FitSnapshot,
  type FitState,
  type TrainingProgressSoFar,
} from "../training-state.js";

/** A checkpoint of the result folder that the state relies on. */
export interface CheckpointFile {
  readonly name: string;
  readonly epoch: number;
  readonly iteration: number;
  readonly sha256: string;
}

/** The parts of a state but the loop's. */
export interface StateContext extends TrainingProgressSoFar {
  readonly engine: Hash;
  /** Identifies the training: see stateKeyOf in run-training.ts. */
  readonly key: Hash;
  readonly checkpoints: readonly CheckpointFile[];
  readonly droppedCheckpoints: number;
}

export interface SavedState extends StateContext {
  readonly fit: FitState;
}

interface Header extends StateContext {
  readonly format: 1;
  readonly position: FitState["position"];
  readonly optimizer: FitState["optimizer"];
  readonly arrays: readonly { readonly name: string; readonly shape: readonly number[] }[];
}

const prefixBytes = 16;
const hashBytes = 32;
const maxHeaderBytes = 64 * 1024 * 1024;
const readBytes = 4 * 1024 * 1024;

const sizeOf = (shape: readonly number[]): number =>
  shape.reduce((product, dimension) => product * dimension, 1);

/** Bytes of a state's arrays. */
export function arrayBytesOf({ arrays }: FitSnapshot): number {
  return arrays.reduce((sum, { shape }) => sum + 4 * sizeOf(shape), 0);
}

/**
 * Writes a state and returns its size in bytes. Holds one array at a time.
 * @throws DISK_FULL, FILE_FAILED; the state before then stays
 */
export async function writeState(
  files: Files,
  path: string,
  { context, snapshot }: { readonly context: StateContext; readonly snapshot: FitSnapshot },
): Promise<number> {
  const { position, optimizer, arrays } = snapshot;
  const header: Header = {
    format: 1,
    ...context,
    position,
    optimizer,
    arrays: arrays.map(({ name, shape }) => ({ name, shape })),
  };
  const headerBytes = Buffer.from(JSON.stringify(header), "utf8");
  const prefix = Buffer.alloc(prefixBytes);
  prefix.write(stateMagic, "latin1");
  prefix.writeUInt32LE(position.iteration, 8);
  prefix.writeUInt32LE(headerBytes.length, 12);
  let written = 0;
  await replaceDurably(files, path, async (file) => {
    const hash = createHash("sha256");
    const append = async (bytes: Uint8Array): Promise<void> => {
      await file.write(bytes, written);
      written += bytes.length;
    };
    const appendHashed = async (bytes: Uint8Array): Promise<void> => {
      hash.update(bytes);
      await append(bytes);
    };
    await appendHashed(prefix);
    await appendHashed(headerBytes);
    for (const { read } of arrays) {
      const values = read();
      await appendHashed(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    }
    await append(hash.digest());
  });
  return written;
}

/**
 * Reads a state and checks its hash.
 * @returns undefined when there is none
 * @throws FILE_FAILED for a state that is damaged or half written
 */
export async function readState(files: Files, path: string): Promise<SavedState | undefined> {
  if ((await files.stat(path)) === undefined) return undefined;
  const file = await files.open(path, "read");
  try {
    return await decodeState(file, path);
  } finally {
    await file.close();
  }
}

async function decodeState(file: OpenFile, path: string): Promise<SavedState> {
  const refuse = (problem: string): StemmaError =>
    new StemmaError("FILE_FAILED", `The training state ${path} cannot be used: ${problem}.`, { path });
  const size = await file.size();
  const prefix = Buffer.alloc(prefixBytes);
  if (size < prefixBytes + hashBytes || (await file.read(prefix, 0)) < prefixBytes)
    throw refuse(`it has only ${size} bytes`);
  if (prefix.toString("latin1", 0, 8) !== stateMagic) throw refuse("it is not a training state");
  const headerLength = prefix.readUInt32LE(12);
  const arraysAt = prefixBytes + headerLength;
  if (headerLength > maxHeaderBytes || arraysAt > size - hashBytes)
    throw refuse("its header does not fit into it");
  const expected = Buffer.alloc(hashBytes);
  await file.read(expected, size - hashBytes);
  if (!(await hashOf(file, size - hashBytes)).equals(expected))
    throw refuse("its hash differs; it is damaged or was only half written");
  const headerBytes = Buffer.alloc(headerLength);
  await file.read(headerBytes, prefixBytes);
  const { format, position, optimizer, arrays, ...context } = JSON.parse(
    headerBytes.toString("utf8"),
  ) as Header;
  if ((format as number) !== 1) throw refuse(`it has the format ${format}`);
  const values = new Map<string, Float32Array>();
  let at = arraysAt;
  for (const { name, shape } of arrays) {
    const byteLength = 4 * sizeOf(shape);
    if (!(byteLength <= size - hashBytes - at)) throw refuse(`the array ${name} does not fit into it`);
    const bytes = new Uint8Array(byteLength);
    if ((await file.read(bytes, at)) < bytes.length) throw refuse(`the array ${name} is cut short`);
    values.set(name, new Float32Array(bytes.buffer));
    at += bytes.length;
  }
  return { ...context, fit: { position, optimizer, arrays: values } };
}

async function hashOf(file: OpenFile, length: number): Promise<Buffer> {
  const hash = createHash("sha256");
  const buffer = Buffer.alloc(Math.min(length, readBytes));
  for (let at = 0; at < length;) {
    const part = buffer.subarray(0, Math.min(buffer.length, length - at));
    const read = await file.read(part, at);
    if (read === 0) break;
    hash.update(part.subarray(0, read));
    at += read;
  }
  return hash.digest();
}
