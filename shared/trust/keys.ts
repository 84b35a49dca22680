/**
 * Ed25519 keys (RFC 8032): made of 32 random bytes, kept in a file that only this user can read, and used to
 * sign. Keys and signatures are lower-case hex. signatures.ts defines what is signed.
 */
import { createPrivateKey, createPublicKey, sign, verify, type KeyObject } from "node:crypto";
import * as z from "zod";
import type { StemmaError } from "../errors.js";
import { writeDurably } from "../files/durable-write.js";
import type { Files, Random } from "../ports.js";
import { keyFileDamaged, seedInvalid } from "./trust-errors.js";

/** Signs with one private key. */
export interface Signer {
  /** 64 lower-case hex digits: the 32 raw bytes. */
  readonly publicKey: string;
  /** Signs a message; returns 64 raw bytes. */
  sign(message: Uint8Array): Uint8Array;
}
/** A device's own key, which may be elsewhere, such as in a chip: signing may take time, and fail. A Signer is one. */
export interface DeviceKey {
  /** 64 lower-case hex digits: the 32 raw bytes. */
  readonly publicKey: string;
  /** 64 raw bytes. @throws SIGNER_FAILED where the key cannot be asked or its signature is not valid */
  sign(message: Uint8Array): Uint8Array | Promise<Uint8Array>;
}
/** A signer whose seed can be written to a file. */
export interface PrivateKey extends Signer {
  /** 64 lower-case hex digits. Never logged. */
  readonly seed: string;
}

/** DER around the raw bytes (RFC 8410): PKCS #8 of a private key, SubjectPublicKeyInfo of a public one. */
const privateDer = Buffer.from("302e020100300506032b657004220420", "hex");
const publicDer = Buffer.from("302a300506032b6570032100", "hex");
const hexBytes = (text: string, length: number): Buffer | undefined =>
  new RegExp(`^[0-9a-f]{${length * 2}}$`).test(text) ? Buffer.from(text, "hex") : undefined;

/** @throws KEY_INVALID */
export function keyOfSeed(seed: string): PrivateKey {
  const raw = hexBytes(seed, 32);
  if (raw === undefined) throw seedInvalid();
  const key = createPrivateKey({ key: Buffer.concat([privateDer, raw]), format: "der", type: "pkcs8" });
  const publicKey = createPublicKey(key)
    .export({ format: "der", type: "spki" })
    .subarray(publicDer.length)
    .toString("hex");
  return { publicKey, seed, sign: (message) => new Uint8Array(sign(null, message, key)) };
}

export function generateKey(random: Random): PrivateKey {
  return keyOfSeed(Buffer.from(random.bytes(32)).toString("hex"));
}

/** Cache of imported public keys: a server verifies signatures of the same few thousand devices. */
const publicKeys = new Map<string, KeyObject>();
const maxCachedKeys = 4096;
function publicKeyObject(publicKey: string): KeyObject | undefined {
  const cached = publicKeys.get(publicKey);
  if (cached !== undefined) return cached;
  const raw = hexBytes(publicKey, 32);
  if (raw === undefined) return undefined;
  let key: KeyObject;
  try {
    key = createPublicKey({ key: Buffer.concat([publicDer, raw]), format: "der", type: "spki" });
  } catch {
    return undefined;
  }
  if (publicKeys.size >= maxCachedKeys) publicKeys.clear();
  publicKeys.set(publicKey, key);
  return key;
}

/**
 * True if `signature` (64 raw bytes, or 128 hex digits) is this key's signature of the message. False for
 * malformed keys and signatures.
 */
export function isSignatureValid(
  publicKey: string,
  message: Uint8Array,
  signature: Uint8Array | string,
): boolean {
  const key = publicKeyObject(publicKey);
  const raw = typeof signature === "string" ? hexBytes(signature, 64) : signature;
  if (key === undefined || raw === undefined || raw.length !== 64) return false;
  try {
    return verify(null, message, key, raw);
  } catch {
    return false;
  }
}

const keyFile = z.object({
  kind: z.literal("stemma-key"),
  format: z.literal(1),
  algorithm: z.literal("ed25519"),
  publicKey: z.string(),
  seed: z.string(),
});

/** Writes a key durably. The files port makes files readable by this user only. */
export async function saveKey(files: Files, path: string, key: PrivateKey): Promise<void> {
  const text = JSON.stringify({
    kind: "stemma-key",
    format: 1,
    algorithm: "ed25519",
    publicKey: key.publicKey,
    seed: key.seed,
  });
  await writeDurably(files, path, Buffer.from(`${text}\n`));
}

/** @throws KEY_INVALID, FILE_MISSING */
export async function loadKey(files: Files, path: string): Promise<PrivateKey> {
  const invalid = (cause?: unknown): StemmaError => keyFileDamaged(path, cause);
  const parsed = keyFile.safeParse(parseJson(await files.read(path)));
  if (!parsed.success) throw invalid(parsed.error);
  const key = keyOfSeed(parsed.data.seed);
  if (key.publicKey !== parsed.data.publicKey) throw invalid();
  return key;
}

/**
 * Parses the JSON of a small file, before which a Windows editor may have put a byte order mark; undefined where it is
 * malformed or larger than 1 MiB.
 */
export function parseJson(bytes: Uint8Array): unknown {
  if (bytes.length > 1024 * 1024) return undefined;
  try {
    return JSON.parse(new TextDecoder().decode(bytes)) as unknown;
  } catch {
    return undefined;
  }
}
