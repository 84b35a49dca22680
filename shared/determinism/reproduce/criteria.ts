/**
 * Criteria by which two runs of a training are the same (CH §3.3; CH13): accuracy, accuracy of each class, every
 * prediction, mean absolute error, losses, epochs, and the bits of the tensors. Training time is not among them. Pure.
 */
import type { PredictedSample, RunCourse, RunRecord, RunTotals } from "./run-record.js";

/** Checked in this order: the first that fails is named. */
export const criteria = [
  "accuracy",
  "accuracy by class",
  "every prediction",
  "mean absolute error",
  "losses",
  "epochs",
  "tensors",
] as const;
export type Criterion = (typeof criteria)[number];

export interface Finding {
  readonly criterion: Criterion;
  /** A criterion of which one or both sides have nothing is neither equal nor different. */
  readonly verdict: "equal" | "different" | "only in A" | "only in B" | "not recorded";
  /** The figures, and where they differ by how much. */
  readonly text: string;
  /** The size of the difference, in the unit that the text names; absent: equal, or it has no number. */
  readonly difference?: number;
}

/** The tensors of two models, as whoever read them compared them. */
export interface TensorComparison {
  readonly compared: number;
  /** Tensors with other bits, shape, type or name. */
  readonly differing: number;
  /** The first of them, in words. */
  readonly first?: string;
  /** The largest difference of two finite float32 numbers; absent where there is none. */
  readonly largest?: number;
}

export interface RunComparison {
  /** `nothing` where no criterion is recorded on both sides. */
  readonly verdict: "equal" | "different" | "incomplete" | "nothing";
  readonly findings: readonly Finding[];
  /** The first criterion that fails. */
  readonly first?: Finding;
}

/** A value of both sides, or the word for what is absent. */
function both<Value>(
  criterion: Criterion,
  [a, b]: readonly [a: Value | undefined, b: Value | undefined],
  compare: (a: Value, b: Value) => Omit<Finding, "criterion" | "verdict"> & { readonly same: boolean },
): Finding {
  if (a === undefined || b === undefined) {
    const verdict = a !== undefined ? "only in A" : b !== undefined ? "only in B" : "not recorded";
    return { criterion, verdict, text: verdict === "not recorded" ? "" : "not recorded in the other" };
  }
  const { same, ...found } = compare(a, b);
  return { criterion, verdict: same ? "equal" : "different", ...found };
}

/** @param tensors of both; "A" or "B" where only one has a model, absent where none has */
export function compareRuns(
  a: RunRecord,
  b: RunRecord,
  tensors: TensorComparison | "A" | "B" | undefined,
): RunComparison {
  const pair = <Name extends keyof RunTotals>(name: Name) => [a.totals[name], b.totals[name]] as const;
  const findings: Finding[] = [
    both("accuracy", pair("overall"), (one, other) => {
      const difference = Math.abs(one.correct / one.samples - other.correct / other.samples) * 100;
      const same = one.correct === other.correct && one.samples === other.samples;
      return { same, text: ratios([one, other]), ...(same ? {} : { difference }) };
    }),
    both("accuracy by class", pair("classes"), compareClasses),
    both("every prediction", [a.samples, b.samples], comparePredictions),
    both("mean absolute error", pair("meanAbsoluteError"), (one, other) => {
      const same = Object.is(one, other);
      const difference = Math.abs(one - other);
      return same ? { same, text: String(one) } : { same, text: `${one} and ${other}`, difference };
    }),
    both("losses", [lossesOf(a.course), lossesOf(b.course)], compareLosses),
    // A training that stops by itself may take another number of epochs (CH5).
    both("epochs", [a.course?.lastEpoch, b.course?.lastEpoch], (one, other) =>
      one === other
        ? { same: true, text: `the last is ${one}` }
        : { same: false, text: `the last is ${one} and ${other}`, difference: Math.abs(one - other) },
    ),
    tensors === "A" || tensors === "B"
      ? both("tensors", tensors === "A" ? [0, undefined] : [undefined, 0], () => ({ same: false, text: "" }))
      : both("tensors", [tensors, tensors], compareTensors),
  ];
  return judge(findings);
}

function judge(findings: readonly Finding[]): RunComparison {
  const has = (test: (finding: Finding) => boolean): boolean => findings.some(test);
  const first = findings.find(({ verdict }) => verdict === "different");
  if (first !== undefined) return { verdict: "different", findings, first };
  if (!has(({ verdict }) => verdict === "equal")) return { verdict: "nothing", findings };
  return { verdict: has(({ verdict }) => verdict.startsWith("only")) ? "incomplete" : "equal", findings };
}

type Compared = Omit<Finding, "criterion" | "verdict"> & { readonly same: boolean };
type Totals = NonNullable<RunTotals["overall"]>;

const percent = ({ correct, samples }: Totals): string => `${((100 * correct) / samples).toFixed(2)} %`;
const ratio = (total: Totals): string => `${percent(total)} (${total.correct} of ${total.samples})`;
const ratios = ([a, b]: readonly [Totals, Totals]): string =>
  a.correct === b.correct && a.samples === b.samples ? ratio(a) : `${ratio(a)} and ${ratio(b)}`;

function compareClasses(a: ReadonlyMap<string, Totals>, b: ReadonlyMap<string, Totals>): Compared {
  const none: Totals = { samples: 0, correct: 0 };
  const share = ({ samples, correct }: Totals): number => (samples === 0 ? 0 : correct / samples);
  let [differing, largest] = [0, -1];
  let text = "";
  const names = new Set([...a.keys(), ...b.keys()]);
  for (const name of names) {
    const [one, other] = [a.get(name) ?? none, b.get(name) ?? none];
    if (one.correct === other.correct && one.samples === other.samples) continue;
    differing++;
    const distance = Math.abs(share(one) - share(other)) * 100;
    if (distance > largest) [largest, text] = [distance, `class ${name}: ${ratios([one, other])}`];
  }
  if (differing === 0) return { same: true, text: `${names.size} classes` };
  return { same: false, text: `${differing} of ${names.size} classes, most ${text}`, difference: largest };
}

type Samples = ReadonlyMap<string, PredictedSample>;
/** The prediction itself: the class, or the numbers of a regression. */
const predictionOf = ({ predicted, outputs }: PredictedSample): string => predicted ?? outputs.join(" ");

function comparePredictions(a: Samples, b: Samples): Compared {
  const names = new Set([...a.keys(), ...b.keys()]);
  let first: string | undefined;
  let inconsistent = 0;
  for (const name of names) {
    const [one, other] = [a.get(name), b.get(name)];
    const [left, right] = [one, other].map((each) =>
      each === undefined ? "none" : JSON.stringify(predictionOf(each)).slice(1, -1),
    );
    if (one !== undefined && other !== undefined && left === right) continue;
    inconsistent++;
    first ??= `sample ${name}: ${left?.slice(0, 60)} and ${right?.slice(0, 60)}`;
  }
  if (first === undefined) return { same: true, text: `${names.size} samples` };
  return {
    same: false,
    text: `${inconsistent} of ${names.size} samples, the first ${first}`,
    difference: inconsistent,
  };
}

/** A course without any loss is not one of equal losses. */
const lossesOf = (course: RunCourse | undefined): RunCourse | undefined =>
  course === undefined || course.losses.length === 0 ? undefined : course;

function compareLosses(a: RunCourse, b: RunCourse): Compared {
  const keyOf = ({ name, iteration }: RunCourse["losses"][number]): string => `${name} at ${iteration}`;
  const left = new Map(a.losses.map((loss) => [keyOf(loss), loss.value]));
  const right = new Map(b.losses.map((loss) => [keyOf(loss), loss.value]));
  const keys = new Set([...left.keys(), ...right.keys()]);
  let [differing, difference, notFinite] = [0, 0, 0];
  let first: string | undefined;
  const shown = (value: number | null | undefined): string =>
    value === undefined ? "none" : value === null ? "not finite" : String(value);
  for (const key of keys) {
    const [one, other] = [left.get(key), right.get(key)];
    if (one === null && other === null) notFinite++;
    if (one === other) continue;
    differing++;
    first ??= `${key}: ${shown(one)} and ${shown(other)}`;
    if (typeof one === "number" && typeof other === "number")
      difference = Math.max(difference, Math.abs(one - other));
  }
  if (first !== undefined)
    return { same: false, text: `${differing} of ${keys.size}, the first ${first}`, difference };
  const spaced = a.iterations > a.losses.length ? `, evenly spaced ones of ${a.iterations} iterations` : "";
  const unknown = notFinite === 0 ? "" : `; ${notFinite} are not finite and not told apart`;
  return { same: true, text: `${keys.size}${spaced}${unknown}` };
}

function compareTensors({ compared, differing, first, largest }: TensorComparison): Compared {
  if (differing === 0) return { same: true, text: `${compared}, the same bits` };
  const size = largest === undefined ? "" : `; largest difference ${Number(largest.toPrecision(6))}`;
  return {
    same: false,
    text: `${differing} of ${compared}, the first ${first ?? "unnamed"}${size}`,
    ...(largest === undefined ? {} : { difference: largest }),
  };
}
