/**
 * Counts retained bytes by topic, so that neither one device nor many together can fill the broker's memory.
 * Pure bookkeeping.
 */
export interface RetainedLimits {
  readonly maxRetainedBytesPerDevice: number;
  readonly maxRetainedBytes: number;
}

export class RetainedQuota {
  readonly #limits: RetainedLimits;
  readonly #devices = new Map<string, Map<string, number>>();
  #bytes = 0;
  constructor(limits: RetainedLimits) {
    this.#limits = limits;
  }
  get bytes(): number {
    return this.#bytes;
  }

  /** True if the message may be retained. If so, its bytes replace those of the topic's last message. */
  replace(device: string, topic: string, bytes: number): boolean {
    const topics = this.#devices.get(device) ?? new Map<string, number>();
    const before = topics.get(topic) ?? 0;
    let own = bytes - before;
    for (const each of topics.values()) own += each;
    if (
      bytes > before &&
      (own > this.#limits.maxRetainedBytesPerDevice ||
        this.#bytes + bytes - before > this.#limits.maxRetainedBytes)
    )
      return false;
    this.#bytes += bytes - before;
    if (bytes === 0) topics.delete(topic);
    else topics.set(topic, bytes);
    if (topics.size === 0) this.#devices.delete(device);
    else this.#devices.set(device, topics);
    return true;
  }
}
