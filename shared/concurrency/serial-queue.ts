/** Queues asynchronous actions, which run one after the other. */
import PQueue from "p-queue";

/**
 * Runs actions one after the other, in the order of the calls. An action never starts within the call that
 * adds it, and one that fails does not stop the next.
 */
export class SerialQueue {
  readonly #queue = new PQueue({ concurrency: 1 });

  /** Adds an action; resolves with its result, or rejects with its error. */
  run<T>(action: () => T | Promise<T>): Promise<T> {
    return this.#queue.add(() => Promise.resolve().then(action));
  }

  /** Resolves when no action is running or waiting. Never rejects. */
  idle(): Promise<void> {
    return this.#queue.onIdle();
  }
}
