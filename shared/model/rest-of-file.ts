/**
 * The rest of the file that a model came from: all bytes but those of its tensors, and where tensors stand among them.
 * With it the file comes back byte for byte. Pure.
 */
import { errorOf } from "../errors.js";
import { isHash } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { isKeptFileName } from "./kept-file.js";
import { decodeCanonical, encodeCanonical, type CanonicalValue } from "./canonical-json.js";

/** Name of the attachment that it is. */
export const restOfFileName = "stemma.rest";
/** The most bytes of it: a file with a longer rest comes back as safetensors alone. */
export const maxRestBytes = 4 * 1024 * 1024;
const magic = "STEMREST";
const headerBytes = 16;
const limits = { maxBytes: maxRestBytes, maxDepth: 4 };

export interface RestOfFile {
  /** The file's name, of safe characters (kept-file.ts). */
  readonly name: string;
  /** The hash of the whole file. */
  readonly sha256: Hash;
  readonly byteLength: number;
  /**
   * Bytes of the rest, an index of a tensor in the order of the file, bytes, and so on; the last are bytes, too.
   * Each tensor is there once at most.
   */
  readonly pieces: readonly number[];
  /** The rest's bytes, one piece after the other. */
  readonly bytes: Uint8Array;
}

const malformed = errorOf("MODEL_FILE_MALFORMED");

function invalid(reason: string): never {
  throw malformed(
    `The rest of the file that the model came from cannot be used: ${reason}. Recover it as safetensors.`,
  );
}

/** @returns undefined where it is longer than is kept */
export function encodeRest({ name, sha256, byteLength, pieces, bytes }: RestOfFile): Uint8Array | undefined {
  if (bytes.length > maxRestBytes || 2 * pieces.length > maxRestBytes) return undefined;
  const header = encodeCanonical(
    { name, pieces, sha256, size: byteLength },
    { ...limits, maxBytes: 2 ** 26 },
  );
  if (headerBytes + header.length + bytes.length > maxRestBytes) return undefined;
  const fixed = Buffer.alloc(headerBytes);
  fixed.write(magic, "latin1");
  fixed.writeUInt32LE(1, 8);
  fixed.writeUInt32LE(header.length, 12);
  return new Uint8Array(Buffer.concat([fixed, header, bytes]));
}

/**
 * Reads a rest that may be hostile; its bytes share the memory of what is given.
 * @param tensorBytes bytes of each tensor, in the order of the file
 * @throws MODEL_FILE_MALFORMED where it does not say of which pieces a file of its size consists
 */
export function decodeRest(given: Uint8Array, tensorBytes: readonly number[]): RestOfFile {
  if (given.length > maxRestBytes) return invalid(`it has more than ${maxRestBytes} bytes`);
  const view = Buffer.from(given.buffer, given.byteOffset, given.byteLength);
  if (view.length < headerBytes || view.toString("latin1", 0, 8) !== magic)
    return invalid("it does not begin like one");
  if (view.readUInt32LE(8) !== 1) return invalid("its format is not 1");
  const end = headerBytes + view.readUInt32LE(12);
  if (end > view.length) return invalid("it is cut short");
  const { name, pieces, sha256, size, ...others } = membersOf(given.subarray(headerBytes, end));
  const bytes = given.subarray(end);
  if (typeof name !== "string" || !isKeptFileName(name) || !isHash(sha256) || Object.keys(others).length > 0)
    return invalid("it has no safe name, no SHA-256, or unknown members");
  if (!isCounts(pieces) || pieces.length % 2 !== 1) return invalid("its pieces are not numbers by turns");
  const byteLength = lengthOf({ pieces, bytes: bytes.length, tensorBytes });
  if (size !== byteLength) return invalid(`its pieces have ${byteLength} bytes, and it states others`);
  return { name, sha256, byteLength, pieces, bytes };
}

function membersOf(header: Uint8Array): Readonly<Record<string, CanonicalValue>> {
  let value: CanonicalValue;
  try {
    value = decodeCanonical(header, limits);
  } catch {
    return invalid("its header is not canonical JSON");
  }
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, CanonicalValue>>)
    : invalid("its header is not an object");
}

function isCounts(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && (item as number) >= 0);
}

/** Bytes of all pieces, which name tensors that there are, each once, and exactly the bytes that follow. */
function lengthOf({
  pieces,
  bytes,
  tensorBytes,
}: {
  readonly pieces: readonly number[];
  readonly bytes: number;
  readonly tensorBytes: readonly number[];
}): number {
  const used = new Set<number>();
  let literal = 0;
  let all = 0;
  pieces.forEach((piece, at) => {
    if (at % 2 === 0) {
      literal += piece;
      return;
    }
    const length = tensorBytes[piece];
    if (length === undefined || used.has(piece))
      return invalid("it names a tensor that is not there, or twice");
    used.add(piece);
    all += length;
  });
  if (literal !== bytes) return invalid(`its pieces take ${literal} bytes, and ${bytes} follow`);
  return all + literal;
}
