/**
 * The newest entries that an open journal wrote, in memory: each is asked for again within moments, once for
 * every receipt that proves it.
 */

/** Max bytes of entries that are kept; the newest one is kept in any case. */
const maxRecentBytes = 1024 * 1024;

export class RecentEntries {
  /** By position, oldest first. */
  readonly #entries = new Map<number, Uint8Array>();
  #bytes = 0;

  /** Adds an entry that is on disk; positions only grow. */
  add(position: number, payload: Uint8Array): void {
    this.#entries.set(position, payload);
    this.#bytes += payload.length;
    for (const [oldest, { length }] of this.#entries) {
      if (this.#bytes <= maxRecentBytes || oldest === position) return;
      this.#entries.delete(oldest);
      this.#bytes -= length;
    }
  }

  /** Undefined: read it from the disk. */
  get(position: number): Uint8Array | undefined {
    return this.#entries.get(position);
  }
}
