/** Warnings about what peers send: one line for each peer and kind, however many messages it sends. */
import type { Log, LogFields } from "../../../shared/ports.js";

/** Peers choose their names, so only so many of them are remembered and logged. */
const maxLines = 1000;

export class PeerLog {
  readonly #logged = new Set<string>();
  constructor(private readonly log: Log) {}

  /** Logs the first event of this kind from the peer. */
  warn(peer: string, event: string, fields: LogFields): void {
    const key = `${event} ${peer}`;
    if (this.#logged.size >= maxLines || this.#logged.has(key)) return;
    this.#logged.add(key);
    this.log.warn(event, { ...fields, text: "further ones of this peer are not logged" });
  }
}
