/**
 * The small file with a journal's newest head. It is disposable (a head can be computed from the entries). It
 * states how many entries were durable, so that a damaged entry among these is distinguished from a torn
 * tail. Two slots are written alternately and fsynced only on closing: a torn slot leaves the other intact.
 */
import { crc32 } from "node:zlib";
import { hashBytes, hexOf } from "../tensor/hash.js";
import type { JournalHead } from "./journal.js";

const utf8 = new TextEncoder();

/** A head as kept on disk; key and signature are empty where the journal has no signer. */
export interface KeptHead extends JournalHead {
  readonly publicKey: string;
  readonly signature: string;
}

export const headSlotBytes = 1024;
const headMagic = "STEMHEAD";
const headFormat = 1;
const fixedBytes = 8 + 4 + 4 + 8 + 32 + 32 + 2 + 2;

/**
 * One slot: magic, format u32, crc u32 of the rest, length u64, chain, root, lengths u16 of key and
 * signature, both as UTF-8, zeros.
 */
export function encodeHeadSlot(head: KeptHead): Uint8Array {
  const slot = new Uint8Array(headSlotBytes);
  const view = new DataView(slot.buffer);
  const key = utf8.encode(head.publicKey);
  const signature = utf8.encode(head.signature);
  if (fixedBytes + key.length + signature.length > headSlotBytes)
    throw new RangeError(
      `a head's key and signature of ${key.length} and ${signature.length} bytes do not fit its slot`,
    );
  utf8.encodeInto(headMagic, slot);
  view.setUint32(8, headFormat, true);
  view.setBigUint64(16, BigInt(head.length), true);
  slot.set(hashBytes(head.chain), 24);
  slot.set(hashBytes(head.root), 56);
  view.setUint16(88, key.length, true);
  view.setUint16(90, signature.length, true);
  slot.set(key, fixedBytes);
  slot.set(signature, fixedBytes + key.length);
  view.setUint32(12, crc32(slot.subarray(16)), true);
  return slot;
}

/** A slot's head, or undefined where the slot is empty, torn or of another format. */
function decodeHeadSlot(slot: Uint8Array): KeptHead | undefined {
  if (slot.length !== headSlotBytes) return undefined;
  const view = new DataView(slot.buffer, slot.byteOffset, slot.length);
  const text = new TextDecoder();
  if (
    text.decode(slot.subarray(0, 8)) !== headMagic ||
    view.getUint32(8, true) !== headFormat ||
    view.getUint32(12, true) !== crc32(slot.subarray(16))
  )
    return undefined;
  const keyBytes = view.getUint16(88, true);
  const signatureBytes = view.getUint16(90, true);
  const length = Number(view.getBigUint64(16, true));
  if (fixedBytes + keyBytes + signatureBytes > headSlotBytes || !Number.isSafeInteger(length))
    return undefined;
  return {
    length,
    chain: hexOf(slot.subarray(24, 56)),
    root: hexOf(slot.subarray(56, 88)),
    publicKey: text.decode(slot.subarray(fixedBytes, fixedBytes + keyBytes)),
    signature: text.decode(slot.subarray(fixedBytes + keyBytes, fixedBytes + keyBytes + signatureBytes)),
  };
}

/** The newest intact head of a head file. */
export function newestHead(file: Uint8Array): KeptHead | undefined {
  const heads = [0, headSlotBytes]
    .map((at) => decodeHeadSlot(file.subarray(at, at + headSlotBytes)))
    .filter((head) => head !== undefined);
  return heads.sort((a, b) => b.length - a.length)[0];
}
