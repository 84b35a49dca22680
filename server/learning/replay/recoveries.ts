/**
 * Keeps the trainings that recoveries of dropped versions wait for, of one home. Some run, and others wait
 * for a base or for their turn. In memory, as a recovery ends with the process that asked for it.
 */
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { TrainingProgress } from "../../../shared/train/training.js";
import type { Home } from "../../storage/repository/home.js";
import { recoveryCancelled } from "./replay-errors.js";

export interface Recovery {
  readonly fleet: string;
  readonly versionId: Hash;
  /** The text `name:version`, for errors. */
  readonly title: string;
  readonly askedAtMs: number;
  /** Milliseconds that its own training took when it was proved. */
  readonly measuredMs: number;
  /** The version that its training begins from. */
  readonly base: Hash | null;
  /** The start; undefined while it waits for its base, or for its turn. */
  startedAtMs?: number;
  progress?: TrainingProgress;
}

export interface RecoveryUnderWay {
  readonly recovery: Recovery;
  /** Aborts where nobody needs the recovery any more, or where it is cancelled. */
  readonly signal: AbortSignal;
}

export class Recoveries {
  readonly #underWay = new Map<string, RecoveryUnderWay & { readonly abort: AbortController }>();

  /** Lists recoveries in the order in which they were asked for. */
  list(fleet: string): readonly Recovery[] {
    return [...this.#underWay.values()]
      .map(({ recovery }) => recovery)
      .filter((each) => each.fleet === fleet);
  }

  /**
   * Runs the work of a recovery, which is listed until it ends.
   * @throws RECOVERY_CANCELLED where it was cancelled; what the work throws
   */
  async run<T>(
    recovery: Recovery,
    left: AbortSignal,
    work: (underWay: RecoveryUnderWay) => Promise<T>,
  ): Promise<T> {
    const key = keyOf(recovery);
    const abort = new AbortController();
    const underWay = { recovery, abort, signal: AbortSignal.any([left, abort.signal]) };
    this.#underWay.set(key, underWay);
    try {
      return await work(underWay);
    } catch (error) {
      throw abort.signal.aborted ? abort.signal.reason : error;
    } finally {
      if (this.#underWay.get(key) === underWay) this.#underWay.delete(key);
    }
  }

  /**
   * Ends a recovery; whoever waits for it, or for a version that is trained from it, gets RECOVERY_CANCELLED.
   * @param by who cancels it, for the error
   * @returns undefined where none of the version runs or waits
   */
  cancel(fleet: string, versionId: Hash, by: string | undefined): Recovery | undefined {
    const found = this.#underWay.get(keyOf({ fleet, versionId }));
    if (found === undefined) return undefined;
    const { title } = found.recovery;
    found.abort.abort(recoveryCancelled(title, by, versionId));
    return found.recovery;
  }
}

const ofHomes = new WeakMap<Home, Recoveries>();

/** One for each home, whichever part of the process asks. */
export function recoveriesOf(home: Home): Recoveries {
  const known = ofHomes.get(home) ?? new Recoveries();
  ofHomes.set(home, known);
  return known;
}

function keyOf({ fleet, versionId }: Pick<Recovery, "fleet" | "versionId">): string {
  return `${fleet}/${versionId}`;
}
