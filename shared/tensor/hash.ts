/**
 * SHA-256 and the identities made of it: tensors and small objects. Pure; does not depend on models or
 * stores.
 */
import { createHash, hash as hashInOneCall, type Hash as NodeHash } from "node:crypto";
import { dtypeCode, tensorByteLength } from "./dtype.js";
import { maxChunkBytes, type Hash, type TensorHeader, type TensorSource } from "./tensor.js";
import { StemmaError } from "../errors.js";

const utf8 = new TextEncoder();
const hashPattern = /^[0-9a-f]{64}$/;

/** True if a value is a SHA-256 as 64 lower-case hexadecimal digits. */
export function isHash(value: unknown): value is Hash {
  return typeof value === "string" && hashPattern.test(value);
}
/** The 32 bytes of a hash. */
export function hashBytes(hash: Hash): Uint8Array {
  return new Uint8Array(Buffer.from(hash, "hex"));
}
/** The hash of 32 bytes (not their SHA-256: their hexadecimal form). */
export function hexOf(bytes: Uint8Array): Hash {
  if (bytes.length !== 32)
    throw new StemmaError(
      "INTERNAL",
      `A hash has 32 bytes, not ${bytes.length}. Report this with what led to it.`,
    );
  return Buffer.from(bytes.buffer, bytes.byteOffset, 32).toString("hex") as Hash;
}
/** 32 zero bytes: the architecture hash of models of kind `opaque`. */
export const zeroHash = "0".repeat(64) as Hash;

/** A streaming SHA-256. No single update of the underlying call is longer than `maxChunkBytes`. */
export class Sha256 {
  readonly #hash: NodeHash = createHash("sha256");
  /** Strings are hashed as UTF-8. */
  update(part: Uint8Array | string): this {
    const bytes = typeof part === "string" ? utf8.encode(part) : part;
    if (bytes.length <= maxChunkBytes) this.#hash.update(bytes);
    else
      for (let at = 0; at < bytes.length; at += maxChunkBytes)
        this.#hash.update(bytes.subarray(at, at + maxChunkBytes));
    return this;
  }
  /** Ends the hash; call once. */
  digest(): Hash {
    return this.#hash.digest("hex") as Hash;
  }
  digestBytes(): Uint8Array {
    return new Uint8Array(this.#hash.digest());
  }
}

/** SHA-256 of few bytes in one call, for the many small hashes of a tree. */
export function sha256OfSmall(bytes: Uint8Array): Hash {
  return hashInOneCall("sha256", bytes, "hex") as Hash;
}

/** Parts up to this size are joined and hashed in one call, at a third of the cost of a streaming hash. */
const smallBytes = 4096;

/** SHA-256 over the parts one after the other; strings as UTF-8. */
export function sha256(...parts: readonly (Uint8Array | string)[]): Hash {
  if (parts.length > 0 && parts.every(({ length }) => length <= smallBytes))
    return sha256OfSmall(
      Buffer.concat(parts.map((part) => (typeof part === "string" ? utf8.encode(part) : part))),
    );
  const hash = new Sha256();
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/**
 * Returns the bytes that a tensor's id hashes ahead of its own: "stemma-tensor-1\0" ‖ dtype u8 ‖ rank u8 ‖
 * dimensions u64 (docs/formats.md, "Tensors").
 */
export function tensorIdPrefix(header: TensorHeader): Uint8Array {
  const tag = "stemma-tensor-1\0";
  const prefix = new Uint8Array(tag.length + 2 + 8 * header.shape.length);
  utf8.encodeInto(tag, prefix);
  const view = new DataView(prefix.buffer);
  prefix[tag.length] = dtypeCode(header.dtype);
  prefix[tag.length + 1] = header.shape.length;
  header.shape.forEach((dimension, i) => {
    view.setBigUint64(tag.length + 2 + 8 * i, BigInt(dimension), true);
  });
  return prefix;
}

/**
 * A hasher that has read the tensor's header and expects its bytes. @throws SHAPE_INVALID,
 * TENSOR_TOO_LARGE
 */
export function tensorHasher(header: TensorHeader): Sha256 {
  tensorByteLength(header.dtype, header.shape);
  return new Sha256().update(tensorIdPrefix(header));
}

function sizeMismatch(header: TensorHeader, expected: number, actual: number): StemmaError {
  return new StemmaError(
    "TENSOR_SIZE_MISMATCH",
    `A tensor ${header.dtype} [${header.shape.join(", ")}] has ${actual} bytes where its shape asks for ${expected}. Check what produced it.`,
    { expected, actual },
  );
}

/** Id of a tensor in memory. @throws TENSOR_SIZE_MISMATCH, SHAPE_INVALID */
export function tensorId(header: TensorHeader, bytes: Uint8Array): Hash {
  const expected = tensorByteLength(header.dtype, header.shape);
  if (bytes.length !== expected) throw sizeMismatch(header, expected, bytes.length);
  return tensorHasher(header).update(bytes).digest();
}

/**
 * Id of a streamed tensor; reads it once. @throws TENSOR_SIZE_MISMATCH when the stream is shorter or longer
 * than the shape asks for
 */
export async function tensorIdOfSource(source: TensorSource): Promise<Hash> {
  const expected = tensorByteLength(source.dtype, source.shape);
  const hash = tensorHasher(source);
  let actual = 0;
  for await (const chunk of source.chunks()) {
    actual += chunk.length;
    if (actual > expected) throw sizeMismatch(source, expected, actual);
    hash.update(chunk);
  }
  if (actual !== expected) throw sizeMismatch(source, expected, actual);
  return hash.digest();
}

/**
 * Id of a small object: H("stemma-" ‖ kind ‖ "-1\0" ‖ bytes). A record's is the version id (docs/formats.md,
 * "Save record").
 */
export function objectId(kind: string, bytes: Uint8Array): Hash {
  return sha256(`stemma-${kind}-1\0`, bytes);
}

/** Hashes an object that is not in memory at once: update it with the object's bytes; the digest is its id. */
export function objectHasher(kind: string): Sha256 {
  return new Sha256().update(`stemma-${kind}-1\0`);
}
