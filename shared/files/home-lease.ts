/**
 * The holder's side of a claim: it looks at its claim before it writes, and renews it where machines may share the
 * file system. A claim that is gone was taken over; then the holder has to stop.
 */
import { lstat, open } from "node:fs/promises";
import { StemmaError } from "../errors.js";
import { fileError, systemCode } from "./file-error.js";

const renewalMs = 15_000;
/** A renewal younger than this counts as one made just now. */
const freshMs = 5_000;

/**
 * Writes a claim's first byte again, which sets its time by the file system's own clock.
 * @throws the system's error
 */
export async function renewClaim(path: string): Promise<void> {
  const file = await open(path, "r+");
  try {
    await file.write("{", 0);
    await file.sync();
  } finally {
    await file.close();
  }
}

export class HomeLease {
  /** Resolves when the claim was found to be gone. */
  readonly lost: Promise<StemmaError>;
  readonly #home: string;
  readonly #claim: string;
  readonly #timer: NodeJS.Timeout | undefined;
  #lose: (error: StemmaError) => void = () => undefined;
  #loss: StemmaError | undefined;
  #ended = false;
  /** Both clocks at the last renewal: the monotonic one stands still while a machine sleeps. */
  #renewed = { monotonicMs: performance.now(), wallMs: Date.now() };

  /** @param renews whether machines may share the file system */
  constructor(home: string, claim: string, renews: boolean) {
    this.#home = home;
    this.#claim = claim;
    this.lost = new Promise((resolve) => {
      this.#lose = resolve;
    });
    if (!renews) return;
    // A renewal that fails for another reason is tried again, and before the next write.
    this.#timer = setInterval(() => void this.#renew().catch(() => undefined), renewalMs);
    this.#timer.unref();
  }

  /**
   * Checks that the home is still this process's.
   * @throws HOME_TAKEN; FILE_FAILED where that cannot be seen
   */
  async assertHeld(): Promise<void> {
    if (this.#timer !== undefined && !this.#isFresh()) await this.#renew();
    else if (this.#loss === undefined) await this.#look();
    if (this.#loss !== undefined) throw this.#loss;
  }

  end(): void {
    this.#ended = true;
    clearInterval(this.#timer);
  }

  #isFresh(): boolean {
    const wallMs = Date.now() - this.#renewed.wallMs;
    return performance.now() - this.#renewed.monotonicMs < freshMs && wallMs >= 0 && wallMs < freshMs;
  }

  async #renew(): Promise<void> {
    const begun = { monotonicMs: performance.now(), wallMs: Date.now() };
    await this.#ask(() => renewClaim(this.#claim));
    this.#renewed = begun;
  }

  async #look(): Promise<void> {
    await this.#ask(() => lstat(this.#claim));
  }

  async #ask(call: () => Promise<unknown>): Promise<void> {
    if (this.#loss !== undefined || this.#ended) return;
    try {
      await call();
    } catch (error) {
      if (!["ENOENT", "ESTALE", "ENOTDIR"].includes(systemCode(error) ?? ""))
        throw fileError(error, "renew the lock", this.#claim);
      // A release during the call removes the claim as well.
      if (this.#ended) return;
      this.#loss = new StemmaError(
        "HOME_TAKEN",
        `The claim of this process on ${this.#home} is gone: somebody took the home over, or removed ${this.#claim}. Nothing more is written there. Find out which process has the home now before you start this one again.`,
        { home: this.#home, claim: this.#claim },
      );
      this.#lose(this.#loss);
    }
  }
}
