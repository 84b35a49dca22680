/**
 * The codec beside the event loop: in a thread of its own where there is enough to code that a loop
 * would stand still, else at once. What is handed over belongs to the coder: its bytes are moved to the
 * thread, not copied. Knows no wire.
 */
import { Worker } from "node:worker_threads";
import type { DeltaCodec, TensorEstimate } from "../../delta/codec.js";
import type { EncodedTensor, EncodeOptions, References } from "../../delta/encoded.js";
import { loadDeltaCodec } from "../../delta/load.js";
import { isErrorCode, StemmaError } from "../../errors.js";
import type { Tensor, TensorHeader } from "../../tensor/tensor.js";

export interface TensorCoder {
  /** Arguments are given away: they may not be read afterwards. @throws what DeltaCodec.encodeTensor throws; INTERNAL where the thread died */
  encode(tensor: Tensor, references: References, options?: EncodeOptions): Promise<EncodedTensor>;
  /** Gives `references` away. @throws what DeltaCodec.decodeTensor throws; INTERNAL where the thread died */
  decode(header: TensorHeader, encoded: { readonly code: number; readonly bytes: Uint8Array }, references: References, declaredBytes: number): Promise<Uint8Array>;
  /** Gives its arguments away. */
  estimate(tensor: Tensor, references: References): Promise<TensorEstimate>;
  close(): Promise<void>;
}

export type CoderCall =
  | { readonly call: "encode"; readonly tensor: Tensor; readonly references: References; readonly options: EncodeOptions | undefined }
  | { readonly call: "estimate"; readonly tensor: Tensor; readonly references: References }
  | { readonly call: "decode"; readonly header: TensorHeader; readonly code: number; readonly bytes: Uint8Array; readonly references: References; readonly declaredBytes: number };
export type CoderAnswer =
  | { readonly result: EncodedTensor | TensorEstimate | Uint8Array }
  | { readonly code: string; readonly message: string; readonly details: Readonly<Record<string, unknown>> };

/** Up to so many bytes in all the loop is held for about ten milliseconds, less than a thread takes to start. */
const inlineBytes = 2 * 1024 * 1024;

let inlineCodec: Promise<DeltaCodec> | undefined;

/** @param totalBytes raw bytes that are about to be coded or decoded, in all */
export function openTensorCoder(totalBytes: number): TensorCoder {
  return totalBytes <= inlineBytes ? inlineCoder() : new ThreadCoder();
}

/** One codec for the process; a turn of the loop between two tensors. */
function inlineCoder(): TensorCoder {
  const run = async <T>(action: (codec: DeltaCodec) => T): Promise<T> => {
    const codec = await (inlineCodec ??= loadDeltaCodec());
    await new Promise((resolve) => { setImmediate(resolve); });
    return action(codec);
  };
  return {
    encode: (tensor, references, options) => run((codec) => codec.encodeTensor(tensor, tensor.bytes, references, options)),
    decode: (header, encoded, references, declaredBytes) => run((codec) => codec.decodeTensor(header, encoded, references, declaredBytes)),
    estimate: (tensor, references) => run((codec) => codec.estimate(tensor, tensor.bytes, references)),
    close: () => Promise.resolve(),
  };
}

interface Pending { resolve(value: unknown): void; reject(error: unknown): void }

/** Calls answered one after the other by coder-thread.ts. */
class ThreadCoder implements TensorCoder {
  readonly #worker = new Worker(new URL("./coder-thread.js", import.meta.url));
  readonly #pending: Pending[] = [];
  #failure: StemmaError | undefined;

  constructor() {
    this.#worker.on("message", (answer: CoderAnswer) => {
      const pending = this.#pending.shift();
      if ("result" in answer) pending?.resolve(answer.result);
      else pending?.reject(isErrorCode(answer.code) ? new StemmaError(answer.code, answer.message, answer.details) : new Error(answer.message));
      if (this.#pending.length === 0) this.#worker.unref();
    });
    this.#worker.on("error", (cause) => { this.#fail(new StemmaError("INTERNAL", "The thread that codes tensors failed; the transfer goes on uncoded or is tried again.", { cause })); });
    this.#worker.on("exit", () => { this.#fail(new StemmaError("INTERRUPTED", "The thread that codes tensors was ended.")); });
    this.#worker.unref();
  }

  encode(tensor: Tensor, references: References, options?: EncodeOptions): Promise<EncodedTensor> { return this.#call({ call: "encode", tensor, references, options }, [tensor.bytes, ...bytesOf(references)]); }
  estimate(tensor: Tensor, references: References): Promise<TensorEstimate> { return this.#call({ call: "estimate", tensor, references }, [tensor.bytes, ...bytesOf(references)]); }
  decode(header: TensorHeader, { code, bytes }: { readonly code: number; readonly bytes: Uint8Array }, references: References, declaredBytes: number): Promise<Uint8Array> {
    return this.#call({ call: "decode", header: { dtype: header.dtype, shape: [...header.shape] }, code, bytes, references, declaredBytes }, bytesOf(references));
  }
  async close(): Promise<void> { await this.#worker.terminate(); }

  #call<T>(call: CoderCall, given: readonly Uint8Array[]): Promise<T> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise<T>((resolve, reject) => {
      this.#pending.push({ resolve: resolve as (value: unknown) => void, reject });
      // While a call waits for its answer the process does not end.
      this.#worker.ref();
      this.#worker.postMessage(call, movable(given));
    });
  }
  #fail(error: StemmaError): void {
    this.#failure ??= error;
    for (const pending of this.#pending.splice(0)) pending.reject(this.#failure);
  }
}

function bytesOf({ base, previous }: References): readonly Uint8Array[] { return [base, previous].flatMap((tensor) => (tensor === undefined ? [] : [tensor.bytes])); }

/** Buffers that belong to one array alone; views of others are copied. */
export function movable(arrays: readonly Uint8Array[]): ArrayBuffer[] {
  return [...new Set(arrays.flatMap(({ buffer, byteLength }) => (buffer instanceof ArrayBuffer && byteLength > 0 && buffer.byteLength === byteLength ? [buffer] : [])))];
}
