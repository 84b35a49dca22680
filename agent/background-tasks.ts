/** Runs background work: started now, later or repeatedly, until all of it is stopped. */
import type { Clock } from "../shared/ports.js";

export class BackgroundTasks {
  readonly #cancels = new Set<() => void>();
  #isStopped = false;

  /** @param onError gets what a task throws, unless the tasks were stopped meanwhile */
  constructor(
    private readonly clock: Pick<Clock, "after">,
    private readonly onError: (error: unknown) => void,
  ) {}

  get isStopped(): boolean {
    return this.#isStopped;
  }

  run(action: () => Promise<void>): void {
    action().catch((error: unknown) => {
      if (!this.#isStopped) this.onError(error);
    });
  }

  runAfter(delayMs: number, action: () => Promise<void>): void {
    const cancel = this.clock.after(delayMs, () => {
      this.#cancels.delete(cancel);
      if (!this.#isStopped) this.run(action);
    });
    this.#cancels.add(cancel);
  }

  /** Runs `action` again and again, `everyMs` after its last end. */
  repeat(everyMs: number, action: () => Promise<void>): void {
    this.runAfter(everyMs, async () => {
      try {
        await action();
      } finally {
        if (!this.#isStopped) this.repeat(everyMs, action);
      }
    });
  }

  /** Calls `cancel`, too, when the tasks are stopped. */
  addCancel(cancel: () => void): void {
    this.#cancels.add(cancel);
  }

  /** Starts nothing any more; running tasks end by themselves. */
  stop(): void {
    this.#isStopped = true;
    for (const cancel of this.#cancels) cancel();
    this.#cancels.clear();
  }
}
