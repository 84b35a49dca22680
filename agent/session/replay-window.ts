/**
 * Numbers of messages that came already: each is taken once, in any order within a window (RFC 4303, section 3.4.3).
 * Its memory is bounded by the window.
 */
const windowLength = 4096;

export class ReplayWindow {
  #highest = 0;
  readonly #came = new Set<number>();

  /** Whether the number is new; it is not from then on. Numbers before the window count as having come. */
  take(number: number): boolean {
    if (number <= this.#highest - windowLength || this.#came.has(number)) return false;
    this.#came.add(number);
    this.#highest = Math.max(this.#highest, number);
    if (this.#came.size > 2 * windowLength) this.#forgetBeforeWindow();
    return true;
  }

  #forgetBeforeWindow(): void {
    for (const number of this.#came) if (number <= this.#highest - windowLength) this.#came.delete(number);
  }
}
