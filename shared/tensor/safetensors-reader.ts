/**
 * Reads safetensors files of any size through a file port: first the header, then tensors as streams. Does
 * not depend on models.
 */
import { StemmaError } from "../errors.js";
import type { OpenFile } from "../ports.js";
import { recognizedBytes, recognizeForeignFile, type ForeignFile } from "./foreign-file.js";
import {
  maxHeaderBytes,
  parseSafetensorsHeader,
  safetensorsMalformed,
  type SafetensorsEntry,
  type SafetensorsHeader,
} from "./safetensors-header.js";
import { maxChunkBytes, type TensorSource } from "./tensor.js";
import { uninitializedBytes } from "./uninitialized-bytes.js";

/** The part of an open file that the reader uses. */
export type ByteFile = Pick<OpenFile, "read" | "size">;

const openingBrace = "{".charCodeAt(0);

function foreignFile(where: string, { name, advice }: ForeignFile): StemmaError<"SAFETENSORS_MALFORMED"> {
  return new StemmaError(
    "SAFETENSORS_MALFORMED",
    `${where} is not a safetensors file but ${name}. ${advice}.`,
    { reason: name },
  );
}

/** Bytes of one read. */
const readBytes = 4 * 1024 * 1024;

export interface SafetensorsFile extends SafetensorsHeader {
  /** Bytes ahead of the first tensor. */
  readonly dataStart: number;
  /** A tensor of this file as a source; may be streamed any number of times while the file is open. */
  source(entry: SafetensorsEntry): TensorSource;
  /** All tensors' bytes, in one piece; only for files known to fit into memory. */
  readData(): Promise<Uint8Array>;
}

/** Fills `target` from `position`. @throws SAFETENSORS_TRUNCATED */
export async function readFully(
  file: ByteFile,
  target: Uint8Array,
  position: number,
  where: string,
): Promise<void> {
  let at = 0;
  while (at < target.length) {
    // One read call takes at most 2 GiB.
    const count = await file.read(target.subarray(at, at + maxChunkBytes), position + at);
    if (count === 0)
      throw new StemmaError(
        "SAFETENSORS_TRUNCATED",
        `${where} ends at byte ${position + at}, inside what its header promises. Copy it again from a complete one.`,
        { position: position + at },
      );
    at += count;
  }
}

/**
 * Reads and checks the header. Nothing is allocated for tensors.
 * @param where what the file is called in messages (its path)
 * @throws SAFETENSORS_MALFORMED, SAFETENSORS_TRUNCATED
 */
export async function readSafetensors(file: ByteFile, where: string): Promise<SafetensorsFile> {
  const size = await file.size();
  const first = Buffer.alloc(Math.min(size, recognizedBytes));
  await readFully(file, first, 0, where);
  const headerBytes = size < 8 ? 0n : first.readBigUInt64LE(0);
  const dataStart = 8 + Number(headerBytes);
  // Only a file that cannot be safetensors is taken for one of another format.
  if (size < 8 || headerBytes > BigInt(maxHeaderBytes) || dataStart > size || first[8] !== openingBrace) {
    const foreign = recognizeForeignFile(first);
    if (foreign !== undefined) throw foreignFile(where, foreign);
  }
  if (size < 8)
    throw new StemmaError(
      "SAFETENSORS_TRUNCATED",
      `${where} has ${size} bytes, too few for the length of a header. Copy it again from a complete one.`,
      { size },
    );
  if (headerBytes > BigInt(maxHeaderBytes))
    throw safetensorsMalformed(where, `its header claims ${headerBytes} bytes, more than ${maxHeaderBytes}`);
  if (dataStart > size)
    throw new StemmaError(
      "SAFETENSORS_TRUNCATED",
      `${where} has ${size} bytes, its header alone claims ${dataStart}. Copy it again from a complete one.`,
      { size },
    );
  const bytes = new Uint8Array(dataStart - 8);
  await readFully(file, bytes, 8, where);
  const header = parseSafetensorsHeader(bytes, size - dataStart, where);
  const source = ({ dtype, shape, begin, end }: SafetensorsEntry): TensorSource => ({
    dtype,
    shape,
    byteLength: end - begin,
    async *chunks() {
      for (let at = begin; at < end; at += readBytes) {
        const chunk = uninitializedBytes(Math.min(readBytes, end - at));
        await readFully(file, chunk, dataStart + at, where);
        yield chunk;
      }
    },
  });
  const readData = async (): Promise<Uint8Array> => {
    const bytes = uninitializedBytes(size - dataStart);
    await readFully(file, bytes, dataStart, where);
    return bytes;
  };
  return { ...header, dataStart, source, readData };
}

/** Bytes in memory as a file that can be read. */
export function fileOfBytes(bytes: Uint8Array): ByteFile {
  return {
    read(target, position) {
      const piece = bytes.subarray(position, position + target.length);
      target.set(piece);
      return Promise.resolve(piece.length);
    },
    size: () => Promise.resolve(bytes.length),
  };
}
