/**
 * A low file: low-order bytes of many tensors, immutable. Pure.
 *
 *     "STEMLOWB" ‖ format u32 = 1 ‖ zeros u32 ‖ parts, one after the other
 *
 * Its name is the SHA-256 of all its bytes, a dot and 16 random hexadecimal digits, so that a file that is being
 * deleted and a new one with the same bytes have different names. The packs that name it have the offsets, sizes and
 * checks of its parts (low-part.ts).
 */
import type { Random } from "../../ports.js";
import { sha256 } from "../../tensor/hash.js";
import { lowPartCheck, type LowPart } from "./low-part.js";

const header = Uint8Array.of(...new TextEncoder().encode("STEMLOWB"), 1, 0, 0, 0, 0, 0, 0, 0);

export interface LowFile {
  readonly name: string;
  readonly bytes: Uint8Array;
  /** The parts in the order in which they were given. */
  readonly parts: readonly LowPart[];
}

export function makeLowFile(parts: readonly Uint8Array[], random: Random): LowFile {
  const bytes = new Uint8Array(Buffer.concat([header, ...parts]));
  const name = `${sha256(bytes)}.${Buffer.from(random.bytes(8)).toString("hex")}`;
  let offset = header.length;
  return {
    name,
    bytes,
    parts: parts.map((part) => {
      const described = { file: name, offset, bytes: part.length, check: lowPartCheck(part) };
      offset += part.length;
      return described;
    }),
  };
}

/** True if these are the bytes that a low file of this name was written with. */
export function isLowFileIntact(name: string, bytes: Uint8Array): boolean {
  return sha256(bytes) === name.slice(0, 64);
}
