/**
 * Criteria by which two runs of a training are the same (CH §3.3; CH13): accuracy, accuracy of each class, every
 * prediction, mean absolute error, losses, epochs, and the bits of the tensors. Training time is not among them. Pure.
 */
import type { PredictedSample, RunCourse, RunRecord, RunTotals } from "./run-record.js";
import { counted } from "../../printable.js";

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

/** Names of either side whose values differ, and of all. */
function differing<Value>(
  a: ReadonlyMap<string, Value>,
  b: ReadonlyMap<string, Value>,
  isSame: (one: Value | undefined, other: Value | undefined) => boolean,
): { readonly names: readonly string[]; readonly of: number } {
  const all = [...new Set([...a.keys(), ...b.keys()])];
  return { names: all.filter((name) => !isSame(a.get(name), b.get(name))), of: all.length };
}

function compareClasses(a: ReadonlyMap<string, Totals>, b: ReadonlyMap<string, Totals>): Compared {
  const none: Totals = { samples: 0, correct: 0 };
  const { names, of } = differing(
    a,
    b,
    (one, other) => one?.correct === other?.correct && one?.samples === other?.samples,
  );
  const share = (total = none): number => (total.samples === 0 ? 0 : total.correct / total.samples);
  const distance = (name: string): number => Math.abs(share(a.get(name)) - share(b.get(name))) * 100;
  const [most] = [...names].sort((one, other) => distance(other) - distance(one));
  if (most === undefined) return { same: true, text: `${of} classes` };
  const text = ratios([a.get(most) ?? none, b.get(most) ?? none]);
  return {
    same: false,
    text: `${names.length} of ${of} classes, most class ${most}: ${text}`,
    difference: distance(most),
  };
}

type Samples = ReadonlyMap<string, PredictedSample>;
/** The prediction itself: the class, or the numbers of a regression. */
const predictionOf = (sample: PredictedSample | undefined): string =>
  sample === undefined ? "none" : (sample.predicted ?? sample.outputs.join(" "));

function comparePredictions(a: Samples, b: Samples): Compared {
  const { names, of } = differing(
    a,
    b,
    (one, other) => one !== undefined && other !== undefined && predictionOf(one) === predictionOf(other),
  );
  const [first] = names;
  if (first === undefined) return { same: true, text: counted(of, "sample") };
  const [one, other] = [a, b].map((samples) => predictionOf(samples.get(first)).slice(0, 60));
  const text = `${names.length} of ${counted(of, "sample")}, the first sample ${first}: ${one} and ${other}`;
  return { same: false, text, difference: names.length };
}

/** A course without any loss is not one of equal losses. */
const lossesOf = (course: RunCourse | undefined): RunCourse | undefined =>
  course === undefined || course.losses.length === 0 ? undefined : course;

function compareLosses(a: RunCourse, b: RunCourse): Compared {
  const [left, right] = [a, b].map(
    ({ losses }) => new Map(losses.map(({ name, iteration, value }) => [`${name} at ${iteration}`, value])),
  ) as [Map<string, number | null>, Map<string, number | null>];
  const { names, of } = differing(left, right, Object.is);
  const [first] = names;
  const shown = (value: number | null | undefined): string =>
    value === undefined ? "none" : String(value ?? "not finite");
  if (first !== undefined) {
    const distances = names.map((name) => Math.abs((left.get(name) ?? NaN) - (right.get(name) ?? NaN)));
    const difference = distances.reduce((most, each) => (each > most ? each : most), 0);
    const text = `${names.length} of ${of}, the first ${first}: ${shown(left.get(first))} and ${shown(right.get(first))}`;
    return { same: false, text, difference };
  }
  const spaced = a.iterations > a.losses.length ? `, evenly spaced ones of ${a.iterations} iterations` : "";
  const notFinite = [...left.values()].filter((value) => value === null).length;
  const unknown = notFinite === 0 ? "" : `; not told apart where not finite: ${notFinite}`;
  return { same: true, text: `${of}${spaced}${unknown}` };
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
