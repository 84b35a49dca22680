/**
 * Probabilities of bits, mixed from several contexts and adapted with every bit (logistic mixing, Mahoney 2005), and
 * the range coder that uses them. Every operation is exact or correctly rounded in IEEE doubles, and no library
 * function is used, so every machine computes the same probabilities. Does not depend on tensors.
 */

/** 65536 / (1 + exp(−x)) for x from −12 to 12 in steps of one half. */
// prettier-ignore
const logistic = Float64Array.of(
  1, 1, 1, 2, 3, 5, 8, 13, 22, 36, 60, 98, 162, 267, 439, 720, 1179, 1921, 3108, 4971, 7812, 11955, 17625, 24743,
  32768, 40793, 47911, 53581, 57724, 60565, 62428, 63615, 64357, 64816, 65097, 65269, 65374, 65438, 65476, 65500,
  65514, 65523, 65528, 65531, 65533, 65534, 65535, 65535, 65535,
);

function squash(x: number): number {
  const at = 2 * Math.max(-11.999, Math.min(11.999, x)) + 24;
  const from = at | 0;
  const low = logistic[from]!;
  return Math.max(1, Math.min(65535, (low + (logistic[from + 1]! - low) * (at - from)) | 0));
}

/** The inverse of `squash`, for probabilities in 4,096ths. */
const stretched = ((): Float64Array => {
  const table = new Float64Array(4096);
  let x = -12;
  for (let p = 0; p < 4096; p++) {
    while (x < 12 && squash(x) < 16 * p + 8) x += 1 / 64;
    table[p] = Math.max(-8, Math.min(8, x));
  }
  return table;
})();

/** A cell is a probability of a 1 in 2^22ths, and below it how often it was adapted. */
const countBits = 10;
const countMask = 2 ** countBits - 1;
const oneHalf = 2 ** 31;
/** 65,536 / (n + 1.6): how far a cell moves after n bits. */
const rates = Uint32Array.from({ length: 256 }, (_, seen) => 65536 / (seen + 1.6));

function adapted(cell: number, bit: number, limit: number): number {
  const seen = cell & countMask;
  const p = cell >>> countBits;
  const error = bit === 1 ? 4194303 - p : p;
  const step = ((error >>> 7) * rates[seen]!) >>> 9;
  const next = bit === 1 ? p + step : p - step;
  return ((next << countBits) | (seen < limit ? seen + 1 : seen)) >>> 0;
}

function newCells(count: number): Uint32Array {
  return new Uint32Array(count).fill(oneHalf);
}

/** Single bits, each in a context of its own. */
export class BitCells {
  readonly #cells: Uint32Array;
  /** @param limit a cell moves at least by 1/limit of its error, at most 255 */
  constructor(
    contexts: number,
    readonly limit: number,
  ) {
    this.#cells = newCells(contexts);
  }
  code(bits: MixedBits, context: number, bit: number): number {
    const cell = this.#cells[context]!;
    const coded = bits.bit(Math.max(1, Math.min(65535, cell >>> 16)), bit);
    this.#cells[context] = adapted(cell, coded, this.limit);
    return coded;
  }
}

const slowestLearning = 0.003;
const fastestLearning = 0.03;
const slowLimit = 255;
const fastLimit = 20;

/** Codes bytes whose bits are predicted from two plain and several hashed contexts. */
export class MixedBytes {
  /** A hash of each context of the next byte. */
  readonly contexts: Int32Array;
  readonly #inputs: number;
  readonly #tables: readonly Uint32Array[];
  readonly #slots: Int32Array;
  readonly #stretches: Float64Array;
  readonly #weights: Float64Array;
  readonly #uses: Uint32Array;
  readonly #lineMask: number;

  /**
   * @param contexts count of hashed contexts
   * @param sets weights are learned for each of these apart
   * @param tableBits log2 of the cells of a hashed context
   */
  constructor(contexts: number, sets: number, tableBits: number) {
    this.contexts = new Int32Array(contexts);
    this.#inputs = contexts + 2;
    const plain = [newCells(2048), newCells(2048)];
    this.#tables = [...plain, ...Array.from({ length: contexts }, () => newCells(2 ** tableBits))];
    this.#slots = new Int32Array(this.#inputs);
    this.#stretches = new Float64Array(this.#inputs);
    this.#weights = new Float64Array(this.#inputs * sets * 16).fill(0.35);
    this.#uses = new Uint32Array(sets * 16);
    this.#lineMask = 2 ** (tableBits - 4) - 1;
  }

  /**
   * @param plain context of the plain predictions, 0 to 7
   * @param set chooses the weights
   * @param expected the byte that a match promises, or −1
   */
  code(bits: MixedBits, own: number, { plain, set, expected }: ByteContext): number {
    const tables = this.#tables;
    const slots = this.#slots;
    const inputs = this.#inputs;
    const stretches = this.#stretches;
    const weights = this.#weights;
    let partial = 1;
    let nibble = 1;
    for (let bit = 7; bit >= 0; bit--) {
      if (bit === 7 || bit === 3) {
        nibble = 1;
        for (let k = 2; k < inputs; k++) {
          const line = Math.imul(this.contexts[k - 2]! + Math.imul(partial, 0x9e3779b1), 0x85ebca6b);
          slots[k] = ((line >>> 9) & this.#lineMask) << 4;
        }
      }
      const isExpected = expected >= 0 && (expected | 256) >>> (bit + 1) === partial;
      const weightSet = (set << 4) | (bit << 1) | (isExpected ? 1 : 0);
      const plainSlot = (plain << 8) | partial;
      let sum = 0;
      for (let k = 0, w = weightSet * inputs; k < inputs; k++, w++) {
        const cell = tables[k]![k < 2 ? plainSlot : slots[k]! | nibble]!;
        const stretch = (cell & countMask) === 0 ? 0 : stretched[cell >>> 20]!;
        stretches[k] = stretch;
        sum += stretch * weights[w]!;
      }
      const mixed = squash(sum);
      const coded = bits.bit(mixed, (own >>> bit) & 1);
      const uses = this.#uses[weightSet]!++;
      const rate = slowestLearning + fastestLearning / (1 + uses / 64);
      const step = (rate * ((coded === 1 ? 65536 : 0) - mixed)) / 65536;
      for (let k = 0, w = weightSet * inputs; k < inputs; k++, w++) {
        weights[w] = weights[w]! + step * stretches[k]!;
        const table = tables[k]!;
        const slot = k < 2 ? plainSlot : slots[k]! | nibble;
        table[slot] = adapted(table[slot]!, coded, k === 1 ? fastLimit : slowLimit);
      }
      partial = (partial << 1) | coded;
      nibble = (nibble << 1) | coded;
    }
    return partial & 255;
  }
}

export interface ByteContext {
  readonly plain: number;
  readonly set: number;
  readonly expected: number;
}

/** Codes one bit whose probability of being 1 is given in 65,536ths, and returns it. */
export interface MixedBits {
  bit(probability: number, bit: number): number;
}

function middle(low: number, high: number, probability: number): number {
  const range = high - low;
  return low + Math.floor(range / 65536) * probability + Math.floor(((range % 65536) * probability) / 65536);
}

/** Carryless range coder of 32 bits. */
export class MixedBitsWriter implements MixedBits {
  #bytes = new Uint8Array(4096);
  length = 0;
  #low = 0;
  #high = 0xffffffff;

  bit(probability: number, bit: number): number {
    const split = middle(this.#low, this.#high, probability);
    if (bit === 1) this.#high = split;
    else this.#low = split + 1;
    while (((this.#low ^ this.#high) & 0xff000000) === 0) {
      this.#push(this.#high >>> 24);
      this.#low = (this.#low << 8) >>> 0;
      this.#high = ((this.#high << 8) | 255) >>> 0;
    }
    return bit;
  }
  #push(byte: number): void {
    if (this.length === this.#bytes.length) {
      const longer = new Uint8Array(2 * this.length);
      longer.set(this.#bytes);
      this.#bytes = longer;
    }
    this.#bytes[this.length++] = byte;
  }
  /** A reader adds zeros at the end. */
  finish(): Uint8Array {
    // The shortest number between low and high.
    if (this.#low > 0) this.#push(((this.#low >>> 24) + 1) & 255);
    let length = this.length;
    while (length > 0 && this.#bytes[length - 1] === 0) length--;
    return this.#bytes.slice(0, length);
  }
}

export class MixedBitsReader implements MixedBits {
  readonly #bytes: Uint8Array;
  #position = 0;
  #low = 0;
  #high = 0xffffffff;
  #code = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    for (let i = 0; i < 4; i++) this.#code = ((this.#code << 8) | this.#next()) >>> 0;
  }
  #next(): number {
    return this.#bytes[this.#position++] ?? 0;
  }
  bit(probability: number, _bit: number): number {
    const split = middle(this.#low, this.#high, probability);
    const bit = this.#code <= split ? 1 : 0;
    if (bit === 1) this.#high = split;
    else this.#low = split + 1;
    while (((this.#low ^ this.#high) & 0xff000000) === 0) {
      this.#low = (this.#low << 8) >>> 0;
      this.#high = ((this.#high << 8) | 255) >>> 0;
      this.#code = ((this.#code << 8) | this.#next()) >>> 0;
    }
    return bit;
  }
}
