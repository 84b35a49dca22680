// Writes SHA256SUMS of the made files, and with a release key (Ed25519, PEM) its signature SHA256SUMS.sig: 64 bytes, as
// `openssl pkeyutl -verify -rawin` takes them.
import { createHash, createPrivateKey, createPublicKey, sign, verify } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { pipeline } from "node:stream/promises";

export async function sha256Of(path) {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}

async function readKey(path) {
  const key = createPrivateKey(await readFile(path));
  if (key.asymmetricKeyType !== "ed25519")
    throw new Error(
      `${path} is a key of the kind ${key.asymmetricKeyType}; a release is signed with an Ed25519 key.`,
    );
  return key;
}

/** Where there is no key, a signature of earlier files goes: it would be of other sums. */
export async function writeChecksums(folder, files, keyPath) {
  const lines = await Promise.all(files.map(async (file) => `${await sha256Of(file)}  ${basename(file)}\n`));
  const path = join(folder, "SHA256SUMS");
  const text = Buffer.from(lines.sort((a, b) => (a.slice(66) < b.slice(66) ? -1 : 1)).join(""));
  await rm(`${path}.sig`, { force: true });
  await writeFile(path, text);
  if (keyPath === undefined) return { path, signed: false };
  const key = await readKey(keyPath);
  const signature = sign(null, text, key);
  if (!verify(null, text, createPublicKey(key), signature)) throw new Error("The signature does not verify.");
  await writeFile(`${path}.sig`, signature);
  return { path, signed: true };
}
