/**
 * Little-endian fields, varints and length-prefixed bytes of an encoding; the reader checks every length.
 * Does not depend on a format.
 */
import { uninitializedBytes } from "../tensor/uninitialized-bytes.js";
import { encodingMalformed } from "./encoding-malformed.js";

export class ByteWriter {
  readonly #parts: Uint8Array[] = [];
  length = 0;
  /** Adds bytes without copying them: they must not change until `finish` copies them. */
  bytes(bytes: Uint8Array): void {
    this.#parts.push(bytes);
    this.length += bytes.length;
  }
  u8(value: number): void {
    this.bytes(Uint8Array.of(value));
  }
  i16(value: number): void {
    this.bytes(Uint8Array.of(value & 255, (value >> 8) & 255));
  }
  varint(value: number): void {
    const bytes: number[] = [];
    let rest = value;
    for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
    this.bytes(Uint8Array.from([...bytes, rest]));
  }
  /** Length as a varint, then the bytes. */
  sized(bytes: Uint8Array): void {
    this.varint(bytes.length);
    this.bytes(bytes);
  }
  finish(): Uint8Array {
    const all = uninitializedBytes(this.length);
    let written = 0;
    for (const part of this.#parts) {
      all.set(part, written);
      written += part.length;
    }
    return all;
  }
}

/** Every method throws DELTA_MALFORMED where the bytes end too early. */
export class ByteReader {
  #position = 0;
  constructor(readonly bytes: Uint8Array) {}
  get remaining(): number {
    return this.bytes.length - this.#position;
  }
  take(length: number): Uint8Array {
    if (length > this.remaining)
      throw encodingMalformed(`it ends after ${this.bytes.length} bytes, in the middle of a field`);
    this.#position += length;
    return this.bytes.subarray(this.#position - length, this.#position);
  }
  u8(): number {
    return this.take(1)[0]!;
  }
  i16(): number {
    const [low, high] = this.take(2);
    return ((low! | (high! << 8)) << 16) >> 16;
  }
  varint(): number {
    let value = 0;
    for (let factor = 1, count = 0; count < 6; factor *= 128, count++) {
      const byte = this.u8();
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
    throw encodingMalformed("a length has more than six bytes");
  }
  sized(): Uint8Array {
    return this.take(this.varint());
  }
  rest(): Uint8Array {
    return this.take(this.remaining);
  }
}
