/** Draws panels of lines over a common legend, as an SVG. Axes begin at their lowest tick. Pure. */
import { colourOf, escape, markerOf, round } from "./svg.js";

export interface LinePoint {
  readonly x: number;
  readonly y: number;
}

export interface Line {
  readonly name: string;
  readonly points: readonly LinePoint[];
  /** Whether the value stays until the next point, as a best so far does. */
  readonly isStepped?: boolean;
}

export interface LinePanel {
  readonly title: string;
  readonly xAxis: string;
  readonly yAxis: string;
  /** The lowest value of the vertical axis; absent: 0. */
  readonly fromY?: number;
  /** Names of the points 0, 1, 2 … of the horizontal axis, instead of numbers. */
  readonly xLabels?: readonly string[];
  readonly lines: readonly Line[];
}

const plot = { width: 340, height: 240, left: 62, top: 84, gap: 84 };
const legendColumn = 220;
const tickCount = 5;

/** @param panels at least one; a line's name has one colour in all of them */
export function lineChart(title: string, panels: readonly LinePanel[]): string {
  const names = [...new Set(panels.flatMap(({ lines }) => lines.map(({ name }) => name)))];
  const width = plot.left + panels.length * (plot.width + plot.gap) - plot.gap + 30;
  const columns = Math.max(1, Math.floor((width - plot.left) / legendColumn));
  const legendTop = plot.top + plot.height + 74;
  const height = legendTop + Math.ceil(names.length / columns) * 20;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" role="img">`,
    `<title>${escape(title)}</title>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<text x="${plot.left}" y="24" font-size="15">${escape(title)}</text>`,
    ...panels.flatMap((panel, i) => drawPanel(panel, plot.left + i * (plot.width + plot.gap), names)),
    ...names.map((name, i) => {
      const x = plot.left + (i % columns) * legendColumn;
      const y = legendTop + Math.floor(i / columns) * 20;
      return `<rect x="${x}" y="${y - 9}" width="10" height="10" fill="${colourOf(i)}"/><text x="${x + 16}" y="${y}">${escape(name)}</text>`;
    }),
    "</svg>",
    "",
  ].join("\n");
}

function drawPanel(
  { title, xAxis, yAxis, fromY = 0, xLabels, lines }: LinePanel,
  left: number,
  names: readonly string[],
): string[] {
  const points = lines.flatMap((line) => line.points);
  const xTicks = xLabels?.map((_, i) => i) ?? ticksUpTo(0, Math.max(...points.map((point) => point.x), 0));
  const yTicks = ticksUpTo(fromY, Math.max(...points.map((point) => point.y), fromY));
  // The end is 0 where there is one name alone.
  const [xEnd, yEnd] = [xTicks.at(-1) || 1, yTicks.at(-1) as number];
  const x = (value: number): number => round(left + (plot.width * value) / xEnd);
  const y = (value: number): number =>
    round(plot.top + plot.height * (1 - (Math.max(value, fromY) - fromY) / (yEnd - fromY)));
  const bottom = plot.top + plot.height;
  return [
    `<text x="${left}" y="${plot.top - 30}" font-size="13">${escape(title)}</text>`,
    `<text x="${left}" y="${plot.top - 12}" fill="#555">${escape(yAxis)}</text>`,
    ...yTicks.map(
      (tick) =>
        `<path d="M${left} ${y(tick)}h${plot.width}" stroke="${tick === fromY ? "#888" : "#ddd"}"/><text x="${left - 6}" y="${y(tick) + 4}" text-anchor="end">${tick.toLocaleString("en")}</text>`,
    ),
    ...xTicks.map((tick, i) =>
      xLabels === undefined
        ? `<text x="${x(tick)}" y="${bottom + 18}" text-anchor="middle">${tick.toLocaleString("en")}</text>`
        : `<text transform="translate(${x(tick) + 4} ${bottom + 10}) rotate(-45)" font-size="10" text-anchor="end">${escape(xLabels[i] ?? "")}</text>`,
    ),
    `<text x="${left + plot.width / 2}" y="${bottom + 46}" text-anchor="middle">${escape(xAxis)}</text>`,
    ...lines.map(
      ({ name, points: own, isStepped = false }) =>
        `<path d="${own
          .map((point, i) => {
            // A line of one point is not seen.
            if (own.length === 1) return markerOf(names.indexOf(name), x(point.x), y(point.y));
            if (i === 0) return `M${x(point.x)} ${y(point.y)}`;
            return isStepped ? `H${x(point.x)}V${y(point.y)}` : `L${x(point.x)} ${y(point.y)}`;
          })
          .join("")}" fill="none" stroke="${colourOf(names.indexOf(name))}" stroke-width="2"/>`,
    ),
  ];
}

/** About five round numbers from `start`, the last at least `end`; more than one. */
export function ticksUpTo(start: number, end: number): readonly number[] {
  const rough = Math.max(end - start, 1e-9) / tickCount;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) as number;
  const count = Math.max(1, Math.ceil((end - start) / step - 1e-9));
  return Array.from({ length: count + 1 }, (_, i) => Number((start + i * step).toPrecision(12)));
}
