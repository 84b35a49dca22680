/**
 * Explains a difference of two models, or of a model and its replay, as a list of decisions (MERIT, appendix B): what
 * was found at each point, what could not be looked at, and which recorded differences are left as causes. Pure.
 */
import type { Finding, RunComparison } from "../../shared/determinism/reproduce/criteria.js";
import type { ComparedCheckpoints } from "../../shared/provenance/compare-checkpoints.js";
import { cutText } from "../../shared/cli/text-width.js";
import type { ComparedLibraries } from "../../shared/programs/program-libraries.js";
import type { ReplayReport } from "../interface/api/models/evaluation-schemas.js";
import type { ProvenanceDiffJson } from "../interface/api/models/version-schemas.js";
import { provenanceDiffLines } from "./provenance-text.js";
import { counted } from "../../shared/printable.js";

const pointNames = [
  "predictions",
  "weights",
  "evaluations",
  "provenance",
  "versions",
  "load order",
  "machine",
] as const;
export interface ExplainedPoint {
  readonly point: (typeof pointNames)[number];
  readonly verdict: "equal" | "different" | "not looked at";
  readonly text: string;
}

export interface Explanation {
  readonly points: readonly ExplainedPoint[];
  readonly conclusion: string;
}

/** A field of two environments; undefined where that side does not have it. */
export interface FieldOfBoth {
  readonly field: string;
  readonly a: string | undefined;
  readonly b: string | undefined;
}

type Found = Omit<ExplainedPoint, "point">;
const maxText = 400;
const unknown = (text: string): Found => ({ verdict: "not looked at", text });

const versionFields = ["stemma", "engine", "node", "v8", "backend", "trainer.command", "trainer.program"];
const orderFields = ["loadOrder", "backendOrder"];

/** Fields of the agent's own process, which decide nothing where another program trained. */
const ofAgent = ["backend", "stemma", "node", "v8"];

/** @param all of which at least one side has a value, also equal ones */
function environmentPoints(all: readonly FieldOfBoth[]): readonly ExplainedPoint[] {
  const isExternal = all.some(({ field, a, b }) => field === "backend" && [a, b].includes("external"));
  const fields = all.filter(({ field }) => !isExternal || !ofAgent.includes(field));
  const isVersion = ({ field }: FieldOfBoth): boolean =>
    versionFields.includes(field) || field.startsWith("library.");
  const isOrder = ({ field }: FieldOfBoth): boolean => orderFields.includes(field);
  return [
    { point: "versions", ...compareFields(fields.filter(isVersion)) },
    { point: "load order", ...compareFields(fields.filter(isOrder)) },
    { point: "machine", ...compareFields(fields.filter((each) => !isVersion(each) && !isOrder(each))) },
  ];
}

function compareFields(fields: readonly FieldOfBoth[]): Found {
  const onBoth = fields.filter(({ a, b }) => a !== undefined && b !== undefined);
  const others = fields.length - onBoth.length;
  const left = others === 0 ? "" : `; ${others} more are recorded on one side only`;
  if (onBoth.length === 0) return unknown(`not recorded on both sides${left}`);
  const differing = onBoth.filter(({ a, b }) => a !== b);
  return differing.length === 0
    ? { verdict: "equal", text: `${onBoth.length} fields${left}` }
    : {
        verdict: "different",
        text: differing.map(differenceOf).join("; ") + left,
      };
}

/** Both values; of an order, which may be long, the first place that differs. */
function differenceOf({ field, a = "", b = "" }: FieldOfBoth): string {
  if (!orderFields.includes(field)) return `${field}: ${a} and ${b}`;
  const [one, other] = [a, b].map((text) => text.split(", ")) as [string[], string[]];
  const at = [...one, ...other].findIndex((_, i) => one[i] !== other[i]);
  return `${field}: place ${at + 1} has ${one[at] ?? "none"} and ${other[at] ?? "none"}`;
}

export interface ComparedVersions {
  readonly comparison: RunComparison;
  /** undefined: not both have provenance of format 1. */
  readonly provenance: ProvenanceDiffJson | undefined;
  /** The metrics that the trainers stated. */
  readonly metrics: readonly FieldOfBoth[];
  readonly fields: readonly FieldOfBoth[];
  /** Checkpoints after the same steps, compared; undefined where there are none. */
  readonly checkpoints: ComparedCheckpoints | undefined;
  /** The libraries of both programs; absent: not both record them. */
  readonly libraries?: ComparedLibraries;
}

export function explainVersions(versions: ComparedVersions): Explanation {
  const { comparison, provenance, metrics, fields, checkpoints, libraries } = versions;
  const of = (...names: readonly Finding["criterion"][]): readonly Finding[] =>
    comparison.findings.filter(({ criterion }) => names.includes(criterion));
  return concluded([
    { point: "predictions", ...findingsTogether(of("every prediction")) },
    { point: "weights", ...withText(findingsTogether(of("tensors")), checkpointsText(checkpoints)) },
    {
      point: "evaluations",
      ...findingsTogether([
        ...of("accuracy", "accuracy by class", "mean absolute error", "losses", "epochs"),
        ...metrics.map(metricFinding),
      ]),
    },
    { point: "provenance", ...provenanceFound(provenance) },
    ...withLibraries(environmentPoints(fields), libraries),
  ]);
}

/** The finding, with more to say where it was looked at. */
function withText({ verdict, text }: Found, more: string): Found {
  return { verdict, text: verdict === "not looked at" ? text : text + more };
}

type NamedFinding = Pick<Finding, "verdict" | "text"> & { readonly criterion: string };

function metricFinding({ field, a, b }: FieldOfBoth): NamedFinding {
  if (a === undefined || b === undefined) return { criterion: field, verdict: "not recorded", text: "" };
  return { criterion: field, verdict: a === b ? "equal" : "different", text: a === b ? a : `${a} and ${b}` };
}

function findingsTogether(findings: readonly NamedFinding[]): Found {
  const described = (verdict: Finding["verdict"]): string =>
    findings
      .filter((each) => each.verdict === verdict)
      .map(({ criterion, text }) => (findings.length === 1 ? text : `${criterion}: ${text}`))
      .join("; ");
  if (findings.some(({ verdict }) => verdict === "different"))
    return { verdict: "different", text: described("different") };
  return findings.some(({ verdict }) => verdict === "equal")
    ? { verdict: "equal", text: described("equal") }
    : unknown("not recorded on both sides");
}

function provenanceFound(provenance: ProvenanceDiffJson | undefined): Found {
  if (provenance === undefined) return unknown("not both state how they were trained");
  // Two trainings never take the same time.
  const { times: _, ...differences } = provenance.differences;
  if (Object.keys(differences).length === 0) return { verdict: "equal", text: "but for times" };
  const [, ...lines] = provenanceDiffLines({ ...provenance, differences });
  return { verdict: "different", text: lines.map((line) => line.trim()).join("; ") };
}

/** @param fields of the record, and of the server that ran the replay */
export function explainReplay(report: ReplayReport, fields: readonly FieldOfBoth[]): Explanation {
  const { difference, grade, members = [], text, checkpoints, libraries } = report;
  const isRun = grade !== undefined;
  const measures = members.filter((name) => /^metadata\.metric|measurements$/.test(name));
  const others = members.filter((name) => !measures.includes(name));
  const found = (names: readonly string[], equal: string): Found =>
    !isRun
      ? unknown(text)
      : names.length === 0
        ? { verdict: "equal", text: equal }
        : { verdict: "different", text: names.join(", ") };
  const begins = checkpointsText(checkpoints);
  const weights =
    difference === undefined
      ? found([], `every tensor has the recorded bytes${begins}`)
      : {
          verdict: "different" as const,
          text:
            `${counted(difference.tensors, "tensor")}, the first ${JSON.stringify(difference.first)}` +
            (difference.largest === undefined
              ? ""
              : `; largest difference ${difference.largest.difference.toPrecision(3)}, in ${difference.largest.tensor}`) +
            begins,
        };
  return concluded([
    {
      point: "predictions",
      ...unknown("a replay keeps none; those of two versions are compared"),
    },
    { point: "weights", ...weights },
    { point: "evaluations", ...found(measures, "metric and losses, as far as they are recorded") },
    { point: "provenance", ...found(others, "every member that the replay makes again") },
    ...withLibraries(environmentPoints(fields), libraries),
  ]);
}

/** The points, with what is known of a program's libraries, of which an environment has the names alone. */
function withLibraries(
  points: readonly ExplainedPoint[],
  libraries: ComparedLibraries | undefined,
): readonly ExplainedPoint[] {
  if (libraries === undefined) return points;
  const { verdict, text } = libraries;
  const found: Found = verdict === "not recorded" ? unknown(text) : { verdict, text };
  return points.map((each) => (each.point === "load order" ? { ...each, ...found } : each));
}

/** A sentence part about where a training begins to differ, by what both sides kept on the way. */
function checkpointsText(checkpoints: ComparedCheckpoints | undefined): string {
  if (checkpoints === undefined) return "";
  const { compared, lastEqual, firstDifferent } = checkpoints;
  if (firstDifferent === undefined) return `; ${compared} checkpoints are equal`;
  return lastEqual === undefined
    ? `; the first of ${counted(compared, "checkpoint")} differs, after ${counted(firstDifferent, "step")}`
    : `; equal after ${counted(lastEqual, "step")}, different after ${firstDifferent}, by ${counted(compared, "checkpoint")}`;
}

function concluded(points: readonly ExplainedPoint[]): Explanation {
  const of = (name: ExplainedPoint["point"]): ExplainedPoint["verdict"] | undefined =>
    points.find(({ point }) => point === name)?.verdict;
  const causes = points.filter(
    ({ point, verdict }) =>
      verdict === "different" && !["predictions", "weights", "evaluations"].includes(point),
  );
  const named = causes.map(({ point }) => point).join(", ");
  const differing = points.filter(({ verdict }) => verdict === "different").map(({ point }) => point);
  const conclusion =
    of("weights") === "equal"
      ? differing.length === 0
        ? "The weights are equal bit for bit, and nothing that was looked at differs."
        : `The weights are equal bit for bit, although these differ: ${differing.join(", ")}.`
      : of("weights") !== "different"
        ? "The weights were not compared, so nothing is concluded."
        : causes.length > 0
          ? `The weights differ. Recorded differences that can be the cause: ${named}.`
          : "The weights differ, and nothing that was looked at differs: the cause is in what was not looked at or is not recorded. " +
            "`stemma probe` compares two machines layer by layer; `stemma reproduce run` finds what a program draws on.";
  return { points, conclusion };
}

const width = Math.max(...pointNames.map(({ length }) => length)) + 2;

export function explanationLines({ points, conclusion }: Explanation): readonly string[] {
  return [
    ...points.map(({ point, verdict, text }) => {
      const shown = cutText(text.replaceAll("\n", " "), maxText);
      return `  ${point.padEnd(width)}${verdict}${shown === "" ? "" : `: ${shown}`}`;
    }),
    conclusion,
  ];
}
