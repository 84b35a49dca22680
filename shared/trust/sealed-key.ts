/**
 * Encrypts a private key with a passphrase, to be kept where others may read. Scrypt (RFC 7914) makes a key
 * of the passphrase, AES-256-GCM encrypts the seed and binds the public key, which stays readable.
 */
import { createCipheriv, createDecipheriv, scrypt, type ScryptOptions } from "node:crypto";
import { promisify } from "node:util";
import * as z from "zod";
import { writeDurably } from "../files/durable-write.js";
import type { Files, Random } from "../ports.js";
import { keyOfSeed, parseJson, type PrivateKey } from "./keys.js";
import { passphraseShort, passphraseWrong, sealedKeyDamaged } from "./trust-errors.js";

const hex = (bytes: number): z.ZodString => z.string().regex(new RegExp(`^[0-9a-f]{${2 * bytes}}$`));
const sealedKeyFile = z.object({
  kind: z.literal("stemma-sealed-key"),
  format: z.literal(1),
  algorithm: z.literal("ed25519"),
  publicKey: hex(32),
  kdf: z.object({
    name: z.literal("scrypt"),
    // The bounds keep a file of somebody else's from taking a gigabyte of memory.
    n: z.union([z.literal(2 ** 15), z.literal(2 ** 16), z.literal(2 ** 17), z.literal(2 ** 18)]),
    r: z.literal(8),
    p: z.literal(1),
    salt: hex(16),
  }),
  cipher: z.literal("aes-256-gcm"),
  nonce: hex(12),
  /** The encrypted seed, then the tag. */
  sealed: hex(32 + 16),
});
type SealedKeyFile = z.infer<typeof sealedKeyFile>;

/** The cost of a guess: about half a second and 128 MiB of one core. */
const cost = 2 ** 17;
const shortestPassphrase = 16;
const tagBytes = 16;

const deriveKey = promisify<string, Buffer, number, ScryptOptions, Buffer>(scrypt);

async function keyOfPassphrase(passphrase: string, { n, r, p, salt }: SealedKeyFile["kdf"]): Promise<Buffer> {
  const maxmem = 2 * 128 * n * r;
  return deriveKey(passphrase.normalize("NFC"), Buffer.from(salt, "hex"), 32, { N: n, r, p, maxmem });
}

function boundTo(publicKey: string): Buffer {
  return Buffer.from(`stemma-sealed-key 1 ${publicKey}`);
}

/**
 * Writes the key durably, encrypted.
 * @throws USAGE where the passphrase is short
 */
export async function saveSealedKey(
  { files, random }: { readonly files: Files; readonly random: Random },
  path: string,
  { seed, publicKey }: PrivateKey,
  passphrase: string,
): Promise<void> {
  if (passphrase.length < shortestPassphrase) throw passphraseShort(passphrase.length, shortestPassphrase);
  const kdf = {
    name: "scrypt",
    n: cost,
    r: 8,
    p: 1,
    salt: Buffer.from(random.bytes(16)).toString("hex"),
  } as const;
  const nonce = Buffer.from(random.bytes(12));
  const cipher = createCipheriv("aes-256-gcm", await keyOfPassphrase(passphrase, kdf), nonce);
  cipher.setAAD(boundTo(publicKey));
  const sealed = Buffer.concat([
    cipher.update(Buffer.from(seed, "hex")),
    cipher.final(),
    cipher.getAuthTag(),
  ]);
  const file: SealedKeyFile = {
    kind: "stemma-sealed-key",
    format: 1,
    algorithm: "ed25519",
    publicKey,
    kdf,
    cipher: "aes-256-gcm",
    nonce: nonce.toString("hex"),
    sealed: sealed.toString("hex"),
  };
  await writeDurably(files, path, Buffer.from(`${JSON.stringify(file)}\n`));
}

async function readSealedKey(files: Files, path: string): Promise<SealedKeyFile> {
  const parsed = sealedKeyFile.safeParse(parseJson(await files.read(path)));
  if (parsed.success) return parsed.data;
  throw sealedKeyDamaged(path, parsed.error);
}

/** The public key that the file states; that it is true is known once the file is opened. @throws KEY_INVALID */
export async function publicKeyOfSealed(files: Files, path: string): Promise<string> {
  return (await readSealedKey(files, path)).publicKey;
}

/** @throws KEY_INVALID where the passphrase is another one, or the file was changed */
export async function openSealedKey(files: Files, path: string, passphrase: string): Promise<PrivateKey> {
  const { kdf, nonce, sealed, publicKey } = await readSealedKey(files, path);
  const bytes = Buffer.from(sealed, "hex");
  const decipher = createDecipheriv(
    "aes-256-gcm",
    await keyOfPassphrase(passphrase, kdf),
    Buffer.from(nonce, "hex"),
    { authTagLength: tagBytes },
  );
  decipher.setAAD(boundTo(publicKey));
  decipher.setAuthTag(bytes.subarray(-tagBytes));
  let seed: Buffer;
  try {
    seed = Buffer.concat([decipher.update(bytes.subarray(0, -tagBytes)), decipher.final()]);
  } catch (cause) {
    throw passphraseWrong(path, cause);
  }
  return keyOfSeed(seed.toString("hex"));
}
