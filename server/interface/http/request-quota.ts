/**
 * Limits how often one address may ask for certificates, which needs no token: as many at once as in a minute, then in
 * even steps. Each address has a share of its own; one that asks for more is refused and keeps nobody else out. Pure.
 */

/** Addresses that are remembered; those that were silent for longest are forgotten first. */
const maxAddresses = 10_000;

interface Share {
  /** Requests that it may make at once. */
  readonly requests: number;
  readonly atMs: number;
}

export class RequestQuota {
  /** The one that asked last is last. */
  readonly #shares = new Map<string, Share>();

  constructor(private readonly perMinute: number) {}

  /**
   * Milliseconds after which the address may ask again; 0: it may now, and that counts.
   * @param nowMs monotonic
   */
  waitMs(address: string, nowMs: number): number {
    const perMs = this.perMinute / 60_000;
    const share = this.#shares.get(address);
    const left =
      share === undefined
        ? this.perMinute
        : Math.min(this.perMinute, share.requests + (nowMs - share.atMs) * perMs);
    this.#shares.delete(address);
    this.#shares.set(address, { requests: left < 1 ? left : left - 1, atMs: nowMs });
    if (this.#shares.size > maxAddresses)
      for (const oldest of this.#shares.keys()) {
        this.#shares.delete(oldest);
        break;
      }
    return left < 1 ? Math.ceil((1 - left) / perMs) : 0;
  }
}
