/**
 * Merges a LoRA adapter into a stream of its base: W + scale · (B · A), the same bits on every machine. All is float32,
 * each step rounded: the products of a row of B and a column of A are added in the order of the rank, beginning with
 * zero; the sum is multiplied by the scale, and added to W; that is rounded once to W's type. Pure.
 */
import { tensorOf, valuesOf, wordsOf } from "../../delta/derived/float-numbers.js";
import { dtypeBits } from "../../tensor/dtype.js";
import {
  maxHeaderBytes,
  parseSafetensorsHeader,
  safetensorsMalformed,
} from "../../tensor/safetensors-header.js";
import type { SafetensorsEntry } from "../../tensor/safetensors-header.js";
import type { Tensor } from "../../tensor/tensor.js";
import type { AdapterConfig } from "./adapter-config.js";
import { loraPairs, type LoraPair, type NamedTensor } from "./lora-pairs.js";

export type AdapterTensor = NamedTensor & Tensor;

/** Rows of this many bytes are computed before the next ones are read. */
const stepBytes = 1024 * 1024;

export interface MergeInput {
  /** The base as one safetensors file of `byteLength` bytes, in pieces. */
  readonly base: AsyncIterable<Uint8Array>;
  readonly byteLength: number;
  readonly adapter: readonly AdapterTensor[];
  readonly config: Pick<AdapterConfig, "rank" | "scale">;
  /** Gets the number of tensors that change, before any of them is computed. */
  readonly onPairs: (count: number) => void;
  /** Ends the work between two pieces, with its reason. */
  readonly signal?: AbortSignal | undefined;
}

/** The merged model as a safetensors file: the base's, with other bytes. @throws ARCHITECTURE_MISMATCH */
export async function* mergedChunks(input: MergeInput): AsyncGenerator<Uint8Array> {
  for await (const chunk of computedChunks(input)) {
    input.signal?.throwIfAborted();
    yield chunk;
  }
}

async function* computedChunks({
  base,
  byteLength,
  adapter,
  config,
  onPairs,
}: Omit<MergeInput, "signal">): AsyncGenerator<Uint8Array> {
  const pieces = new Pieces(base);
  try {
    const length = await pieces.take(8);
    const headerBytes = Number(Buffer.from(length).readBigUInt64LE(0));
    if (headerBytes > maxHeaderBytes) throw safetensorsMalformed("The base", "its header is too long");
    const text = await pieces.take(headerBytes);
    const { tensors } = parseSafetensorsHeader(text, byteLength - 8 - headerBytes, "The base");
    const pairs = loraPairs(adapter, tensors, config);
    onPairs(pairs.size);
    yield length;
    yield text;
    for (const tensor of tensors) {
      const pair = pairs.get(tensor.name);
      const bytes = tensor.end - tensor.begin;
      if (pair === undefined) yield* pieces.pass(bytes);
      else yield* mergedTensor(pieces, tensor, { pair, scale: config.scale });
    }
    // The proof of a stream comes after its last bytes.
    await pieces.end();
  } finally {
    await pieces.close();
  }
}

interface Change {
  readonly pair: LoraPair<AdapterTensor>;
  readonly scale: number;
}

async function* mergedTensor(
  pieces: Pieces,
  { dtype, shape }: SafetensorsEntry,
  { pair, scale }: Change,
): AsyncGenerator<Uint8Array> {
  const [rows, width] = shape as [number, number];
  if (rows * width === 0) return;
  const a = valuesOf(pair.a) as Float32Array;
  const b = valuesOf(pair.b) as Float32Array;
  const rowBytes = (width * dtypeBits(dtype)) / 8;
  const step = Math.max(1, Math.floor(stepBytes / rowBytes));
  for (let from = 0; from < rows; from += step) {
    const count = Math.min(step, rows - from);
    const bytes = await pieces.take(count * rowBytes);
    const values = valuesOf({ dtype, shape: [count, width], bytes }) as Float32Array;
    addProduct(values, { a, b, from, width, scale: Math.fround(scale) });
    yield tensorOf(dtype, [count, width], wordsOf(values)).bytes;
  }
}

/** Adds to rows of W, of which the first has the number `from`. */
function addProduct(
  values: Float32Array,
  {
    a,
    b,
    from,
    width,
    scale,
  }: {
    readonly a: Float32Array;
    readonly b: Float32Array;
    readonly from: number;
    readonly width: number;
    readonly scale: number;
  },
): void {
  const rank = a.length / width;
  const sums = new Float32Array(width);
  for (let row = 0; row * width < values.length; row++) {
    sums.fill(0);
    for (let k = 0; k < rank; k++) {
      const factor = b[(from + row) * rank + k] as number;
      // What is stored in a Float32Array is rounded to float32.
      for (let i = 0; i < width; i++)
        sums[i] = (sums[i] as number) + Math.fround(factor * (a[k * width + i] as number));
    }
    for (let i = 0; i < width; i++)
      values[row * width + i] =
        (values[row * width + i] as number) + Math.fround((sums[i] as number) * scale);
  }
}

/** A stream of pieces, read in other pieces. */
class Pieces {
  readonly #iterator: AsyncIterator<Uint8Array>;
  #left: Uint8Array = new Uint8Array(0);

  constructor(pieces: AsyncIterable<Uint8Array>) {
    this.#iterator = pieces[Symbol.asyncIterator]();
  }

  /** Exactly this many bytes, in memory. */
  async take(byteLength: number): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    for await (const part of this.pass(byteLength)) parts.push(part);
    return parts.length === 1 ? (parts[0] as Uint8Array) : new Uint8Array(Buffer.concat(parts));
  }

  /** Exactly this many bytes, as they come. @throws SAFETENSORS_MALFORMED where the stream ends before */
  async *pass(byteLength: number): AsyncGenerator<Uint8Array> {
    for (let needed = byteLength; needed > 0;) {
      if (this.#left.length === 0) {
        const next = await this.#iterator.next();
        if (next.done === true) throw safetensorsMalformed("The base", "it ended too early");
        this.#left = next.value;
      }
      const part = this.#left.subarray(0, needed);
      this.#left = this.#left.subarray(part.length);
      needed -= part.length;
      yield part;
    }
  }

  async end(): Promise<void> {
    while ((await this.#iterator.next()).done !== true);
  }

  async close(): Promise<void> {
    await this.#iterator.return?.();
  }
}
