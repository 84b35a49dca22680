/**
 * Draws the planner benchmark's results as the paper's figure 6(c): storage and recreation cost over α, by
 * algorithm, as an SVG. Pure.
 */
import { colourOf, escape, round } from "./svg.js";

export interface ChartPoint {
  readonly ratio: number;
  readonly storage: number;
  readonly recreation: number;
  readonly isWithinBudgets: boolean;
}
export interface ChartSeries {
  readonly name: string;
  /** What the algorithm does, in a few words. */
  readonly meaning: string;
  readonly points: readonly ChartPoint[];
}

const panel = { width: 330, height: 280, left: 56, top: 56, gap: 76 };
const legend = { columns: 2, columnWidth: 590, rowHeight: 20 };
/** The enlarged panel ends here: the algorithms worth comparing are below. */
const enlargedTop = 1.08;

export function tradeOffChart(title: string, series: readonly ChartSeries[]): string {
  const width = panel.left + 3 * panel.width + 2 * panel.gap + 30;
  const height = panel.top + panel.height + 66 + legend.rowHeight * Math.ceil(series.length / legend.columns);
  const leftOf = (position: number): number => panel.left + position * (panel.width + panel.gap);
  const storage = (point: ChartPoint): number => point.storage;
  const recreation = (point: ChartPoint): number => point.recreation;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" role="img">`,
    `<title>${escape(title)}</title>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<text x="${panel.left}" y="24" font-size="15">${escape(title)}</text>`,
    ...drawPanel(series, {
      label: "stored, times the least possible",
      left: leftOf(0),
      valueOf: storage,
      top: niceCeiling(largest(series, storage)),
    }),
    ...drawPanel(series, {
      label: `the same from 1 to ${enlargedTop}`,
      left: leftOf(1),
      valueOf: storage,
      top: enlargedTop,
    }),
    ...drawPanel(series, {
      label: "mean recreation, times the least possible",
      left: leftOf(2),
      valueOf: recreation,
      top: niceCeiling(largest(series, recreation)),
    }),
    ...drawLegend(series, panel.top + panel.height + 56),
    "</svg>",
  ];
  return `${parts.join("\n")}\n`;
}

function largest(series: readonly ChartSeries[], valueOf: (point: ChartPoint) => number): number {
  return Math.max(...series.flatMap(({ points }) => points.map(valueOf)));
}

interface Panel {
  readonly label: string;
  readonly left: number;
  readonly valueOf: (point: ChartPoint) => number;
  readonly top: number;
}
/** A panel whose values run from 1 to `top`; larger values are cut off. */
function drawPanel(series: readonly ChartSeries[], { label, left, valueOf, top }: Panel): string[] {
  const points = series.flatMap((each) => each.points);
  const clip = `panel-${left}`;
  const [from, to] = [
    Math.min(...points.map(({ ratio }) => ratio)),
    Math.max(...points.map(({ ratio }) => ratio)),
  ];
  const x = (ratio: number): number => left + (to > from ? (ratio - from) / (to - from) : 0.5) * panel.width;
  const y = (value: number): number => panel.top + panel.height * (1 - (value - 1) / (top - 1));
  const steps = Array.from({ length: 5 }, (_, i) => 1 + ((top - 1) * i) / 4);
  const ticks = [...new Set(points.map(({ ratio }) => ratio))].filter((ratio) => Number.isInteger(ratio * 2));
  return [
    `<text x="${left}" y="${panel.top - 10}">${escape(label)}</text>`,
    `<clipPath id="${clip}"><rect x="${left - 6}" y="${panel.top}" width="${panel.width + 12}" height="${panel.height + 6}"/></clipPath>`,
    ...steps.map(
      (value) =>
        `<path d="M${left} ${round(y(value))}h${panel.width}" stroke="#ddd"/><text x="${left - 6}" y="${round(y(value) + 4)}" text-anchor="end">${value.toFixed(2)}</text>`,
    ),
    ...ticks.map(
      (ratio) =>
        `<text x="${round(x(ratio))}" y="${panel.top + panel.height + 18}" text-anchor="middle">${ratio}</text>`,
    ),
    `<text x="${left + panel.width / 2}" y="${panel.top + panel.height + 36}" text-anchor="middle">α, the budget as a multiple of the least recreation cost</text>`,
    `<g clip-path="url(#${clip})">`,
    ...series.flatMap((each, index) => [
      `<path d="${each.points.map((point, i) => `${i === 0 ? "M" : "L"}${round(x(point.ratio))} ${round(y(valueOf(point)))}`).join("")}" fill="none" stroke="${colourOf(index)}" stroke-width="2"/>`,
      ...each.points
        .filter((point) => valueOf(point) <= top)
        .map(
          (point) =>
            `<circle cx="${round(x(point.ratio))}" cy="${round(y(valueOf(point)))}" r="3.5" stroke="${colourOf(index)}" stroke-width="1.5" fill="${point.isWithinBudgets ? colourOf(index) : "#fff"}"/>`,
        ),
    ]),
    "</g>",
  ];
}

function drawLegend(series: readonly ChartSeries[], top: number): string[] {
  const rows = Math.ceil(series.length / legend.columns);
  return [
    ...series.map(({ name, meaning }, index) => {
      const x = panel.left + 6 + (index % legend.columns) * legend.columnWidth;
      const y = top + legend.rowHeight * Math.floor(index / legend.columns);
      return `<circle cx="${x}" cy="${y}" r="5" fill="${colourOf(index)}"/><text x="${x + 10}" y="${y + 4}">${escape(`${name}: ${meaning}`)}</text>`;
    }),
    `<text x="${panel.left}" y="${top + legend.rowHeight * rows + 4}" fill="#555">hollow: over a budget</text>`,
  ];
}

/** The next multiple of a quarter, half or one above 1. */
function niceCeiling(value: number): number {
  const step = value < 2 ? 0.2 : value < 5 ? 1 : 4;
  return 1 + step * Math.max(1, Math.ceil((value - 1) / step - 1e-9));
}
