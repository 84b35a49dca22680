/**
 * Sends an offer again that a connected device has not answered by anything: the broker may have dropped it, and the
 * device would run something else until it connects again. Rollouts repeat the offers of what they stage themselves.
 */
import type { Clock } from "../../../../shared/ports.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

/** Milliseconds until the first repetition; each further one waits twice as long, up to an hour. */
const firstPauseMs = 2 * 60_000;
const longestPauseMs = 60 * 60_000;

interface SentOffer {
  readonly versionId: Hash;
  readonly pauseMs: number;
  cancel(): void;
}

export class OfferRepeats {
  /** Device → line → the offer that waits for an answer. */
  readonly #waiting = new Map<string, Map<string, SentOffer>>();
  #isClosed = false;

  /** @param repeat offers again what is assigned to the line, where it still is to be offered */
  constructor(
    private readonly clock: Pick<Clock, "after">,
    private readonly repeat: (device: string, line: string) => void,
  ) {}

  /** An offer was sent. */
  sent(device: string, line: string, versionId: Hash): void {
    if (this.#isClosed) return;
    const lines = this.#waiting.get(device) ?? new Map<string, SentOffer>();
    this.#waiting.set(device, lines);
    const before = lines.get(line);
    before?.cancel();
    const pauseMs =
      before?.versionId === versionId ? Math.min(2 * before.pauseMs, longestPauseMs) : firstPauseMs;
    const cancel = this.clock.after(pauseMs, () => {
      this.repeat(device, line);
    });
    lines.set(line, { versionId, pauseMs, cancel });
  }

  /** The device fetches the version, runs it, or has told something about it: it has the offer. */
  answered(device: string, versionId: Hash): void {
    const lines = this.#waiting.get(device);
    for (const [line, offer] of lines ?? []) {
      if (offer.versionId !== versionId) continue;
      offer.cancel();
      lines?.delete(line);
    }
  }

  /** The device's connection ended; it is offered everything when it connects again. */
  ended(device: string): void {
    for (const offer of this.#waiting.get(device)?.values() ?? []) offer.cancel();
    this.#waiting.delete(device);
  }

  /** Nothing is repeated any more, also of what is sent after this. */
  close(): void {
    this.#isClosed = true;
    for (const device of [...this.#waiting.keys()]) this.ended(device);
  }
}
