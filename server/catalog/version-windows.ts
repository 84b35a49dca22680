/**
 * Versions in journal order, cut into windows of about as many each. A catalog remembers per query how many
 * versions of each window match, so that a page reads the windows it shows, and a change of one version
 * makes one window count again. Pure numbers.
 */

/** Versions of one window. */
export const windowVersions = 1024;

export interface Window {
  readonly index: number;
  /** First journal position of the window. */
  readonly from: number;
  /** First journal position after the window. */
  readonly until: number;
}

export class VersionWindows {
  /** First position of each window. */
  readonly #starts: number[] = [];
  #lastSize = 0;
  #highest = -1;

  get length(): number {
    return this.#starts.length;
  }

  /** The index of the window that a version at this position belongs to. */
  add(position: number): number {
    if (position > this.#highest) {
      this.#highest = position;
      if (this.#starts.length === 0 || this.#lastSize === windowVersions) {
        this.#starts.push(position);
        this.#lastSize = 0;
      }
      this.#lastSize++;
      return this.#starts.length - 1;
    }
    const after = this.#starts.findLastIndex((start) => start <= position);
    return Math.max(after, 0);
  }

  window(index: number): Window {
    return {
      index,
      from: index === 0 ? 0 : (this.#starts[index] ?? Infinity),
      until: this.#starts[index + 1] ?? Infinity,
    };
  }

  clear(): void {
    this.#starts.length = 0;
    this.#lastSize = 0;
    this.#highest = -1;
  }
}
