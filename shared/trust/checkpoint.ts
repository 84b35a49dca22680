/**
 * Heads of a journal as checkpoints (C2SP tlog-checkpoint), and the cosignatures that witnesses put below them (C2SP
 * tlog-cosignature, Ed25519): each states that this is the only history of the journal that it has seen. Pure.
 * (docs/formats.md, "Checkpoints")
 */
import { StemmaError } from "../errors.js";
import type { LogRoot } from "../journal/merkle-log.js";
import type { Hash } from "../tensor/tensor.js";
import { isSignatureValid, type Signer } from "./keys.js";
import {
  noteAlgorithms,
  noteKeyId,
  parseSignedNote,
  parseVerifierKey,
  signedNoteText,
  type NoteSignature,
  type SignedNote,
  type VerifierKey,
} from "./signed-note.js";
import { cosignaturesMissing } from "./trust-errors.js";

/** A checkpoint; `origin` names the journal. */
export interface Checkpoint extends LogRoot {
  readonly origin: string;
}
export interface ParsedCheckpoint {
  readonly checkpoint: Checkpoint;
  readonly note: SignedNote;
}

const invalid = (why: string): StemmaError =>
  new StemmaError(
    "CHECKPOINT_INVALID",
    `This is not a checkpoint of this journal: ${why}. Print it again with \`stemma journal checkpoint\`.`,
  );

/**
 * The name of a fleet's journal for witnesses. A witness never goes back, so a journal that was put back to an older
 * state has another name: `restore` is the leaf hash of its last fact `restored`.
 * @param firstKey the first key of the server, which its name keeps when the key changes
 */
export function journalOrigin(firstKey: string, fleet: string, restore?: Hash): string {
  const origin = `stemma/${firstKey}/${fleet}`;
  return restore === undefined ? origin : `${origin}/restored-${restore.slice(0, 16)}`;
}

/** True if `origin` names the journal `pinned`, or what became of that after a restore. */
export function isOriginOf(pinned: string, origin: string): boolean {
  return origin === pinned || /^\/restored-[0-9a-f]{16}$/.test(originTail(pinned, origin));
}
const originTail = (pinned: string, origin: string): string =>
  origin.startsWith(pinned) ? origin.slice(pinned.length) : "";

/** The signed text: origin, number of facts, and root, each on a line. */
export function checkpointBody({ origin, length, root }: Checkpoint): string {
  return `${origin}\n${length}\n${Buffer.from(root, "hex").toString("base64")}\n`;
}

/** A checkpoint with the server's signature. */
export function signCheckpoint(server: Signer, checkpoint: Checkpoint): string {
  const text = checkpointBody(checkpoint);
  const { origin } = checkpoint;
  const keyId = noteKeyId(origin, noteAlgorithms.ed25519, server.publicKey);
  const signature = { name: origin, keyId, bytes: server.sign(Buffer.from(text)) };
  return signedNoteText({ text, signatures: [signature] });
}

/** Reads a checkpoint; extension lines are refused, as Stemma writes none. @throws CHECKPOINT_INVALID */
export function parseCheckpoint(text: string): ParsedCheckpoint {
  const note = parseSignedNote(text);
  const [origin = "", size = "", encoded = "", ...rest] = note.text.split("\n");
  const root = Buffer.from(encoded, "base64");
  if (rest.length !== 1 || origin === "") throw invalid("it does not consist of three lines");
  if (!/^(0|[1-9][0-9]{0,15})$/.test(size) || !Number.isSafeInteger(Number(size)))
    throw invalid("its second line is not a number of facts");
  if (root.length !== 32 || root.toString("base64") !== encoded)
    throw invalid("its third line is not a hash in base64");
  const checkpoint = { origin, length: Number(size), root: root.toString("hex") as Hash };
  return { checkpoint, note };
}

const cosignatureBytes = 8 + 64;
/** Times up to 2^63 - 1 are allowed. */
const maxTime = 2n ** 63n - 1n;

/** "cosignature/v1", a line with the time in seconds since 1970, and the checkpoint's text. */
export function cosignatureMessage(seconds: bigint, text: string): Uint8Array {
  return Buffer.from(`cosignature/v1\ntime ${seconds}\n${text}`);
}

/** True if this line has the form of a witness's cosignature. */
export const isCosignature = ({ bytes }: NoteSignature): boolean => bytes.length === cosignatureBytes;

function isCosignedBy({ name, keyId, publicKey }: VerifierKey, { text, signatures }: SignedNote): boolean {
  return signatures.some((line) => {
    if (line.name !== name || line.keyId !== keyId || !isCosignature(line)) return false;
    const seconds = Buffer.from(line.bytes).readBigUInt64BE(0);
    if (seconds > maxTime) return false;
    return isSignatureValid(publicKey, cosignatureMessage(seconds, text), line.bytes.subarray(8));
  });
}

/** The demand of a device on checkpoints: `threshold` of these witnesses, each once, must have cosigned. */
export interface WitnessPolicy {
  /** The name of the journal as `stemma journal checkpoint` prints it. */
  readonly origin: string;
  readonly threshold: number;
  readonly witnesses: readonly VerifierKey[];
}

/** Reads the witnesses' keys; undefined where one is not such a key, or two have the same name or public key. */
export function witnessKeys(texts: readonly string[]): readonly VerifierKey[] | undefined {
  const keys = texts.map(parseVerifierKey).filter((key) => key?.algorithm === noteAlgorithms.cosignature);
  const isDistinct = (["name", "publicKey"] as const).every(
    (member) => new Set(keys.map((key) => key?.[member])).size === texts.length,
  );
  return isDistinct ? keys.filter((key) => key !== undefined) : undefined;
}

/** The names of the pinned witnesses that cosigned, each once, however many lines it has. */
export function cosigners({ witnesses }: WitnessPolicy, note: SignedNote): readonly string[] {
  return witnesses.filter((witness) => isCosignedBy(witness, note)).map(({ name }) => name);
}

/**
 * Reads a checkpoint that enough of the pinned witnesses cosigned for this journal.
 * @throws CHECKPOINT_INVALID, COSIGNATURES_MISSING
 */
export function cosignedCheckpoint(policy: WitnessPolicy, text: string): Checkpoint {
  const { checkpoint, note } = parseCheckpoint(text);
  if (!isOriginOf(policy.origin, checkpoint.origin))
    throw invalid(`it names ${checkpoint.origin.slice(0, 200)}, and ${policy.origin} is pinned`);
  const names = cosigners(policy, note);
  if (names.length < policy.threshold) throw cosignaturesMissing(checkpoint.length, names, policy.threshold);
  return checkpoint;
}
