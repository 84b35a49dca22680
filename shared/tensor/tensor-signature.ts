/**
 * Signatures by which relatives among tensors are found wherever they are: hashes of the signs of rows and columns.
 * Signs outlast a cast, a scale, quantising to 8 bits and most of a fine-tuning; a row keeps its hash where rows are
 * permuted, sliced or added; rows and columns are hashed alike, so that a transposed tensor has the same ones. Pure.
 */
import { dtypeBits } from "./dtype.js";
import type { TensorHeader } from "./tensor.js";

/** Signs of a row that are hashed: those of its first numbers. Likewise of a column. */
const signs = 32;
/** Rows and columns with fewer numbers, or of almost one sign only, tell nothing. */
const minSigns = 16;
const minShareOfSign = 0.2;
/** Hashes of rows, and as many of columns: the smallest ones, so that a part has many of those of the whole. */
const hashesEach = 16;
/** Columns of a signed tensor, at most: each takes four bytes of memory. */
const maxColumns = 2 ** 22;

/** The signature of a tensor, up to 32 hashes. */
export type Signature = readonly number[];

/** True if a tensor has rows and columns that can be signed. */
export function isSigned({ dtype, shape }: TensorHeader): boolean {
  const [rows = 0, ...others] = shape;
  const columns = others.reduce((product, size) => product * size, 1);
  const isWhole = dtypeBits(dtype) % 8 === 0 && dtype !== "BOOL";
  return isWhole && others.length > 0 && Math.min(rows, columns) >= minSigns && columns <= maxColumns;
}

/** Takes a tensor's bytes in order, in chunks of any length. Needs time in proportion to rows and columns. */
export class SignatureBuilder {
  readonly #width: number;
  readonly #columns: number;
  readonly #rows: number;
  /** The sign bit that numbers from zero on have. */
  readonly #flip: number;
  readonly #ofColumns: Int32Array;
  readonly #rowHashes: number[] = [];
  #rowSigns = 0;
  #position = 0;

  constructor({ dtype, shape }: TensorHeader) {
    const [rows = 0, ...others] = shape;
    this.#rows = rows;
    this.#columns = others.reduce((product, size) => product * size, 1);
    this.#width = dtypeBits(dtype) / 8;
    this.#flip = dtype.startsWith("U") ? 1 : 0;
    this.#ofColumns = new Int32Array(this.#columns);
  }

  update(chunk: Uint8Array): void {
    const width = this.#width;
    const rowBytes = this.#columns * width;
    const end = this.#position + chunk.length;
    const inRow = Math.min(signs, this.#columns);
    for (let row = Math.floor(this.#position / rowBytes); row * rowBytes < end && row < this.#rows; row++) {
      const count = row < signs ? this.#columns : inRow;
      // The sign is in the highest byte.
      const first = row * rowBytes + width - 1;
      const from = Math.max(0, Math.ceil((this.#position - first) / width));
      const to = Math.min(count, Math.ceil((end - first) / width));
      for (let column = from; column < to; column++) {
        const sign = (chunk[first + column * width - this.#position]! >> 7) ^ this.#flip;
        if (column < signs) this.#rowSigns |= sign << column;
        if (row < signs) this.#ofColumns[column]! |= sign << row;
        if (column !== inRow - 1) continue;
        addHash(this.#rowHashes, this.#rowSigns, inRow);
        this.#rowSigns = 0;
      }
    }
    this.#position = end;
  }

  finish(): Signature {
    const columnHashes: number[] = [];
    for (const column of this.#ofColumns) addHash(columnHashes, column, Math.min(signs, this.#rows));
    return [...new Set([...smallest(this.#rowHashes), ...smallest(columnHashes)])];
  }
}

function addHash(hashes: number[], bits: number, count: number): void {
  let ones = 0;
  for (let rest = bits >>> 0; rest !== 0; rest &= rest - 1) ones++;
  if (count < minSigns || Math.min(ones, count - ones) < minShareOfSign * count) return;
  let hash = Math.imul(bits ^ (count * 0x9e3779b1), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 15), 0xc2b2ae35);
  hashes.push((hash ^ (hash >>> 16)) >>> 0);
}

function smallest(hashes: readonly number[]): readonly number[] {
  return [...new Set(hashes)].sort((a, b) => a - b).slice(0, hashesEach);
}

/** Tensors that are listed for one hash, at most: the first ones. */
const maxListed = 8;
/** Hashes that relatives have in common, at least. */
const minCommon = 2;

/** Finds by signature which tensors are alike; a look-up takes steps that do not grow with the tensors. */
export class SignatureIndex<Id> {
  readonly #byHash = new Map<number, Id[]>();
  /** Entries looked at so far. */
  steps = 0;

  add(id: Id, signature: Signature): void {
    for (const hash of signature) {
      const listed = this.#byHash.get(hash);
      if (listed === undefined) this.#byHash.set(hash, [id]);
      else if (listed.length < maxListed) listed.push(id);
    }
  }

  /** The tensors with most hashes in common, best first, without the tensor itself. */
  find(id: Id, signature: Signature, count: number): readonly Id[] {
    const common = new Map<Id, number>();
    for (const hash of signature)
      for (const other of this.#byHash.get(hash) ?? []) {
        this.steps++;
        if (other !== id) common.set(other, (common.get(other) ?? 0) + 1);
      }
    return [...common]
      .filter(([, own]) => own >= minCommon)
      .sort(([, a], [, b]) => b - a)
      .slice(0, count)
      .map(([other]) => other);
  }
}
