/** Formats averages of models as text for people. */
import { renderTable } from "../../shared/cli/table.js";
import { counted, printable } from "../../shared/printable.js";
import type { FleetAverageReport, MergeReport } from "../interface/api/models/average-schemas.js";
import { nameOf } from "./version-text.js";

type Counted = Pick<MergeReport, "rule" | "trimmedEach" | "tensors" | "sameTensors">;

export function describeMerge(report: MergeReport): readonly string[] {
  const { summary, bases } = report;
  return [
    `saved as ${nameOf(summary)} (${summary.versionId.slice(0, 12)}): ${ruleText(report, bases.length)}`,
    ...bases.map(
      (base) =>
        `  ${nameOf(base)} ${base.versionId.slice(0, 12)}${base.weight === undefined ? "" : `, weight ${base.weight}`}`,
    ),
    tensorsText(report),
  ];
}

/** "the trimmed mean of 5 models, without the smallest and largest number of each position". */
function ruleText({ rule, trimmedEach = 0 }: Counted, models: number): string {
  if (rule === "mean") return `the mean of ${models} models`;
  if (rule === "weighted") return `the weighted mean of ${models} models`;
  const each =
    trimmedEach === 1 ? "the smallest and largest number" : `the ${trimmedEach} smallest and largest numbers`;
  return `the mean of ${models} models without ${each} of each position`;
}

function tensorsText({ tensors, sameTensors }: Counted): string {
  return `${tensors - sameTensors} of ${counted(tensors, "tensor")} averaged; ${sameTensors} the same in all`;
}

/** @param line as it was asked for */
export function describeFleetAverage(report: FleetAverageReport, line: string): readonly string[] {
  const { summary, taken, leftOut, haveCommonAncestor } = report;
  const average = ruleText(report, taken.length);
  return [
    ...renderTable(taken, [
      { title: "DEVICE", value: ({ device }) => device },
      { title: "MODEL", value: nameOf },
      { title: "SAMPLES", value: ({ samples }) => samples ?? "-", align: "right" },
      { title: "WEIGHT", value: ({ weight }) => weight ?? 1, align: "right" },
      {
        title: "DISTANCE",
        value: ({ distance }) => (distance === undefined ? "-" : distance.toPrecision(3)),
        align: "right",
      },
    ])
      .trimEnd()
      .split("\n"),
    ...leftOut.map(({ device, because }) => `left out: ${printable(`${device}: ${because}`)}`),
    ...(report.medianSamples === undefined ? [] : [samplesText(report)]),
    ...(haveCommonAncestor
      ? []
      : ["warning: these models have no common ancestor, and averages of such seldom work"]),
    tensorsText(report),
    summary === null
      ? `the line ${printable(line)} would give ${average}; nothing was saved`
      : `saved as ${nameOf(summary)} (${summary.versionId.slice(0, 12)}): ${average}`,
  ];
}

/** Says whose word the counts are, and which of them do not count fully. */
function samplesText({ taken }: FleetAverageReport): string {
  const capped = taken.filter(({ samples, weight }) => samples !== undefined && weight !== samples);
  const said = "samples are stated by the devices, and nothing proves them";
  return capped.length === 0 ? said : `${said}; capped: ${capped.map(({ device }) => device).join(", ")}`;
}
