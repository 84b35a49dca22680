/**
 * The study of Chen et al. (§4.1; CH2, CH3, CH7): pairs of runs in several setups, how far the runs of a pair are
 * apart, and what recording and replaying cost. Pure.
 */
import { criteria, type Criterion, type RunComparison } from "./criteria.js";
import { cliffsDelta, median, rankSum, standardDeviation } from "./statistics.js";

/**
 * Setups by name, with that of the paper's table 2. Those with a patch set the variables of --patch too: on a GPU they
 * are the paper's G3 to G5.
 */
export const setups = {
  free: { paper: "C1", isSeeded: false, isRecorded: false, isPatched: false },
  seed: { paper: "C2", isSeeded: true, isRecorded: false, isPatched: false },
  record: { paper: "C3", isSeeded: false, isRecorded: true, isPatched: false },
  patch: { isSeeded: false, isRecorded: false, isPatched: true },
  "seed-patch": { isSeeded: true, isRecorded: false, isPatched: true },
  "record-patch": { isSeeded: false, isRecorded: true, isPatched: true },
} as const;
export type Setup = keyof typeof setups;
export const setupNames = Object.keys(setups) as Setup[];

/** Seeds of the pairs, in turn: both runs of a pair have the same, another pair has another. */
export const defaultSeeds = [0, 42, 1, 7, 123, 1234, 2022, 31_337] as const;

/** A complete pair, as the study's folder keeps it; its runs are removed. */
export interface StudyPair {
  readonly setup: Setup;
  readonly pair: number;
  readonly seed?: number;
  /** Wall time of the first run and of the second; a recorded pair's second is the replay. */
  readonly seconds: readonly [first: number, second: number];
  readonly profileBytes?: number;
  readonly modelBytes?: number;
  /** The place where the replay drew otherwise: such a pair is never equal. */
  readonly diverged?: string;
  readonly verdict: "equal" | "different" | "incomplete";
  readonly findings: readonly PairFinding[];
}

export interface PairFinding {
  readonly criterion: Criterion;
  readonly verdict: RunComparison["findings"][number]["verdict"];
  /** The size, in the unit of `criterionUnits`; absent: equal, not recorded, or different without a number. */
  readonly difference?: number;
}

/** Units of the differences; accuracies are shares of correct predictions, in percentage points. */
export const criterionUnits: Readonly<Record<Criterion, string>> = {
  accuracy: "points",
  "accuracy by class": "points",
  "every prediction": "samples",
  "mean absolute error": "",
  losses: "",
  epochs: "epochs",
  tensors: "",
};

/** Differences of pairs by one criterion (CH3: the largest, and the deviation). */
export interface Spread {
  /** Pairs of which both runs recorded it. */
  readonly pairs: number;
  readonly different: number;
  /** The largest of the pairs' differences, where equal is 0; absent: some differ without a number. */
  readonly largest?: number;
  readonly deviation?: number;
}

export interface SetupSummary {
  readonly setup: Setup;
  readonly pairs: number;
  /** Pairs that were equal by every criterion that both runs recorded. */
  readonly equal: number;
  /** Pairs whose replay drew otherwise than was recorded, with the place; they are not equal, whatever came out. */
  readonly diverged: readonly Divergence[];
  /** Pairs of which one run recorded something that the other did not. */
  readonly incomplete: number;
  readonly spreads: Readonly<Partial<Record<Criterion, Spread>>>;
}

export interface Divergence {
  readonly pair: number;
  readonly place: string;
}

/** Times of two kinds of runs compared (CH7). */
export interface Overhead {
  readonly of: "recording" | "replaying" | "the patch";
  readonly against: Setup;
  readonly runs: readonly [own: number, against: number];
  /** Median over median. */
  readonly ratio: number;
  readonly p: number;
  readonly delta: number;
}

export interface StudySummary {
  readonly setups: readonly SetupSummary[];
  readonly overheads: readonly Overhead[];
  /** Medians, of pairs that were recorded. */
  readonly profile?: { readonly bytes: number; readonly modelBytes?: number };
  /** The positive control: pairs of the free setup that differed; null: that setup was left out. */
  readonly control: { readonly different: number; readonly pairs: number } | null;
}

export function summarizeStudy(pairs: readonly StudyPair[]): StudySummary {
  const of = (setup: Setup): readonly StudyPair[] => pairs.filter((each) => each.setup === setup);
  const free = of("free");
  const sizes = pairs.flatMap(({ profileBytes }) => profileBytes ?? []);
  const models = pairs.flatMap(({ modelBytes }) => modelBytes ?? []);
  return {
    setups: setupNames
      .filter((setup) => of(setup).length > 0)
      .map((setup) => summarizeSetup(setup, of(setup))),
    overheads: [
      ...overheadsOfRecording(of("record"), free, "free"),
      ...overheadsOfRecording(of("record-patch"), of("patch"), "patch"),
      ...overhead(
        "the patch",
        of("patch").flatMap(({ seconds }) => seconds),
        free,
        "free",
      ),
    ],
    ...(sizes.length === 0
      ? {}
      : {
          profile: { bytes: median(sizes), ...(models.length === 0 ? {} : { modelBytes: median(models) }) },
        }),
    control:
      free.length === 0
        ? null
        : { different: free.filter(({ verdict }) => verdict === "different").length, pairs: free.length },
  };
}

function summarizeSetup(setup: Setup, pairs: readonly StudyPair[]): SetupSummary {
  const spreads = criteria.flatMap((criterion) => {
    const spread = spreadOf(
      pairs.flatMap(({ findings }) => findings.filter((each) => each.criterion === criterion)),
    );
    return spread.pairs === 0 ? [] : [[criterion, spread] as const];
  });
  return {
    setup,
    pairs: pairs.length,
    equal: pairs.filter(({ verdict, diverged }) => verdict === "equal" && diverged === undefined).length,
    diverged: pairs.flatMap(({ pair, diverged }) =>
      diverged === undefined ? [] : [{ pair, place: diverged }],
    ),
    incomplete: pairs.filter(({ verdict }) => verdict === "incomplete").length,
    spreads: Object.fromEntries(spreads),
  };
}

function spreadOf(findings: readonly PairFinding[]): Spread {
  const recorded = findings.filter(({ verdict }) => verdict === "equal" || verdict === "different");
  const differing = recorded.filter(({ verdict }) => verdict === "different");
  const counts = { pairs: recorded.length, different: differing.length };
  if (recorded.length === 0 || differing.some(({ difference }) => difference === undefined)) return counts;
  const differences = recorded.map(({ difference = 0 }) => difference);
  return { ...counts, largest: Math.max(...differences), deviation: standardDeviation(differences) };
}

function overheadsOfRecording(
  recorded: readonly StudyPair[],
  bare: readonly StudyPair[],
  against: Setup,
): readonly Overhead[] {
  return [
    ...overhead(
      "recording",
      recorded.map(({ seconds }) => seconds[0]),
      bare,
      against,
    ),
    ...overhead(
      "replaying",
      recorded.map(({ seconds }) => seconds[1]),
      bare,
      against,
    ),
  ];
}

function overhead(
  of: Overhead["of"],
  own: readonly number[],
  bare: readonly StudyPair[],
  against: Setup,
): readonly Overhead[] {
  const others = bare.flatMap(({ seconds }) => seconds);
  if (own.length === 0 || others.length === 0) return [];
  const { p } = rankSum(own, others);
  const ratio = median(own) / median(others);
  return [{ of, against, runs: [own.length, others.length], ratio, p, delta: cliffsDelta(own, others) }];
}
