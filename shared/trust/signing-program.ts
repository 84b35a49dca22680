/**
 * Asks a program for a signature whose key Stemma does not have. It gets the bytes on its standard input, and prints
 * the signature (Ed25519) as 128 hexadecimal digits. What it prints is checked before it is used. Starts no program.
 */
import { isSignatureValid } from "./keys.js";
import { signerFailed } from "./trust-errors.js";

/** Bytes that such a program may print. */
export const maxSignatureOutputBytes = 4096;

export interface SigningEnd {
  /** The program as its user knows it: a command line, or a field of a configuration. */
  readonly program: string;
  readonly publicKey: string;
  readonly message: Uint8Array;
  /** The printed text; undefined where it did not end in order. */
  readonly printed: string | undefined;
  /** A description of how it ended, where not in order. */
  readonly how?: string;
  readonly cause?: unknown;
}

/** The signature, 64 bytes. @throws SIGNER_FAILED */
export function signatureOfProgram(end: SigningEnd): Uint8Array {
  const { program, publicKey, message, how, cause } = end;
  const printed = end.printed?.trim().toLowerCase();
  if (printed !== undefined && isSignatureValid(publicKey, message, printed))
    return Buffer.from(printed, "hex");
  const isSignature = printed !== undefined && /^[0-9a-f]{128}$/.test(printed);
  const why =
    how ??
    (isSignature
      ? "what it printed is a signature of another key or of other bytes"
      : "what it printed is not 128 hexadecimal digits");
  throw signerFailed(program, publicKey, why, cause);
}
