/**
 * Runs the codec in a thread of its own where there is enough work to block the event loop, else inline. The
 * coder owns its arguments: their bytes are moved to the thread, not copied. Knows no protocol.
 */
import type { DeltaCodec, TensorEstimate } from "../../delta/codec.js";
import {
  encodingCodes,
  type EncodedTensor,
  type EncodeOptions,
  type References,
} from "../../delta/encoded.js";
import { listReferences } from "../../delta/links.js";
import { sharedDeltaCodec } from "../../delta/load.js";
import type { Tensor, TensorHeader } from "../../tensor/tensor.js";
import { movable, WorkerCalls } from "../../threads/worker-calls.js";

export interface TensorCoder {
  /**
   * The caller must not use the arguments afterwards.
   * @throws what DeltaCodec.encodeTensor throws; INTERNAL where the thread ended
   */
  encode(tensor: Tensor, references: References, options?: EncodeOptions): Promise<EncodedTensor>;
  /**
   * The caller must not use `references` afterwards.
   * @throws what DeltaCodec.decodeTensor throws; INTERNAL where the thread ended
   */
  decode(
    header: TensorHeader,
    encoded: { readonly code: number; readonly bytes: Uint8Array },
    references: References,
    declaredBytes: number,
  ): Promise<Uint8Array>;
  /** The caller must not use the arguments afterwards. */
  estimate(tensor: Tensor, references: References): Promise<TensorEstimate>;
  close(): Promise<void>;
}

export type CoderCall =
  | {
      readonly call: "encode";
      readonly tensor: Tensor;
      readonly references: References;
      readonly options: EncodeOptions | undefined;
    }
  | { readonly call: "estimate"; readonly tensor: Tensor; readonly references: References }
  | {
      readonly call: "decode";
      readonly header: TensorHeader;
      readonly code: number;
      readonly bytes: Uint8Array;
      readonly references: References;
      readonly declaredBytes: number;
    };
export type CoderResult = EncodedTensor | TensorEstimate | Uint8Array;

/** The bytes up to which the event loop is blocked for about ten milliseconds, less than a thread takes to start. */
const inlineBytes = 2 * 1024 * 1024;

/** The time of a tensor's bytes as a multiple of the fastest encodings', roughly. */
const weights = { mixed: 128, repeats: 64, lowRank: 16 } as const;

function encodingWeight({ dtype }: TensorHeader, { lowRank, general, layout }: EncodeOptions = {}): number {
  if (layout !== undefined && layout !== "packed") return 1;
  const isFloat = ["F64", "F32", "F16", "BF16"].includes(dtype);
  if (!isFloat && general !== false) return weights.repeats;
  return lowRank === true ? weights.lowRank : 1;
}

/** True if encoding or estimating blocks the event loop: repeats are searched for in the references, too. */
function isLong(tensor: Tensor, references: References, options?: EncodeOptions): boolean {
  const weight = encodingWeight(tensor, options);
  const searched = weight === weights.repeats ? bytesOf(references) : [];
  return searched.reduce((sum, { length }) => sum + length, weight * tensor.bytes.length) > inlineBytes;
}

/** @param totalBytes sum of the raw bytes that will be encoded or decoded */
export function openTensorCoder(totalBytes: number): TensorCoder {
  return totalBytes <= inlineBytes ? new InlineCoder() : new ThreadCoder();
}

/**
 * One codec for the process; the event loop gets a turn between two tensors. What takes long for its bytes goes to a
 * thread, which starts when it is needed.
 */
class InlineCoder implements TensorCoder {
  #thread: ThreadCoder | undefined;

  encode(tensor: Tensor, references: References, options?: EncodeOptions): Promise<EncodedTensor> {
    return isLong(tensor, references, options)
      ? this.#inThread().encode(tensor, references, options)
      : this.#run((codec) => codec.encodeTensor(tensor, tensor.bytes, references, options));
  }
  decode(
    header: TensorHeader,
    encoded: { readonly code: number; readonly bytes: Uint8Array },
    references: References,
    declaredBytes: number,
  ): Promise<Uint8Array> {
    return encoded.code === encodingCodes.mixed && weights.mixed * declaredBytes > inlineBytes
      ? this.#inThread().decode(header, encoded, references, declaredBytes)
      : this.#run((codec) => codec.decodeTensor(header, encoded, references, declaredBytes));
  }
  estimate(tensor: Tensor, references: References): Promise<TensorEstimate> {
    return isLong(tensor, references)
      ? this.#inThread().estimate(tensor, references)
      : this.#run((codec) => codec.estimate(tensor, tensor.bytes, references));
  }
  async close(): Promise<void> {
    await this.#thread?.close();
  }

  #inThread(): ThreadCoder {
    return (this.#thread ??= new ThreadCoder());
  }
  async #run<T>(action: (codec: DeltaCodec) => T): Promise<T> {
    const codec = await sharedDeltaCodec();
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    return action(codec);
  }
}

/** Calls to coder-thread.ts, answered in order. The thread starts with the first call: many transfers need none. */
class ThreadCoder implements TensorCoder {
  #calls: WorkerCalls<CoderCall, CoderResult> | undefined;

  encode(tensor: Tensor, references: References, options?: EncodeOptions): Promise<EncodedTensor> {
    return this.#call({ call: "encode", tensor, references, options }, [
      tensor.bytes,
      ...bytesOf(references),
    ]);
  }
  estimate(tensor: Tensor, references: References): Promise<TensorEstimate> {
    return this.#call({ call: "estimate", tensor, references }, [tensor.bytes, ...bytesOf(references)]);
  }
  decode(
    header: TensorHeader,
    { code, bytes }: { readonly code: number; readonly bytes: Uint8Array },
    references: References,
    declaredBytes: number,
  ): Promise<Uint8Array> {
    return this.#call(
      {
        call: "decode",
        header: { dtype: header.dtype, shape: [...header.shape] },
        code,
        bytes,
        references,
        declaredBytes,
      },
      bytesOf(references),
    );
  }
  async close(): Promise<void> {
    await this.#calls?.close();
  }

  /** The thread answers every call with the result type of its kind. */
  #call<Result extends CoderResult>(call: CoderCall, moved: readonly Uint8Array[]): Promise<Result> {
    this.#calls ??= new WorkerCalls(new URL("./coder-thread.js", import.meta.url), "encodes tensors");
    return this.#calls.call(call, movable(moved)) as Promise<Result>;
  }
}

function bytesOf(references: References): readonly Uint8Array[] {
  return listReferences(references).map(({ bytes }) => bytes);
}
