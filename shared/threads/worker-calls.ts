/**
 * Calls to a worker thread, answered one after the other in their order, errors with their codes. Knows
 * nothing of what is asked.
 */
import { parentPort, Worker } from "node:worker_threads";
import { isErrorCode, isStemmaError, StemmaError } from "../errors.js";

type Answer<Result> =
  | { readonly result: Result }
  | { readonly code: string; readonly message: string; readonly details: Readonly<Record<string, unknown>> };
type FromThread<Result> = Answer<Result> | { readonly ready: true };

interface Pending<Result> {
  resolve(result: Result): void;
  reject(error: unknown): void;
}

export class WorkerCalls<Call, Result> {
  readonly #worker: Worker;
  readonly #pending: Pending<Result>[] = [];
  #failure: StemmaError | undefined;
  #isReady = false;

  /** @param work what the thread does, for errors: "codes tensors" */
  constructor(script: URL, work: string) {
    this.#worker = new Worker(script);
    this.#worker.on("message", (message: FromThread<Result>) => {
      if ("ready" in message) {
        this.#isReady = true;
        return;
      }
      const pending = this.#pending.shift();
      if ("result" in message) pending?.resolve(message.result);
      else
        pending?.reject(
          isErrorCode(message.code)
            ? new StemmaError(message.code, message.message, message.details)
            : new Error(message.message),
        );
      if (this.#pending.length === 0) this.#worker.unref();
    });
    this.#worker.on("error", (cause) => {
      this.#fail(
        new StemmaError(
          "INTERNAL",
          `The thread that ${work} failed: ${cause instanceof Error ? cause.message : String(cause)}. Try again; free memory if it is short.`,
          { cause },
        ),
      );
    });
    this.#worker.on("exit", () => {
      this.#fail(new StemmaError("INTERRUPTED", `The thread that ${work} was ended.`));
    });
    this.#worker.unref();
  }

  /** Whether the thread has loaded what it needs. */
  get isReady(): boolean {
    return this.#isReady;
  }
  /** What ended the thread, if anything did: every further call fails with it. */
  get failure(): StemmaError | undefined {
    return this.#failure;
  }

  /**
   * @param moved given away, not copied. @throws what the thread's work throws; INTERNAL, INTERRUPTED where
   * the thread ended; DataCloneError for what was given away before
   */
  call(call: Call, moved: readonly ArrayBuffer[]): Promise<Result> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise<Result>((resolve, reject) => {
      // Where this throws no answer comes, and nobody may wait for one: the next would get another's.
      this.#worker.postMessage(call, moved);
      this.#pending.push({ resolve, reject });
      // While a call waits for its answer the process does not end.
      this.#worker.ref();
    });
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  #fail(error: StemmaError): void {
    this.#failure ??= error;
    for (const pending of this.#pending.splice(0)) pending.reject(this.#failure);
  }
}

/** In the thread: answers every call. @param bytesOf what of a result is handed over, not copied */
export function answerCalls<Call, Result>(
  perform: (call: Call) => Result,
  bytesOf: (result: Result) => readonly Uint8Array[],
): void {
  const port = parentPort;
  if (port === null)
    throw new StemmaError(
      "INTERNAL",
      "This file runs in a worker thread only. Report this with what led to it.",
    );
  port.on("message", (call: Call) => {
    try {
      const result = perform(call);
      port.postMessage({ result } satisfies Answer<Result>, movable(bytesOf(result)));
    } catch (error) {
      const answer: Answer<Result> = isStemmaError(error)
        ? { code: error.code, message: error.message, details: error.details }
        : { code: "", message: error instanceof Error ? error.message : String(error), details: {} };
      port.postMessage(answer);
    }
  });
  port.postMessage({ ready: true } satisfies FromThread<Result>);
}

/** Buffers that belong to one array alone; views of others are copied. */
export function movable(arrays: readonly Uint8Array[]): ArrayBuffer[] {
  return [
    ...new Set(
      arrays.flatMap(({ buffer, byteLength }) =>
        buffer instanceof ArrayBuffer && byteLength > 0 && buffer.byteLength === byteLength ? [buffer] : [],
      ),
    ),
  ];
}
