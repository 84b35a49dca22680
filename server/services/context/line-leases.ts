/**
 * Leases of lines: while one lasts, a search or an evaluation alone assigns models to the devices of its line. Whoever
 * holds one renews it, so that the lease of a killed one expires. They are in memory only: after a restart of the
 * server the holder takes its own again, and where another was faster, the holder is refused.
 *
 * The holder proves itself by a key. Everybody who may read sees the lease's id, which is made from the key: by it a
 * lease is ended, and nobody else works under it.
 */
import { formatTime } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import { printable } from "../../../shared/printable.js";
import type { Clock } from "../../../shared/ports.js";
import { sha256 } from "../../../shared/tensor/hash.js";

/** The time that a lease lasts from when it was taken or renewed. */
export const lineLeaseMs = 60_000;
/** The largest number of leased lines of a fleet. */
const maxLines = 64;
/** Ended leases that are remembered, so that their holders do not take them again. */
const maxEnded = 1024;

export interface LineLease {
  /** Made from the holder's key. */
  readonly id: string;
  readonly line: string;
  /** The work that holds it, for people. */
  readonly holder: string;
  /** The caller that took it; absent: the server's own. */
  readonly by?: string;
  readonly sinceMs: number;
  readonly expiresAtMs: number;
}

export interface LineToTake extends Pick<LineLease, "line" | "holder" | "by"> {
  /** A random text that the holder tells nobody. */
  readonly key: string;
}

interface Held {
  readonly lease: LineLease;
  readonly deadlineMs: number;
}

export class LineLeases {
  readonly #held = new Map<string, Held>();
  /** The ids of leases that were ended, with by whom and when. */
  readonly #ended = new Map<string, string>();

  constructor(private readonly clock: Clock) {}

  /** Takes a line, or renews its lease. @throws TRAINING_REFUSED where another holds it; LEASE_UNKNOWN */
  take({ key, line, ...wanted }: LineToTake): LineLease {
    this.require(line, key);
    const before = this.of(line);
    if (before === undefined && this.list().length >= maxLines)
      throw new StemmaError(
        "NOT_ALLOWED",
        `This fleet has leases on ${maxLines} lines already. \`stemma storage leases\` lists them: wait, or end one.`,
      );
    const now = this.clock.now();
    const lease = {
      id: idOf(key),
      line,
      ...wanted,
      sinceMs: before?.sinceMs ?? now,
      expiresAtMs: now + lineLeaseMs,
    };
    this.#held.set(line, { lease, deadlineMs: this.clock.monotonic() + lineLeaseMs });
    return lease;
  }

  /**
   * Refuses work on a line that another holds, and that of a holder whose lease was ended.
   * @param key of the lease that the work is under; undefined: none
   * @throws TRAINING_REFUSED, LEASE_UNKNOWN
   */
  require(line: string, key: string | undefined): void {
    const id = key === undefined ? undefined : idOf(key);
    const ended = id === undefined ? undefined : this.#ended.get(id);
    if (ended !== undefined) throw leaseEnded(line, ended);
    const lease = this.of(line);
    if (lease !== undefined && lease.id !== id) throw lineHeld(lease);
  }

  /** The leases that have not expired. */
  list(): readonly LineLease[] {
    return [...this.#held.keys()].flatMap((line) => this.of(line) ?? []);
  }

  /** The lease of a line; undefined where there is none that has not expired. */
  of(line: string): LineLease | undefined {
    const held = this.#held.get(line);
    if (held === undefined || held.deadlineMs > this.clock.monotonic()) return held?.lease;
    this.#held.delete(line);
    return undefined;
  }

  /** Ends a lease, for its holder too. @param by describes who ends it @returns false where there is none */
  end(id: string, by: string): boolean {
    const lease = this.list().find((each) => each.id === id);
    if (lease === undefined) return false;
    this.#held.delete(lease.line);
    this.#ended.set(id, `${by} at ${formatTime(this.clock.now())}`);
    const [oldest] = this.#ended.keys();
    if (this.#ended.size > maxEnded && oldest !== undefined) this.#ended.delete(oldest);
    return true;
  }
}

const idOf = (key: string): string => sha256(`stemma-line-lease\0${key}`).slice(0, 32);

function lineHeld(lease: LineLease): StemmaError {
  const { id, line, holder, by, sinceMs, expiresAtMs } = lease;
  const who = printable(by === undefined ? holder : `${holder}, by ${by}`);
  return new StemmaError(
    "TRAINING_REFUSED",
    `The line ${printable(line)} is leased since ${formatTime(sinceMs)}: ${who}. Wait until that has ended, or use another line ` +
      `(of a killed one the lease expires at ${formatTime(expiresAtMs)}, unless it is run again). To end the lease, and ` +
      `with it that work: stemma storage leases --end ${id}`,
    { lease },
  );
}

const leaseEnded = (line: string, ended: string): StemmaError =>
  new StemmaError(
    "LEASE_UNKNOWN",
    `The lease of the line ${printable(line)} was ended by ${printable(ended)}, so this search gives its devices no more models. ` +
      "What was made is kept; the same command goes on.",
    { line },
  );
