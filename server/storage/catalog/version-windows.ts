/**
 * Divides the versions, in journal order, into windows of about equal size. A catalog remembers for each
 * query how many versions of each window match. So a page reads only the windows that it shows, and after a
 * change of one version only its window is counted again. Stores positions only, no versions.
 */

/** Versions in one window. */
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
  /** Number of versions in the last window. */
  #lastSize = 0;
  #highest = -1;

  get length(): number {
    return this.#starts.length;
  }

  /** Adds a version, or finds one that was added; returns the index of its window. */
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
