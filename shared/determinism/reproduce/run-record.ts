/** Records of a run that two runs are compared by (CH §3.3; CH13), and totals of its predictions. Pure. */

/** A held-out sample, with texts and numbers as the run wrote them. */
export interface PredictedSample {
  /** The true class, or the true numbers of a regression; absent: the run did not write them. */
  readonly actual?: string | readonly number[];
  /** The class; absent: a regression. */
  readonly predicted?: string;
  readonly outputs: readonly number[];
}

export interface ClassTotal {
  readonly samples: number;
  readonly correct: number;
}

/** Measures on the samples; a member is absent where it is not known. */
export interface RunTotals {
  readonly overall?: ClassTotal;
  readonly classes?: ReadonlyMap<string, ClassTotal>;
  readonly meanAbsoluteError?: number;
}

export interface RunLoss {
  readonly name: "loss" | "validation loss";
  readonly iteration: number;
  /** Null: not finite. */
  readonly value: number | null;
}

export interface RunCourse {
  readonly losses: readonly RunLoss[];
  /** Iterations of the log, of which `losses` may have only evenly spaced ones. */
  readonly iterations: number;
  /** The largest number of an epoch; absent: the log counts none. */
  readonly lastEpoch?: number;
}

/** A run as it is compared. Absent: not recorded. */
export interface RunRecord {
  readonly samples?: ReadonlyMap<string, PredictedSample>;
  readonly totals: RunTotals;
  readonly course?: RunCourse;
}

/**
 * Accuracy, accuracy of each class and mean absolute error, summed up in the order of the samples' names, so that a
 * run that wrote the same predictions in another order has the same totals.
 */
export function totalsOf(samples: ReadonlyMap<string, PredictedSample>): RunTotals {
  const sorted = [...samples].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, sample]) => sample);
  return { ...classTotals(sorted), ...errorTotal(sorted) };
}

function classTotals(samples: readonly PredictedSample[]): RunTotals {
  const classes = new Map<string, { samples: number; correct: number }>();
  const overall = { samples: 0, correct: 0 };
  for (const { actual, predicted } of samples) {
    if (typeof actual !== "string" || predicted === undefined) return {};
    const own = classes.get(actual) ?? { samples: 0, correct: 0 };
    classes.set(actual, own);
    for (const total of [own, overall]) {
      total.samples++;
      if (actual === predicted) total.correct++;
    }
  }
  return overall.samples === 0 ? {} : { overall, classes };
}

function errorTotal(samples: readonly PredictedSample[]): RunTotals {
  let [sum, count] = [0, 0];
  for (const { actual, predicted, outputs } of samples) {
    if (predicted !== undefined || actual === undefined || typeof actual === "string") return {};
    if (actual.length !== outputs.length) return {};
    for (const [at, value] of outputs.entries()) sum += Math.abs((actual[at] as number) - value);
    count += outputs.length;
  }
  return count === 0 ? {} : { meanAbsoluteError: sum / count };
}
