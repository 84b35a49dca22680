/**
 * Codes side information (scales and tables) by an adaptive binary range coder, as in LZMA. It has 11-bit probabilities
 * and carry by cache; a small part of an encoding is coded without tables of its own. Does not depend on tensors.
 */
const probabilityBits = 11;
const adaptation = 4;
const half = 1 << (probabilityBits - 1);

/** The probability of a zero bit in each context, adapted with every bit. */
export type BitModel = Uint16Array;
export function newBitModel(contexts: number): BitModel {
  return new Uint16Array(contexts).fill(half);
}
/** Number of contexts that `codeNumber` uses. */
export const numberContexts = 64;

export interface BitCoder {
  /** Codes one bit (an encoder writes `bit`, a decoder ignores it) and returns it. */
  bit(model: BitModel, context: number, bit: number): number;
}

/**
 * Codes a whole number of either sign, small ones in few bits: sign and bit length adaptively, the bits below
 * the second highest evenly.
 * @param start first of its contexts in the model
 */
export function codeNumber(coder: BitCoder, model: BitModel, value: number, start = 0): number {
  const folded = value < 0 ? -2 * value : 2 * value + 1;
  const length = 31 - Math.clz32(folded);
  let bits = 0;
  while (bits < 20 && coder.bit(model, start + bits, bits < length ? 1 : 0) === 1) bits++;
  let result = 1;
  for (let i = bits - 1; i >= 0; i--)
    result =
      (result << 1) |
      coder.bit(
        model,
        start + (result < 4 ? 20 + 4 * Math.min(bits, 6) + result : 62 + (i === 0 ? 1 : 0)),
        (folded >>> i) & 1,
      );
  return (result & 1) === 1 ? (result - 1) / 2 : -result / 2;
}

export class RangeEncoder implements BitCoder {
  readonly #bytes: number[] = [];
  #low = 0;
  #range = 0xffffffff;
  #cache = -1;
  #pending = 0;

  bit(model: BitModel, context: number, bit: number): number {
    const probability = model[context]!;
    const bound = (this.#range >>> probabilityBits) * probability;
    if (bit === 0) {
      this.#range = bound;
      model[context] = probability + ((2048 - probability) >> adaptation);
    } else {
      this.#low += bound;
      this.#range -= bound;
      model[context] = probability - (probability >> adaptation);
    }
    while (this.#range < 0x1000000) {
      this.#range = this.#range * 256;
      this.#shift();
    }
    return bit;
  }

  #shift(): void {
    if (this.#low < 0xff000000 || this.#low >= 0x100000000) {
      const carry = this.#low >= 0x100000000 ? 1 : 0;
      if (this.#cache >= 0) this.#bytes.push((this.#cache + carry) & 255);
      for (; this.#pending > 0; this.#pending--) this.#bytes.push((255 + carry) & 255);
      this.#cache = Math.floor(this.#low / 0x1000000) & 255;
    } else this.#pending++;
    this.#low = (this.#low % 0x1000000) * 256;
  }

  /** Returns all bytes without the zeros at the end, which a decoder adds. */
  finish(): Uint8Array {
    for (let i = 0; i < 5; i++) this.#shift();
    let length = this.#bytes.length;
    while (length > 0 && this.#bytes[length - 1] === 0) length--;
    return Uint8Array.from(this.#bytes.slice(0, length));
  }
}

export class RangeDecoder implements BitCoder {
  #position = 0;
  #range = 0xffffffff;
  #code = 0;
  constructor(readonly bytes: Uint8Array) {
    for (let i = 0; i < 4; i++) this.#code = this.#code * 256 + this.#next();
  }
  #next(): number {
    return this.bytes[this.#position++] ?? 0;
  }

  bit(model: BitModel, context: number, _bit: number): number {
    const probability = model[context]!;
    const bound = (this.#range >>> probabilityBits) * probability;
    let bit = 0;
    if (this.#code < bound) {
      this.#range = bound;
      model[context] = probability + ((2048 - probability) >> adaptation);
    } else {
      bit = 1;
      this.#code -= bound;
      this.#range -= bound;
      model[context] = probability - (probability >> adaptation);
    }
    while (this.#range < 0x1000000) {
      this.#range *= 256;
      this.#code = this.#code * 256 + this.#next();
    }
    return bit;
  }
}
