/** The bytes of a journal head that a server signs. Pure; does not use keys. */
import type { JournalHead } from "./journal.js";

const domain = Buffer.from("stemma-head-1\0");

/** "stemma-head-1\0" ‖ length u64 ‖ chain ‖ root, integers little-endian. */
export function headMessage({ length, chain, root }: JournalHead): Uint8Array {
  const lengthBytes = Buffer.alloc(8);
  lengthBytes.writeBigUInt64LE(BigInt(length));
  return Buffer.concat([domain, lengthBytes, Buffer.from(chain, "hex"), Buffer.from(root, "hex")]);
}
