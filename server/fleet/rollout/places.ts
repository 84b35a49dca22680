/**
 * Limits which devices of a rollout fetch and measure at once, to the number in its policy. A device that
 * fetches keeps its place for a while, not for as long as it likes: otherwise a few that never end would hold
 * up all others. Knows no fleet and no clock.
 */

/** Milliseconds that a device has from its offer until its fetch is here, and from its end until it has the version. */
const pauseMs = 10_000;
/** Milliseconds for which a device that fetches counts. After these it goes on, beside those that have a place. */
const longestMs = 15 * 60_000;

interface Place {
  readonly sinceMs: number;
  untilMs: number;
}

export class Places {
  readonly #places = new Map<string, Place>();

  /** The device was offered the version and does not have it yet. */
  begin(device: string, nowMs: number): void {
    const place = this.#places.get(device);
    if (place === undefined) this.#places.set(device, { sinceMs: nowMs, untilMs: nowMs + pauseMs });
    else place.untilMs = Math.max(place.untilMs, nowMs + pauseMs);
  }

  /** The device was judged. */
  end(device: string): void {
    this.#places.delete(device);
  }

  /**
   * Devices that have a place.
   * @param fetching those that the version is being sent to now
   */
  taken(fetching: Iterable<string>, nowMs: number): ReadonlySet<string> {
    for (const device of fetching) this.begin(device, nowMs);
    const taken = new Set<string>();
    for (const [device, { sinceMs, untilMs }] of this.#places)
      if (nowMs >= untilMs) this.#places.delete(device);
      else if (nowMs < sinceMs + longestMs) taken.add(device);
    return taken;
  }
}
