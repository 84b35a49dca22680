/**
 * The link budget: computes how long to wait before sending a number of bytes. A token bucket of one second;
 * pure except for its own state.
 */
export class Pacer {
  #availableBytes: number;
  #atMs: number;

  /** @param bytesPerSecond asked at each booking; null: no limit */
  constructor(
    private readonly bytesPerSecond: () => number | null,
    nowMs: number,
  ) {
    this.#availableBytes = bytesPerSecond() ?? 0;
    this.#atMs = nowMs;
  }

  /** Books `bytes` at monotonic time `nowMs` and returns the milliseconds to wait before sending them. */
  book(bytes: number, nowMs: number): number {
    const rate = this.bytesPerSecond();
    const elapsedMs = nowMs - this.#atMs;
    this.#atMs = nowMs;
    if (rate === null) {
      // A limit that comes later starts without debt.
      this.#availableBytes = 0;
      return 0;
    }
    this.#availableBytes = Math.min(rate, this.#availableBytes + (elapsedMs * rate) / 1000) - bytes;
    return this.#availableBytes >= 0 ? 0 : Math.ceil((-this.#availableBytes * 1000) / rate);
  }
}
