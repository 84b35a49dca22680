/**
 * Infinities and NaNs where a scheme has only finite numbers: they are kept with their index and all their
 * bits.
 */
import { ByteWriter, type ByteReader } from "../delta/bytes.js";
import { encodingMalformed } from "../delta/encoding-malformed.js";
import { isFiniteWord } from "./float-words.js";

/** Bytes: count varint ‖ for each: numbers since the one before as a varint ‖ its 4 bytes. */
export function writeExceptions(out: ByteWriter, words: Uint32Array): void {
  const list = new ByteWriter();
  let count = 0;
  let next = 0;
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    if (isFiniteWord(word)) continue;
    list.varint(i - next);
    list.bytes(Uint8Array.of(word, word >>> 8, word >>> 16, word >>> 24));
    next = i + 1;
    count++;
  }
  out.varint(count);
  out.bytes(list.finish());
}

export interface Exception {
  readonly index: number;
  readonly word: number;
}

/** @throws DELTA_MALFORMED for indices outside the tensor and for finite numbers */
export function readExceptions(reader: ByteReader, count: number): readonly Exception[] {
  const found: Exception[] = [];
  const listed = reader.varint();
  for (let i = 0, next = 0; i < listed; i++) {
    const index = next + reader.varint();
    const [a, b, c, d] = reader.take(4) as unknown as readonly [number, number, number, number];
    const word = (a | (b << 8) | (c << 16) | (d << 24)) >>> 0;
    if (index >= count || isFiniteWord(word))
      throw encodingMalformed("it lists an infinity or NaN outside the tensor, or a finite number as one");
    found.push({ index, word });
    next = index + 1;
  }
  return found;
}
