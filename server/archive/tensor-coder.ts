/** Codes tensors: small ones here, large ones in a thread, so that nobody who is served waits for one. */
import { Worker } from "node:worker_threads";
import { StemmaError } from "../../shared/errors.js";
import type { DeltaCodec } from "../../shared/delta/codec.js";
import type { EncodedTensor, References } from "../../shared/delta/encoded.js";
import type { Tensor } from "../../shared/tensor/tensor.js";
import type { ArchiveLayout } from "./archive-plan.js";
import type { FromCodeWorker, ToCodeWorker } from "./code-worker.js";

export interface TensorCoder {
  /** The tensors given may not be used afterwards: their bytes may have gone to the thread. */
  encode(tensor: Tensor, references: References, layout: ArchiveLayout): Promise<EncodedTensor>;
  close(): Promise<void>;
}

/** Coding takes about 8 ms a megabyte on a slow machine: up to this much is done without a thread. */
const inlineBytes = 4 * 1024 * 1024;

export function tensorCoder(codec: DeltaCodec, mostInlineBytes = inlineBytes): TensorCoder {
  let worker: CodeThread | undefined;
  return {
    async encode(tensor, references, layout) {
      if (tensor.bytes.length <= mostInlineBytes) return codec.encodeTensor(tensor, tensor.bytes, references, { layout });
      worker ??= new CodeThread();
      return await worker.encode({ tensor, references, layout });
    },
    async close() { await worker?.close(); worker = undefined; },
  };
}

/** One tensor after the other. */
class CodeThread {
  readonly #worker = new Worker(new URL("code-worker.js", import.meta.url));
  #turn: Promise<unknown> = Promise.resolve();
  #failure: Error | undefined;
  constructor() {
    // Whoever waits hears of it by a listener of its own; who comes later by this.
    this.#worker.on("error", (error) => { this.#failure = error; });
    this.#worker.on("exit", () => { this.#failure ??= gone(); });
    this.#worker.unref();
  }

  encode(request: ToCodeWorker): Promise<EncodedTensor> {
    const answer = this.#turn.then(() => this.#ask(request));
    this.#turn = answer.catch(() => undefined);
    return answer;
  }

  async #ask(request: ToCodeWorker): Promise<EncodedTensor> {
    if (this.#failure !== undefined) throw this.#failure;
    const answered = new Promise<FromCodeWorker>((resolve, reject) => {
      const worker = this.#worker;
      const settle = (done: () => void): void => { worker.off("message", onMessage); worker.off("error", onError); worker.off("exit", onExit); done(); };
      const onMessage = (message: FromCodeWorker): void => { settle(() => { resolve(message); }); };
      const onError = (error: Error): void => { settle(() => { reject(error); }); };
      const onExit = (): void => { settle(() => { reject(gone()); }); };
      worker.on("message", onMessage); worker.on("error", onError); worker.on("exit", onExit);
    });
    const { tensor, references: { base, previous } } = request;
    this.#worker.ref();
    try {
      this.#worker.postMessage(request, [...new Set([tensor, base, previous].flatMap((part) => (part === undefined ? [] : [part.bytes.buffer as ArrayBuffer])))]);
      const answer = await answered;
      if ("error" in answer) throw new Error(answer.error);
      return answer.encoded;
    } finally { this.#worker.unref(); }
  }

  async close(): Promise<void> { await this.#turn; await this.#worker.terminate(); }
}

function gone(): StemmaError { return new StemmaError("INTERNAL", "The thread that codes tensors ended by itself; memory may be short. What was written so far is whole: start again for the rest."); }
