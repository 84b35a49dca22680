/** Compares the checkpoints of two trainings by the hashes of their trees. Pure. */
import { defined } from "../defined.js";
import type { Hash } from "../tensor/tensor.js";

export interface KeptCheckpoint {
  /** Training steps before it. */
  readonly iteration: number;
  readonly tree: Hash;
}

/** The place where two trainings begin to differ. */
export interface ComparedCheckpoints {
  readonly compared: number;
  /** Iteration of the last equal one before the first that differs; absent: the first one differs. */
  readonly lastEqual?: number;
  /** Iteration of the first one that differs; absent where all are equal. */
  readonly firstDifferent?: number;
}

/**
 * @param checkpoints ascending by iteration
 * @param others trees of the other training by iteration; a missing one counts as different
 * @returns undefined where there is nothing to compare
 */
export function compareCheckpoints(
  checkpoints: readonly KeptCheckpoint[],
  others: ReadonlyMap<number, Hash>,
): ComparedCheckpoints | undefined {
  if (checkpoints.length === 0) return undefined;
  const isDifferent = ({ iteration, tree }: KeptCheckpoint): boolean => others.get(iteration) !== tree;
  const first = checkpoints.findIndex(isDifferent);
  const equal = first < 0 ? checkpoints : checkpoints.slice(0, first);
  return {
    compared: checkpoints.length,
    ...defined({ lastEqual: equal.at(-1)?.iteration, firstDifferent: checkpoints[first]?.iteration }),
  };
}
