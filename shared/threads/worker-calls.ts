/**
 * Calls to a worker thread, answered in the order of the calls; errors keep their codes. Does not depend on
 * the kind of work. (docs/adr/0013-worker-threads.md)
 */
import { MessageChannel, parentPort, Worker } from "node:worker_threads";
import { messageOf } from "../error-text.js";
import { isErrorCode, isStemmaError, StemmaError } from "../errors.js";

type Answer<Result> =
  | { readonly result: Result }
  | { readonly code: string; readonly message: string; readonly details: Readonly<Record<string, unknown>> };
type FromThread<Result> = Answer<Result> | { readonly ready: true };
interface ToThread<Call> {
  readonly call: Call;
  readonly moved: readonly ArrayBuffer[];
}

interface Pending<Result> {
  resolve(result: Result): void;
  reject(error: unknown): void;
}

export class WorkerCalls<Call, Result> {
  readonly #worker: Worker;
  readonly #pending: Pending<Result>[] = [];
  #failure: StemmaError | undefined;
  #isReady = false;

  /** @param work what the thread does, for error messages: "encodes tensors" */
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
          `The thread that ${work} failed: ${messageOf(cause)}. Try again; free memory if it is short.`,
          { cause },
        ),
      );
    });
    this.#worker.on("exit", () => {
      this.#fail(new StemmaError("INTERRUPTED", `The thread that ${work} was ended. Try again.`));
    });
    this.#worker.unref();
  }

  /** True if the thread has loaded its script and takes calls. */
  get isReady(): boolean {
    return this.#isReady;
  }
  /** The error that ended the thread, if any: every further call fails with it. */
  get failure(): StemmaError | undefined {
    return this.#failure;
  }

  /**
   * @param moved buffers that are moved, not copied
   * @throws what the thread's work throws; INTERNAL, INTERRUPTED where the thread ended; DataCloneError for a
   * buffer that was moved before
   */
  call(call: Call, moved: readonly ArrayBuffer[]): Promise<Result> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise<Result>((resolve, reject) => {
      // Post before adding to the pending calls: where this throws, no answer comes, and the call would get
      // the answer of the next one.
      this.#worker.postMessage({ call, moved } satisfies ToThread<Call>, moved);
      this.#pending.push({ resolve, reject });
      // The process must not end while a call is pending.
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

/** Answers every call in the thread. @param bytesOf the arrays of a result that are moved, not copied */
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
  port.on("message", ({ call, moved }: ToThread<Call>) => {
    try {
      const result = perform(call);
      port.postMessage({ result } satisfies Answer<Result>, movable(bytesOf(result)));
    } catch (error) {
      const answer: Answer<Result> = isStemmaError(error)
        ? { code: error.code, message: error.message, details: error.details }
        : { code: "", message: messageOf(error), details: {} };
      port.postMessage(answer);
    }
    free(moved);
  });
  port.postMessage({ ready: true } satisfies FromThread<Result>);
}

/** A closed port: what is moved to it is freed at once. */
const nowhere = new MessageChannel().port1;
nowhere.close();

/**
 * Frees buffers that were moved here and not moved on. As garbage, each thread would keep up to 64 MB of them: V8 does
 * not look for them before.
 */
function free(moved: readonly ArrayBuffer[]): void {
  for (const buffer of moved) if (buffer.byteLength > 0) nowhere.postMessage(undefined, [buffer]);
}

/** The buffers that can be moved: those that one array fills. Views of larger buffers are copied. */
export function movable(arrays: readonly Uint8Array[]): ArrayBuffer[] {
  return [
    ...new Set(
      arrays.flatMap(({ buffer, byteLength }) =>
        buffer instanceof ArrayBuffer && byteLength > 0 && buffer.byteLength === byteLength ? [buffer] : [],
      ),
    ),
  ];
}
