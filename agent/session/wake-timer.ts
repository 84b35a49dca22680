/** One alarm at a time: an earlier time replaces a later one. */
import type { Clock } from "../../shared/ports.js";

export class WakeTimer {
  #atMs = Infinity;
  #cancel: (() => void) | undefined;

  constructor(
    private readonly clock: Pick<Clock, "after" | "monotonic">,
    private readonly wake: () => void,
  ) {}

  /** Wakes at monotonic time `atMs`, unless an earlier alarm is set already. */
  set(atMs: number): void {
    const nowMs = this.clock.monotonic();
    if (atMs >= this.#atMs && this.#atMs > nowMs) return;
    this.#cancel?.();
    this.#atMs = atMs;
    this.#cancel = this.clock.after(Math.max(0, atMs - nowMs), () => {
      this.#atMs = Infinity;
      this.wake();
    });
  }

  clear(): void {
    this.#cancel?.();
    this.#atMs = Infinity;
  }
}
