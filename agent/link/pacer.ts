/**
 * The link budget: computes how long to wait before sending a number of bytes. A token bucket of one second;
 * pure except for its own state.
 */
export class Pacer {
  #availableBytes: number;
  #atMs: number;

  /** @param bytesPerSecond null: no limit */
  constructor(
    private readonly bytesPerSecond: number | null,
    nowMs: number,
  ) {
    this.#availableBytes = bytesPerSecond ?? 0;
    this.#atMs = nowMs;
  }

  /** Books `bytes` at monotonic time `nowMs` and returns the milliseconds to wait before sending them. */
  book(bytes: number, nowMs: number): number {
    if (this.bytesPerSecond === null) return 0;
    this.#availableBytes = Math.min(
      this.bytesPerSecond,
      this.#availableBytes + ((nowMs - this.#atMs) * this.bytesPerSecond) / 1000,
    );
    this.#atMs = nowMs;
    this.#availableBytes -= bytes;
    return this.#availableBytes >= 0 ? 0 : Math.ceil((-this.#availableBytes * 1000) / this.bytesPerSecond);
  }
}
