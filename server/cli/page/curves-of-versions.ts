/** The learning curves of versions: a chart for each figure, and the figures themselves as a table. Pure. */
import type { Measurement } from "../../../shared/train/training.js";
import { figure, pointsOf } from "../repository/metric-course.js";
import { chart, type Curve } from "./chart.js";
import { folded, type Section } from "./document.js";
import { html, type Markup } from "./markup.js";
import { table } from "./table.js";

export interface MeasuredVersion {
  readonly name: string;
  readonly measurements: readonly Measurement[];
}

const maxCharts = 40;
const maxRows = 200;

/** Figures that belong into one chart, as both are losses on the same scale. */
const chartOf: ReadonlyMap<string, string> = new Map([["validation loss", "loss"]]);

/** Nothing where no version was measured. */
export function curveSections(versions: readonly MeasuredVersion[]): readonly Section[] {
  const charts = new Map<string, Curve[]>();
  versions.forEach(({ name: version, measurements }, at) => {
    for (const [name, points] of pointsOf(measurements)) {
      const title = versions.length === 1 ? (chartOf.get(name) ?? name) : name;
      const curves = charts.get(title) ?? [];
      const isAlone = versions.length === 1;
      curves.push({ name: isAlone ? name : version, hue: isAlone ? curves.length : at, points });
      charts.set(title, curves);
    }
  });
  if (charts.size === 0) return [];
  const drawn = [...charts].slice(0, maxCharts).map(([title, curves]) => chart(title, curves));
  const left = charts.size - drawn.length;
  const figures = versions.map((version, at) => figuresOf(version, `figures-${at}`));
  return [
    {
      id: "curves",
      title: "Learning curves",
      content: html`<div class="charts">${drawn}</div>
        ${
          left === 0 ? undefined : html`<p class="soft">${left} more figures are only in the tables.</p>`
        }${figures.map(({ markup }) => markup)}`,
      style: figures.map(({ style }) => style).join(""),
    },
  ];
}

function figuresOf(
  { name, measurements }: MeasuredVersion,
  id: string,
): { readonly markup: Markup | undefined; readonly style: string } {
  const points = pointsOf(measurements);
  if (points.size === 0) return { markup: undefined, style: "" };
  const names = [...points.keys()].slice(0, maxCharts);
  const values = new Map(
    names.map((each) => [
      each,
      new Map((points.get(each) ?? []).map(({ iteration, value }) => [iteration, value])),
    ]),
  );
  const iterations = [...new Set(measurements.map(({ iteration }) => iteration))].sort((a, b) => a - b);
  const step = Math.ceil(iterations.length / maxRows);
  const rows = iterations.filter((_, at) => at % step === 0 || at === iterations.length - 1);
  const piece = table({
    id,
    caption:
      step === 1
        ? `All ${rows.length} iterations that were measured`
        : `${rows.length} of ${iterations.length} iterations that were measured, evenly spaced`,
    columns: [
      { title: "Iteration", value: (iteration: number) => iteration, rem: 5 },
      ...names.map((each) => ({
        title: each,
        value: (iteration: number) => {
          const value = values.get(each)?.get(iteration);
          return value === undefined ? undefined : figure(value);
        },
        rem: 7,
        align: "right" as const,
      })),
    ],
    rows,
  });
  return { markup: folded(`Figures of ${name}`, piece.markup), style: piece.style };
}
