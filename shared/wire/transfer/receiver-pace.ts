/**
 * Adapts to the link how many blocks a receiver requests concurrently, and how long it waits for an answer.
 * Pure: times come in as numbers.
 */
import { maxWindow } from "../limits.js";

export interface PaceOptions {
  /** The blocks requested concurrently. */
  readonly window: number;
  /**
   * The time without progress, or three times as long as blocks have been taking, after which everything
   * outstanding is requested again. Doubled each time, up to `maxTimeoutMs`.
   */
  readonly timeoutMs: number;
  readonly maxTimeoutMs: number;
}

export class ReceiverPace {
  readonly #options: PaceOptions;
  readonly #maxWindow: number;
  #window: number;
  #stalls = 0;
  /** The time from when the timeout counts. */
  #waitingSinceMs = 0;
  /** Time of the last progress, or of the first request after it. */
  #lastProgressMs = 0;
  /** The time that progress takes. */
  #progressTakesMs = 0;

  constructor(options: PaceOptions) {
    this.#options = options;
    this.#maxWindow = Math.min(options.window, maxWindow);
    this.#window = this.#maxWindow;
  }

  /** Blocks that may be requested or in writing now. */
  get window(): number {
    return this.#window;
  }
  /** The time when an answer counts as lost. */
  get timeoutAtMs(): number {
    const { timeoutMs, maxTimeoutMs } = this.#options;
    const waitMs = Math.max(timeoutMs, 3 * this.#progressTakesMs) * 2 ** this.#stalls;
    return this.#waitingSinceMs + Math.min(waitMs, maxTimeoutMs);
  }

  /** Requests are sent while none was outstanding. */
  started(nowMs: number): void {
    this.#waitingSinceMs = nowMs;
    if (this.#stalls === 0) this.#lastProgressMs = nowMs;
  }
  progressed(nowMs: number): void {
    // Timeouts follow the pace of the link: on a slow one every block would be requested twice.
    this.#progressTakesMs = Math.max(nowMs - this.#lastProgressMs, this.#progressTakesMs * 0.75);
    this.#lastProgressMs = nowMs;
    this.#waitingSinceMs = nowMs;
    this.#stalls = 0;
    if (this.#window < this.#maxWindow) this.#window++;
  }
  /** Halves the window, because no answer came in time. Returns the number of consecutive timeouts. */
  timedOut(nowMs: number): number {
    this.#waitingSinceMs = nowMs;
    this.#window = Math.max(1, this.#window >> 1);
    return ++this.#stalls;
  }
  /** The connection was lost and is back. */
  reconnected(nowMs: number): void {
    this.#stalls = 0;
    this.#waitingSinceMs = nowMs;
    this.#lastProgressMs = nowMs;
  }
}
