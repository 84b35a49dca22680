/**
 * Leases of lines: while one lasts, a search or an evaluation alone gives models to the devices of its line. Whoever
 * holds one renews it, so that the lease of a killed one expires. They are in memory only: after a restart of the
 * server the holder takes its own again, and where another was faster, the holder is refused.
 */
import { formatTime } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import { printable } from "../../../shared/printable.js";
import type { Clock } from "../../../shared/ports.js";

/** The time that a lease lasts from when it was taken or renewed. */
export const lineLeaseMs = 60_000;
/** The largest number of leased lines of a fleet. */
const maxLines = 64;
/** Ended leases that are remembered, so that their holders do not take them again. */
const maxEnded = 1024;

export interface LineLease {
  readonly id: string;
  readonly line: string;
  /** The work that holds it, for people. */
  readonly holder: string;
  /** The caller that took it; absent: the server's own. */
  readonly by?: string;
  readonly sinceMs: number;
  readonly expiresAtMs: number;
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
  take({ id, line, ...wanted }: Omit<LineLease, "sinceMs" | "expiresAtMs">): LineLease {
    this.require(line, id);
    const before = this.#of(line)?.lease;
    if (before === undefined && this.list().length >= maxLines)
      throw new StemmaError(
        "NOT_ALLOWED",
        `This fleet has leases on ${maxLines} lines already. \`stemma storage leases\` lists them: wait, or end one.`,
      );
    const now = this.clock.now();
    const lease = { id, line, ...wanted, sinceMs: before?.sinceMs ?? now, expiresAtMs: now + lineLeaseMs };
    this.#held.set(line, { lease, deadlineMs: this.clock.monotonic() + lineLeaseMs });
    return lease;
  }

  /**
   * Refuses work on a line that another holds, and that of a holder whose lease was ended.
   * @param id of the lease that the work is under; undefined: none
   * @throws TRAINING_REFUSED, LEASE_UNKNOWN
   */
  require(line: string, id: string | undefined): void {
    const ended = id === undefined ? undefined : this.#ended.get(id);
    if (ended !== undefined) throw leaseEnded(line, ended);
    const lease = this.#of(line)?.lease;
    if (lease !== undefined && lease.id !== id) throw lineHeld(lease);
  }

  /** The leases that have not expired. */
  list(): readonly LineLease[] {
    return [...this.#held.keys()].flatMap((line) => this.#of(line)?.lease ?? []);
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

  #of(line: string): Held | undefined {
    const held = this.#held.get(line);
    if (held === undefined || held.deadlineMs > this.clock.monotonic()) return held;
    this.#held.delete(line);
    return undefined;
  }
}

function lineHeld(lease: LineLease): StemmaError {
  const { id, line, holder, by, sinceMs, expiresAtMs } = lease;
  const who = printable(by === undefined ? holder : `${holder}, by ${by}`);
  return new StemmaError(
    "TRAINING_REFUSED",
    `The line ${line} is leased since ${formatTime(sinceMs)}: ${who}. Wait until that has ended, or use another line ` +
      `(of a killed one the lease expires at ${formatTime(expiresAtMs)}, unless it is run again). To end the lease, and ` +
      `with it that work: stemma storage leases --end ${id}`,
    { lease },
  );
}

const leaseEnded = (line: string, ended: string): StemmaError =>
  new StemmaError(
    "LEASE_UNKNOWN",
    `The lease of the line ${line} was ended by ${printable(ended)}, so this search gives its devices no more models. ` +
      "What was made is kept; the same command goes on.",
    { line },
  );
