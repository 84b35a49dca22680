/**
 * The rule by which candidates are kept: when their figures are compared, and which go on then. A candidate without a
 * figure does not go on; of equal figures the earlier candidate's is the better. Pure.
 */
export interface KeepRule {
  readonly kind: "top" | "above";
  /** The most that are kept, and what a figure has to reach. */
  readonly count?: number;
  readonly bound?: number;
  readonly lowerIsBetter: boolean;
  /** Training steps after which the figure counts; undefined: when the training has ended. */
  readonly iteration: number | undefined;
  readonly isHalving: boolean;
}

/** A comparison of the candidates that are still there. */
export interface Round {
  readonly iteration: number | undefined;
  readonly candidates: number;
  /** The number of those that go on, at most. */
  readonly keeps: number;
}

export type Figure = number | null;

/**
 * One round, or with halving as many as it takes to come from all candidates to the kept ones: in each of them the
 * better half goes on, and each begins after twice the steps of the one before (successive halving).
 */
export function roundsOf(rule: KeepRule, candidates: number): readonly Round[] {
  const keeps = Math.min(candidates, rule.count ?? candidates);
  const { iteration } = rule;
  if (!rule.isHalving || iteration === undefined || candidates === 0)
    return [{ iteration, candidates, keeps }];
  const count = Math.max(1, Math.ceil(Math.log2(candidates / Math.max(1, keeps))));
  const rounds: Round[] = [];
  let left = candidates;
  for (let at = 1; at <= count; at++) {
    const step = Math.ceil(iteration / 2 ** (count - at));
    const after = at === count ? keeps : Math.max(keeps, Math.ceil(left / 2));
    // Few steps cannot be halved so often: what follows after the same step is one round.
    if (rounds.at(-1)?.iteration === step) left = rounds.pop()?.candidates ?? left;
    rounds.push({ iteration: step, candidates: left, keeps: after });
    left = after;
  }
  return rounds;
}

/** Steps that candidates train at most until the last of them is judged; undefined: until their trainings end. */
export function judgedSteps(rounds: readonly Round[]): number | undefined {
  let [steps, before] = [0, 0];
  for (const { iteration, candidates } of rounds) {
    if (iteration === undefined) return undefined;
    steps += candidates * (iteration - before);
    before = iteration;
  }
  return steps;
}

/** The candidates that go on after a round, the best first. @param figures by candidate */
export function survivors(
  rule: KeepRule,
  { keeps }: Pick<Round, "keeps">,
  figures: ReadonlyMap<number, Figure>,
): readonly number[] {
  return [...figures]
    .filter((each): each is [number, number] => each[1] !== null && reaches(rule, each[1]))
    .sort(([a, one], [b, other]) => (rule.lowerIsBetter ? one - other : other - one) || a - b)
    .slice(0, keeps)
    .map(([candidate]) => candidate);
}

function reaches({ kind, bound = -Infinity }: KeepRule, figure: number): boolean {
  return kind === "top" || figure >= bound;
}
