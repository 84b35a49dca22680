/** Gives asynchronous actions their turns, a bounded number at a time. */
import PQueue from "p-queue";

/**
 * Lets a few actions run at the same time, in the order of the calls; the others wait. An action that takes long
 * gives up its turn and goes on, so that nobody can keep the others waiting for good.
 */
export class Turns {
  readonly #queue: PQueue;

  /**
   * @param count actions that run at the same time, those aside that have given up their turn
   * @param turnMs milliseconds after which an action gives up its turn
   */
  constructor({ count, turnMs }: { readonly count: number; readonly turnMs: number }) {
    this.#queue = new PQueue({ concurrency: count, timeout: turnMs });
  }

  /** Resolves with the action's result, or rejects with its error, however long it takes. */
  run<T>(action: () => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const turn = async (): Promise<void> => {
        const done = action();
        done.then(resolve, reject);
        await done;
      };
      // Its error is the action's, or that the turn is over.
      this.#queue.add(turn).catch(() => undefined);
    });
  }
}
