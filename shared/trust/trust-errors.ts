/** Errors of keys, signatures and enrolments, sorted by what they are about. */
import { errorOf, StemmaError } from "../errors.js";

const invalidEnrolment = errorOf("ENROLMENT_INVALID");
const invalidKey = errorOf("KEY_INVALID");

// Key files.
export const seedInvalid = (): StemmaError =>
  invalidKey(
    "A private key is not 32 bytes in lower-case hex. Restore the key file from a backup, or enrol again.",
  );
export const keyFileDamaged = (path: string, cause?: unknown): StemmaError =>
  invalidKey(
    `The key file ${path} is damaged or of another format. Restore it from a backup; a new key would not be trusted by devices that have pinned the old one.`,
    { path, cause },
  );
export const sealedKeyDamaged = (path: string, cause: unknown): StemmaError =>
  invalidKey(`The encrypted key file ${path} is damaged or of another format. Use another backup.`, {
    path,
    cause,
  });
export const passphraseWrong = (path: string, cause: unknown): StemmaError =>
  invalidKey(
    `The passphrase does not open ${path}. Name the file with the passphrase that it was encrypted with; where it is the right one, the key file was changed: use another copy or backup of it.`,
    { path, cause },
  );
export const passphraseShort = (length: number, shortest: number): StemmaError =>
  new StemmaError(
    "USAGE",
    `The passphrase has ${length} characters. Use at least ${shortest}, such as \`head -c 24 /dev/urandom | base64\` prints.`,
  );

// Signatures.
export const signerFailed = (program: string, publicKey: string, why: string, cause: unknown): StemmaError =>
  new StemmaError(
    "SIGNER_FAILED",
    `${program} gave no valid signature of the key ${publicKey.slice(0, 16)}…: ${why}. It gets the bytes on standard input, and prints the Ed25519 signature as 128 hexadecimal digits.`,
    { cause },
  );
export const signatureInvalid = (subject: string, publicKey: string): StemmaError =>
  new StemmaError(
    "SIGNATURE_INVALID",
    `The signature of ${subject} was not made with the key ${publicKey.slice(0, 16)}…. It was altered on the way, or made with another key; it is ignored.`,
    { what: subject, publicKey },
  );
export const headSignatureInvalid = (length: number, publicKey: string): StemmaError =>
  new StemmaError(
    "HEAD_SIGNATURE_INVALID",
    `A journal head of length ${length} is not signed by the server's key ${publicKey.slice(0, 16)}…. It was altered, or comes from another server; it is ignored.`,
    { length, publicKey },
  );
export const cosignaturesMissing = (
  length: number,
  names: readonly string[],
  threshold: number,
): StemmaError =>
  new StemmaError(
    "COSIGNATURES_MISSING",
    `A checkpoint of ${length} facts has cosignatures of ${names.length} of the pinned witnesses${names.length === 0 ? "" : ` (${names.join(", ")})`}, and ${threshold} are needed. Ask witnesses to cosign it, and bring what they answer with \`stemma journal cosign FILE\`.`,
    { cosigned: names.length, threshold },
  );

// Enrolments.
const enrolAgain = "Enrol the device again with `stemma device enroll`.";
export const enrolmentInvalid = (where: string, fields: readonly string[]): StemmaError =>
  invalidEnrolment(`${where} is not a valid enrolment: ${fields.slice(0, 5).join("; ")}. ${enrolAgain}`, {
    fields,
  });
export const enrolmentContains = (where: string, what: string): StemmaError =>
  invalidEnrolment(`${where} contains ${what}. ${enrolAgain}`);
export const enrolmentChanged = (where: string): StemmaError =>
  invalidEnrolment(
    `${where} was changed or damaged after it was made. Bring the original file again; \`stemma device enroll DEVICE --readdress FILE\` changes its addresses.`,
  );
export const noEnrolment = (path: string): StemmaError =>
  new StemmaError(
    "FILE_MISSING",
    `There is no enrolment ${path}. If this device is not enrolled yet, invite it at its server (\`stemma device enroll\`), then run \`stemma agent enroll INVITATION\` here, with the same --home.`,
    { path },
  );
