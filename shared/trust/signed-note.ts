/**
 * Signed notes (C2SP signed-note): text, a blank line, and lines with signatures, each by a named key. Journals'
 * checkpoints have this form, so that programs which know nothing of Stemma check and cosign them. Pure.
 */
import { createHash } from "node:crypto";
import { StemmaError } from "../errors.js";
import { maxCheckpointBytes } from "../wire/limits.js";

/** Algorithms of a note's keys, the first byte of what names a key: Ed25519, and Ed25519 with a time, of a witness. */
export const noteAlgorithms = { ed25519: 1, cosignature: 4 } as const;
export type NoteAlgorithm = (typeof noteAlgorithms)[keyof typeof noteAlgorithms];

/** One line of a note: the key's name, its id (8 hex digits), and the bytes after the id. */
export interface NoteSignature {
  readonly name: string;
  readonly keyId: string;
  readonly bytes: Uint8Array;
}
export interface SignedNote {
  /** The signed text, with the line feed at its end. */
  readonly text: string;
  readonly signatures: readonly NoteSignature[];
}
/** A key that notes are checked with; `publicKey` in hex. */
export interface VerifierKey {
  readonly name: string;
  readonly keyId: string;
  readonly algorithm: NoteAlgorithm;
  readonly publicKey: string;
}

export const maxNoteBytes = maxCheckpointBytes;
export const maxNoteSignatures = 32;
const maxKeyNameLength = 255;
const signatureStart = "\u2014 ";
/** Spaces as Unicode has them; U+0085 is one that `\s` lacks. */
const keyNamePattern = /^[^\s+\u0085]+$/u;
const controlCharacters = /[\u0000-\u0009\u000b-\u001f]/;

const malformed = (why: string): StemmaError =>
  new StemmaError(
    "CHECKPOINT_INVALID",
    `This is not a signed note: ${why}. Give the whole text as it was printed, with the lines of signatures.`,
  );

export const isKeyName = (name: string): boolean =>
  name.length <= maxKeyNameLength && keyNamePattern.test(name);

/** The bytes of canonical base64; undefined for any other text. */
function bytesOfBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  return bytes.toString("base64") === text ? bytes : undefined;
}

/** First four bytes of SHA-256(name ‖ 0x0A ‖ algorithm ‖ public key), in hex. */
export function noteKeyId(name: string, algorithm: NoteAlgorithm, publicKey: string): string {
  return createHash("sha256")
    .update(`${name}\n`)
    .update(Buffer.of(algorithm))
    .update(publicKey, "hex")
    .digest("hex")
    .slice(0, 8);
}

/** The text by which a key is given to others: `<name>+<key id>+<base64 of algorithm and public key>`. */
export function verifierKeyText(name: string, algorithm: NoteAlgorithm, publicKey: string): string {
  const key = Buffer.concat([Buffer.of(algorithm), Buffer.from(publicKey, "hex")]);
  return `${name}+${noteKeyId(name, algorithm, publicKey)}+${key.toString("base64")}`;
}

/** The key in such a text; undefined where it is not one, or its id is another key's. */
export function parseVerifierKey(text: string): VerifierKey | undefined {
  // Base64 may have a + of its own.
  const [, name = "", keyId = "", encoded = ""] = /^([^+]+)\+([0-9a-f]{8})\+(.+)$/s.exec(text) ?? [];
  const bytes = bytesOfBase64(encoded);
  const algorithm = Object.values(noteAlgorithms).find((one) => one === bytes?.[0]);
  if (!isKeyName(name) || bytes?.length !== 33 || algorithm === undefined) return undefined;
  const publicKey = bytes.subarray(1).toString("hex");
  if (noteKeyId(name, algorithm, publicKey) !== keyId) return undefined;
  return { name, keyId, algorithm, publicKey };
}

/** @throws CHECKPOINT_INVALID; nothing is decoded before the limits were checked */
export function parseSignedNote(note: string): SignedNote {
  if (note.length > maxNoteBytes || Buffer.byteLength(note) > maxNoteBytes)
    throw malformed(`it has more than ${maxNoteBytes} bytes`);
  if (Buffer.from(note).toString("utf8") !== note) throw malformed("it is not well-formed Unicode");
  if (controlCharacters.test(note)) throw malformed("it has control characters");
  const end = note.lastIndexOf("\n\n");
  if (end <= 0 || !note.endsWith("\n")) throw malformed("it has no blank line before its signatures");
  const lines = note.slice(end + 2, -1).split("\n");
  if (lines.length > maxNoteSignatures) throw malformed(`it has more than ${maxNoteSignatures} signatures`);
  return { text: note.slice(0, end + 1), signatures: lines.map(signatureOfLine) };
}

function signatureOfLine(line: string): NoteSignature {
  const [name = "", encoded = "", ...rest] = line.startsWith(signatureStart)
    ? line.slice(signatureStart.length).split(" ")
    : [];
  const bytes = bytesOfBase64(encoded);
  if (!isKeyName(name) || rest.length > 0 || bytes === undefined || bytes.length < 5)
    throw malformed(`"${line.slice(0, 80)}" is not a line with a signature`);
  return { name, keyId: bytes.subarray(0, 4).toString("hex"), bytes: new Uint8Array(bytes.subarray(4)) };
}

export function signedNoteText({ text, signatures }: SignedNote): string {
  const lines = signatures.map(({ name, keyId, bytes }) => {
    const encoded = Buffer.concat([Buffer.from(keyId, "hex"), bytes]).toString("base64");
    return `${signatureStart}${name} ${encoded}\n`;
  });
  return `${text}\n${lines.join("")}`;
}
