/**
 * Opens the signer of a change of releases: an encrypted key file, or a program that has the key, such as a
 * hardware key's.
 */
import { spawnSync } from "node:child_process";
import { resolve } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import type { Files } from "../../shared/ports.js";
import type { Signer } from "../../shared/trust/keys.js";
import { maxSignatureOutputBytes, signatureOfProgram } from "../../shared/trust/signing-program.js";
import { openSealedKey, publicKeyOfSealed } from "../../shared/trust/sealed-key.js";
import { readPassphrase } from "../operations/stores/passphrase-file.js";
import type { Choices } from "./plain-command.js";

export const signerOptions = {
  key: "<file> the encrypted key",
  passphraseFile: "<file> its passphrase",
  signer: "<command> a program that signs: bytes on its standard input, 128 hexadecimal digits out",
  publicKey: "<hex> the public key of that program",
} as const;
export type SignerChoices = Partial<Choices<unknown, unknown, typeof signerOptions>>;

const signerTimeoutMs = 5 * 60_000;
const publicKeyPattern = /^[0-9a-f]{64}$/;

/** Opens the signer, whose `sign` throws SIGNER_FAILED. @throws USAGE, KEY_INVALID, FILE_MISSING */
export async function signerOf(files: Files, choices: SignerChoices): Promise<Signer> {
  const { key, passphraseFile, signer, publicKey } = choices;
  if (key !== undefined && signer === undefined) {
    if (passphraseFile === undefined)
      throw new StemmaError(
        "USAGE",
        "The key is encrypted. Name the file with its passphrase: --passphrase-file.",
      );
    const passphrase = await readPassphrase(files, resolve(passphraseFile));
    return await openSealedKey(files, resolve(key), passphrase);
  }
  if (signer === undefined || publicKey === undefined || key !== undefined)
    throw new StemmaError("USAGE", "Sign with --key FILE, or with --signer COMMAND and --public-key HEX.");
  if (!publicKeyPattern.test(publicKey))
    throw new StemmaError("USAGE", "--public-key is not 64 lower-case hexadecimal digits.");
  return { publicKey, sign: (message) => signWith(signer, publicKey, message) };
}

/** The program gets the bytes on its standard input, and prints the signature as 128 hexadecimal digits. */
function signWith(command: string, publicKey: string, message: Uint8Array): Uint8Array {
  const { status, stdout, error } = spawnSync(command, {
    shell: true,
    input: message,
    stdio: ["pipe", "pipe", "inherit"],
    timeout: signerTimeoutMs,
    maxBuffer: maxSignatureOutputBytes,
  });
  const asked = { program: `The signer \`${command}\``, publicKey, message };
  if (error === undefined && status === 0)
    return signatureOfProgram({ ...asked, printed: stdout.toString("utf8") });
  const how = error?.message ?? `it ended with status ${status}`;
  return signatureOfProgram({ ...asked, printed: undefined, how, cause: error });
}

/** A public key as it was given: 64 hexadecimal digits, or an encrypted key file, whose public key is readable. */
export async function publicKeyOf(files: Files, given: string): Promise<string> {
  return publicKeyPattern.test(given) ? given : await publicKeyOfSealed(files, resolve(given));
}
