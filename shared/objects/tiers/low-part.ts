/**
 * Locates the low-order bytes of a tensor that is stored in planes. The end of its stored bytes can be in a
 * low file instead of the pack (low-file.ts), so that it can be kept on another disk. Pure.
 *
 *     64 bytes: name of the low file (SHA-256, 8 random bytes), offset u64, bytes u64, check: the first 8 bytes of
 *     the SHA-256 over the part
 */
import { sha256 } from "../../tensor/hash.js";

export interface LowPart {
  /** Name of the low file: 64 and 16 hexadecimal digits, with a dot between them. */
  readonly file: string;
  readonly offset: number;
  readonly bytes: number;
  /** The check, 16 hexadecimal digits. */
  readonly check: string;
}

/** Size of a low part in the index of a pack. */
export const lowPartBytes = 64;

/** The check of a low part's bytes. */
export function lowPartCheck(bytes: Uint8Array): string {
  return sha256(bytes).slice(0, 16);
}

export function encodeLowPart(target: Uint8Array, at: number, { file, offset, bytes, check }: LowPart): void {
  const view = new DataView(target.buffer, target.byteOffset);
  target.set(Buffer.from(file.replace(".", ""), "hex"), at);
  view.setBigUint64(at + 40, BigInt(offset), true);
  view.setBigUint64(at + 48, BigInt(bytes), true);
  target.set(Buffer.from(check, "hex"), at + 56);
}

/** The low part at `at`; undefined where there are not enough bytes, or it is not valid. */
export function decodeLowPart(source: Uint8Array, at: number): LowPart | undefined {
  if (at + lowPartBytes > source.length) return undefined;
  const view = new DataView(source.buffer, source.byteOffset, source.length);
  const hex = (from: number, length: number): string =>
    Buffer.from(source.subarray(at + from, at + from + length)).toString("hex");
  const offset = Number(view.getBigUint64(at + 40, true));
  const bytes = Number(view.getBigUint64(at + 48, true));
  if (!Number.isSafeInteger(offset + bytes) || bytes === 0) return undefined;
  return { file: `${hex(0, 32)}.${hex(32, 8)}`, offset, bytes, check: hex(56, 8) };
}
