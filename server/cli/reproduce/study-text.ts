/** The report of a study for people: how far runs were apart in each setup, and what recording cost. Pure. */
import { formatBytes } from "../../../shared/cli/output.js";
import type { Column } from "../../../shared/cli/table.js";
import type { Criterion } from "../../../shared/determinism/reproduce/criteria.js";
import { sizeOfDelta } from "../../../shared/determinism/reproduce/statistics.js";
import {
  criterionUnits,
  setups,
  type Overhead,
  type Setup,
  type SetupSummary,
  type Spread,
  type StudySummary,
} from "../../../shared/determinism/reproduce/study.js";

const titles: Readonly<Record<Criterion, string>> = {
  accuracy: "ACCURACY",
  "accuracy by class": "BY CLASS",
  "every prediction": "PREDICTIONS",
  "mean absolute error": "ERROR",
  losses: "LOSSES",
  epochs: "EPOCHS",
  tensors: "TENSORS",
};

const nameOfSetup = (setup: Setup): string => {
  const known = setups[setup];
  return "paper" in known ? `${setup} (${known.paper})` : setup;
};

/** Criteria that any setup recorded, by whether a pair of any setup differed. */
function criteriaOf({ setups: summaries }: StudySummary, differed: boolean): readonly Criterion[] {
  return (Object.keys(titles) as Criterion[]).filter((criterion) => {
    const spreads = summaries.flatMap(({ spreads }) => spreads[criterion] ?? []);
    return spreads.length > 0 && spreads.some(({ different }) => different > 0) === differed;
  });
}

/** A column for each criterion by which any pair differed. */
export function studyColumns(summary: StudySummary): readonly Column<SetupSummary>[] {
  return [
    { title: "SETUP", value: ({ setup }) => nameOfSetup(setup) },
    { title: "EQUAL", value: ({ equal, pairs }) => `${equal} of ${pairs}` },
    ...criteriaOf(summary, true).map((criterion) => ({
      title: titles[criterion],
      value: ({ spreads }: SetupSummary) => spreadText(spreads[criterion]),
    })),
  ];
}

/** Counts as they are, other numbers in three digits. */
const figure = (value: number): string =>
  String(Number.isInteger(value) ? value : Number(value.toPrecision(3)));

function spreadText(spread: Spread | undefined): string {
  if (spread === undefined) return "-";
  const { largest, deviation, different } = spread;
  if (different === 0) return "0";
  return largest === undefined ? `${different} differ` : `${figure(largest)} (${figure(deviation ?? 0)})`;
}

export function describeStudy(summary: StudySummary): string[] {
  const { overheads, profile, control } = summary;
  const units = criteriaOf(summary, true)
    .filter((criterion) => criterionUnits[criterion] !== "")
    .map((criterion) => `${titles[criterion].toLowerCase()} in ${criterionUnits[criterion]}`);
  const equal = criteriaOf(summary, false);
  return [
    ...(units.length === 0
      ? []
      : [`largest difference within a pair (standard deviation over pairs); ${units.join(", ")}`]),
    ...(equal.length === 0 ? [] : [`equal in every pair: ${equal.join(", ")}`]),
    ...summary.setups.flatMap(unequalText),
    ...overheads.map(overheadText),
    ...(profile === undefined ? [] : [profileText(profile)]),
    controlText(control),
  ];
}

/** The pairs that are not equal by what they drew or recorded, which no difference shows. */
function unequalText({ setup, pairs, diverged, incomplete }: SetupSummary): string[] {
  const [first] = diverged;
  return [
    ...(first === undefined
      ? []
      : [
          `${setup}: ${diverged.length} of ${pairs} replays did not draw what was recorded and count as not equal ` +
            `(pair ${first.pair}: ${first.place})`,
        ]),
    ...(incomplete === 0
      ? []
      : [
          `${setup}: in ${incomplete} of ${pairs} pairs one run recorded what the other did not; they count as not equal`,
        ]),
  ];
}

function overheadText({ of, against, runs, ratio, p, delta }: Overhead): string {
  const [own, others] = runs;
  return (
    `time of ${of}: ${ratio.toFixed(3)} × ${against}, medians of ${own} and ${others} runs; ` +
    `rank-sum p = ${figure(p)}${p < 0.05 ? "" : ", not significant"}; Cliff's delta ${delta.toFixed(2)} (${sizeOfDelta(delta)})`
  );
}

function profileText({ bytes, modelBytes }: NonNullable<StudySummary["profile"]>): string {
  const share =
    modelBytes === undefined
      ? ""
      : `, ${figure((100 * bytes) / modelBytes)} % of the model's ${formatBytes(modelBytes)}`;
  return `profile: ${formatBytes(bytes)}${share}`;
}

function controlText(control: StudySummary["control"]): string {
  if (control === null) return "no control: the setup free was left out";
  const { different, pairs } = control;
  return different > 0
    ? `control: ${different} of ${pairs} bare pairs differed, so equal pairs of another setup say something`
    : `control FAILED: none of ${pairs} bare pairs differed, so equal pairs of another setup say nothing`;
}
