/** Computes an averaged tensor as a stream, from streams of several models' tensors: in memory is a piece of each. */
import { nextTurn } from "../concurrency/in-steps.js";
import { StemmaError } from "../errors.js";
import { dtypeBits } from "../tensor/dtype.js";
import type { TensorHeader, TensorSource } from "../tensor/tensor.js";
import { averageOf, firstNotFinite, numbersOf, roundedTo, type AverageRule } from "./average-numbers.js";

/** Bytes of each model's tensor that are computed with between two turns of the event loop. */
const pieceBytes = 256 * 1024;

/** A model's own tensor, with the model's name for messages. */
export interface AveragedPart {
  readonly model: string;
  readonly source: TensorSource;
}

export interface AveragedTensor extends TensorHeader {
  /** The tensor's name for messages. */
  readonly name: string;
  /** The models' own, in the order of the arithmetic; a single one where it is the same in all. */
  readonly parts: readonly AveragedPart[];
}

/**
 * The average as a source, which computes it at each reading. A single part is passed on as it is, and looked at too.
 * Reading throws NOT_A_NUMBER for a number that is NaN or infinite, naming tensor and model, and what reading the parts
 * throws.
 */
export function averagedSource(
  tensor: AveragedTensor,
  rule: AverageRule,
  signal?: AbortSignal,
): TensorSource {
  const { dtype, shape, parts } = tensor;
  return {
    dtype,
    shape,
    byteLength: parts[0]?.source.byteLength ?? 0,
    async *chunks() {
      for await (const { pieces, at } of alignedPieces(tensor, signal)) {
        const all = pieces.map((bytes) => numbersOf(dtype, bytes));
        const first = (at * 8) / dtypeBits(dtype);
        all.forEach((numbers, k) => {
          const found = firstNotFinite(numbers);
          if (found >= 0) throw notFinite(tensor, parts[k]?.model ?? "", first + found);
        });
        if (all.length === 1) {
          yield pieces[0]!;
          continue;
        }
        const average = averageOf(all, rule);
        if (firstNotFinite(average) >= 0) throw sumTooLarge(tensor);
        yield roundedTo(dtype, average);
      }
    },
  };
}

/** Throws the first number that is not finite. @throws NOT_A_NUMBER, and what reading the parts throws */
export async function requireFinite(tensor: AveragedTensor, signal?: AbortSignal): Promise<void> {
  for await (const piece of averagedSource(tensor, { rule: "mean" }, signal).chunks()) void piece;
}

/** Pieces of the same positions of all parts; `at` is their first byte. */
export async function* alignedPieces(
  { parts }: Pick<AveragedTensor, "parts">,
  signal?: AbortSignal,
): AsyncGenerator<{ readonly pieces: readonly Uint8Array[]; readonly at: number }, void, undefined> {
  const readers = parts.map(({ source }) => new PieceReader(source));
  const byteLength = parts[0]?.source.byteLength ?? 0;
  try {
    for (let at = 0; at < byteLength; at += pieceBytes) {
      signal?.throwIfAborted();
      const length = Math.min(pieceBytes, byteLength - at);
      const pieces: Uint8Array[] = [];
      for (const reader of readers) pieces.push(await reader.read(length));
      yield { pieces, at };
      await nextTurn();
    }
    for (const reader of readers) await reader.end();
  } finally {
    for (const reader of readers) await reader.close();
  }
}

/** Reads a source in pieces of the length that is asked for. */
class PieceReader {
  readonly #source: TensorSource;
  readonly #chunks: AsyncIterator<Uint8Array>;
  #left: Uint8Array = new Uint8Array(0);

  constructor(source: TensorSource) {
    this.#source = source;
    this.#chunks = source.chunks()[Symbol.asyncIterator]();
  }

  /** @throws TENSOR_SIZE_MISMATCH where the source ends before */
  async read(length: number): Promise<Uint8Array> {
    const piece = new Uint8Array(length);
    for (let filled = 0; filled < length;) {
      if (this.#left.length === 0) {
        const next = await this.#chunks.next();
        if (next.done === true) throw this.#wrongLength();
        this.#left = next.value;
      }
      const taken = this.#left.subarray(0, length - filled);
      piece.set(taken, filled);
      filled += taken.length;
      this.#left = this.#left.subarray(taken.length);
    }
    return piece;
  }

  /** Some sources compare their bytes with their id only when they are read to the end. @throws TENSOR_SIZE_MISMATCH */
  async end(): Promise<void> {
    for (;;) {
      if (this.#left.length > 0) throw this.#wrongLength();
      const next = await this.#chunks.next();
      if (next.done === true) return;
      this.#left = next.value;
    }
  }

  async close(): Promise<void> {
    await this.#chunks.return?.();
  }

  #wrongLength(): StemmaError {
    const { byteLength } = this.#source;
    return new StemmaError(
      "TENSOR_SIZE_MISMATCH",
      `A tensor that is averaged does not have the ${byteLength} bytes of its shape. Check the store: stemma storage check.`,
      { expected: byteLength },
    );
  }
}

function notFinite({ name }: AveragedTensor, model: string, position: number): StemmaError {
  return new StemmaError(
    "NOT_A_NUMBER",
    `The tensor ${JSON.stringify(name.slice(0, 80))} of ${model} has a number that is NaN or infinite, the first at position ${position}. Leave ${model} out: no average is made with it.`,
    { tensor: name, model, position },
  );
}

function sumTooLarge({ name }: AveragedTensor): StemmaError {
  return new StemmaError(
    "NOT_A_NUMBER",
    `The sums of the tensor ${JSON.stringify(name.slice(0, 80))} are beyond what float64 can hold. Look at the models' numbers, and leave out the one that is wrong.`,
    { tensor: name },
  );
}
