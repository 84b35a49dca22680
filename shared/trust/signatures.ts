/**
 * Defines what is signed, byte by byte. Every kind has its own domain, so that a signature of one kind is
 * never valid for another; texts carry their length, so that different values have different bytes. Pure:
 * callers pass the keys. (docs/formats.md, "Signatures")
 */
import { StemmaError } from "../errors.js";
import { headMessage } from "../journal/head-message.js";
import type { SignedHead } from "../journal/journal.js";
import type { Hash } from "../tensor/tensor.js";
import type { Receipt } from "../wire/messages.js";
import { followKeyChanges, type KeyChange } from "./key-change.js";
import { isSignatureValid, type DeviceKey, type Signer } from "./keys.js";
import { headSignatureInvalid, signatureInvalid } from "./trust-errors.js";

const domains = {
  announce: "stemma-announce-1\0",
  session: "stemma-session-1\0",
  receipt: { form1: "stemma-receipt-1\0", form2: "stemma-receipt-2\0" },
  offer: { form1: "stemma-offer-1\0", form2: "stemma-offer-2\0", staged: "stemma-stage-1\0" },
} as const;

function text(value: string): Buffer {
  const bytes = Buffer.from(value, "utf8");
  return Buffer.concat([u32(bytes.length), bytes]);
}
function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}
const hash = (value: Hash): Buffer => Buffer.from(value, "hex");
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

function check(publicKey: string, message: Uint8Array, signature: string, subject: string): void {
  if (!isSignatureValid(publicKey, message, signature)) throw signatureInvalid(subject, publicKey);
}

// Announcements: a device declares that a version is its own.

/** "stemma-announce-1\0" ‖ version id. */
function announceMessage(versionId: Hash): Buffer {
  return Buffer.concat([Buffer.from(domains.announce), hash(versionId)]);
}
export async function signAnnounce(device: DeviceKey, versionId: Hash): Promise<string> {
  return hex(await device.sign(announceMessage(versionId)));
}
/** @throws SIGNATURE_INVALID */
export function verifyAnnounce(publicKey: string, versionId: Hash, signature: string): void {
  check(publicKey, announceMessage(versionId), signature, `the announcement of ${versionId}`);
}

// Sessions: a device states its session. Who can write to the device's topics at a broker, and does not have its
// key, cannot begin one.

export interface SessionSubject {
  readonly fleet: string;
  readonly device: string;
  /** The generation of the device's enrolment. */
  readonly generation: number;
  readonly session: number;
  /** The session that the device knows was accepted last; 0: unknown. */
  readonly previousSession: number;
  readonly online: boolean;
}
/**
 * "stemma-session-1\0" ‖ fleet ‖ device ‖ generation u32 ‖ session u64 ‖ previous session u64 ‖ online u8; texts
 * as length u32 ‖ UTF-8.
 */
function sessionMessage(subject: SessionSubject): Buffer {
  const { fleet, device, generation, session, previousSession, online } = subject;
  return Buffer.concat([
    Buffer.from(domains.session),
    text(fleet),
    text(device),
    u32(generation),
    u64(session),
    u64(previousSession),
    Buffer.of(online ? 1 : 0),
  ]);
}
export async function signSession(device: DeviceKey, subject: SessionSubject): Promise<string> {
  return hex(await device.sign(sessionMessage(subject)));
}
/** True if the device with this key stated the session. */
export function isSessionSigned(
  publicKey: string,
  subject: SessionSubject,
  signature: string | undefined,
): boolean {
  return signature !== undefined && isSignatureValid(publicKey, sessionMessage(subject), signature);
}

// Offers: the server offers a version to a line of a device.

export interface OfferSubject {
  readonly fleet: string;
  readonly device: string;
  readonly line: string;
  readonly versionId: Hash;
  /** Generation of the device, from 1. Absent: signed form 1, which servers no longer make. */
  readonly generation?: number | undefined;
  /** The device is to keep it and not yet to run it. */
  readonly staged?: boolean | undefined;
}
/**
 * "stemma-offer-2\0" ‖ fleet ‖ 0 ‖ device ‖ 0 ‖ line ‖ 0 ‖ generation u32 ‖ version id; none of the texts may
 * contain NUL. Form 1 has no generation. A staged offer has "stemma-stage-1\0" instead.
 */
function offerMessage({ fleet, device, line, versionId, generation, staged = false }: OfferSubject): Buffer {
  const names = [fleet, device, line];
  if (names.some((name) => name.includes("\0")))
    throw new StemmaError("SIGNATURE_INVALID", "A name with a NUL cannot be signed. Rename it.", {
      fleet,
      device,
      line,
    });
  const { form1, form2, staged: stagedForm } = domains.offer;
  const text = `${names.join("\0")}\0`;
  if (generation === undefined && !staged)
    return Buffer.concat([Buffer.from(`${form1}${text}`), hash(versionId)]);
  return Buffer.concat([
    Buffer.from(`${staged ? stagedForm : form2}${text}`),
    u32(generation ?? 0),
    hash(versionId),
  ]);
}
export function signOffer(server: Signer, subject: OfferSubject): string {
  return hex(server.sign(offerMessage(subject)));
}
/** @throws SIGNATURE_INVALID */
export function verifyOffer(publicKey: string, subject: OfferSubject, signature: string): void {
  check(
    publicKey,
    offerMessage(subject),
    signature,
    `the offer of ${subject.versionId} to ${subject.device}/${subject.line}`,
  );
}

// Journal heads.

/** A head as it is shown to whoever may trust an earlier key of the server: with the changes of that key since. */
export interface ShownHead extends SignedHead {
  /** Oldest first; absent: the key never changed. */
  readonly keyChanges?: readonly KeyChange[];
}

/** @throws HEAD_SIGNATURE_INVALID where neither this key signed it nor one that its changes lead to */
export function verifyHead(publicKey: string, head: ShownHead): void {
  const { publicKey: present } = followKeyChanges(publicKey, head.keyChanges ?? []);
  if (head.publicKey === present && isSignatureValid(present, headMessage(head), head.signature)) return;
  throw headSignatureInvalid(head.length, publicKey);
}

// Receipts: the server confirms the state of a version, bound to device and session.

export type UnsignedReceipt = Omit<Receipt, "type" | "publicKey" | "signature">;
const kindNumbers = { recorded: 0, stored: 1, released: 2 } as const;

/**
 * "stemma-receipt-2\0" ‖ kind u8 ‖ version id ‖ fleet ‖ device ‖ generation u32 ‖ session u64 ‖ position u64 ‖
 * backed up to u64 ‖ name ‖ version u32 ‖ head (0, or 1 ‖ length u64 ‖ chain ‖ root); texts as length u32 ‖
 * UTF-8, integers little-endian. Form 1 has no generation; no device accepts it any more.
 */
export function receiptMessage(receipt: UnsignedReceipt): Uint8Array {
  const { head, generation } = receipt;
  return Buffer.concat([
    Buffer.from(generation === undefined ? domains.receipt.form1 : domains.receipt.form2),
    Buffer.of(kindNumbers[receipt.kind]),
    hash(receipt.versionId),
    text(receipt.fleet),
    text(receipt.device),
    ...(generation === undefined ? [] : [u32(generation)]),
    u64(receipt.session),
    u64(receipt.position),
    u64(receipt.backedUpTo),
    text(receipt.name),
    u32(receipt.version),
    head === undefined
      ? Buffer.of(0)
      : Buffer.concat([Buffer.of(1), u64(head.length), hash(head.chain), hash(head.root)]),
  ]);
}
/** A receipt ready to send. */
export function signReceipt(server: Signer, receipt: UnsignedReceipt): Receipt {
  return {
    type: "receipt",
    ...receipt,
    publicKey: server.publicKey,
    signature: hex(server.sign(receiptMessage(receipt))),
  };
}

/** The reader whom a receipt must match. `session` is absent where a receipt of an older session is accepted too. */
export interface ReceiptReader {
  readonly serverPublicKey: string;
  readonly fleet: string;
  readonly device: string;
  /** Generation of the device's enrolment. */
  readonly generation: number;
  readonly session?: number;
}
/** @param why as the end of "A receipt …" */
export function receiptInvalid(
  { kind, versionId }: Pick<Receipt, "kind" | "versionId">,
  why: string,
): StemmaError {
  return new StemmaError(
    "RECEIPT_INVALID",
    `A receipt "${kind}" for ${versionId} ${why}. It is ignored, and the model stays in the outbox.`,
    { versionId, why },
  );
}

/**
 * Checks that the pinned server made this receipt for this generation of this device.
 * @throws RECEIPT_INVALID
 */
export function verifyReceipt(reader: ReceiptReader, receipt: Receipt): void {
  const reject = (why: string): StemmaError => receiptInvalid(receipt, why);
  if (receipt.publicKey !== reader.serverPublicKey)
    throw reject("is signed by another key than the server's pinned one");
  if (receipt.fleet !== reader.fleet || receipt.device !== reader.device)
    throw reject(`is for ${receipt.fleet}/${receipt.device}`);
  if (receipt.generation !== reader.generation)
    throw reject(
      `is for generation ${receipt.generation ?? "unknown"} of the device, this is ${reader.generation}`,
    );
  if (reader.session !== undefined && receipt.session !== reader.session)
    throw reject(`belongs to session ${receipt.session}`);
  if (!isSignatureValid(reader.serverPublicKey, receiptMessage(receipt), receipt.signature))
    throw reject("has an invalid signature");
}
