/**
 * Draws the schemes benchmark's results as the paper's figure 6(a): compression ratio against accuracy drop by
 * float scheme, one panel per model and one of their means, as an SVG. Pure.
 */
import { colourOf, escape, round } from "./svg.js";

/**
 * `drop`: how much worse the metric is than the exact model's, in percentage points; null when the model's
 * output is NaN.
 */
export interface SchemePoint {
  readonly label: string;
  readonly ratio: number;
  readonly drop: number | null;
}
export interface SchemeSeries {
  readonly name: string;
  readonly points: readonly SchemePoint[];
}
export interface SchemePanel {
  readonly title: string;
  readonly drops: string;
  readonly series: readonly SchemeSeries[];
  /** Raw bytes over those of the lossless encoding. */
  readonly losslessRatio: number;
}

const panel = { width: 440, height: 260, left: 60, top: 70, columnGap: 80, rowGap: 104 };
const columns = 2;
/** Compression ratios at the ends, on a logarithmic axis. */
const ratioTicks = [1, 2, 4, 8, 16, 32, 64];
/**
 * Drops on the vertical axis. Larger ones are drawn hollow at the top. The cube root spreads small drops, where
 * most schemes are.
 */
const dropTicks = [-5, -1, 0, 0.1, 1, 5, 10, 25];

const toAxis = (drop: number): number => Math.cbrt(drop);
const log = (ratio: number): number => Math.log2(ratio);

export function schemesChart(title: string, panels: readonly SchemePanel[]): string {
  const rows = Math.ceil(panels.length / columns);
  const width = panel.left + columns * panel.width + (columns - 1) * panel.columnGap + 40;
  const height = panel.top + rows * (panel.height + panel.rowGap) + 6;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" role="img">`,
    `<title>${escape(title)}</title>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<text x="${panel.left}" y="24" font-size="15">${escape(title)}</text>`,
    ...panels.flatMap((each, index) =>
      drawPanel(
        each,
        panel.left + (index % columns) * (panel.width + panel.columnGap),
        panel.top + Math.floor(index / columns) * (panel.height + panel.rowGap),
      ),
    ),
    ...drawLegend(panels[0]?.series ?? [], height - 24),
    "</svg>",
  ];
  return `${parts.join("\n")}\n`;
}

function drawPanel(
  { title, drops, series, losslessRatio }: SchemePanel,
  left: number,
  top: number,
): string[] {
  const span = (values: readonly number[], of: (value: number) => number): readonly [number, number] => [
    of(values[0]!),
    of(values.at(-1)!),
  ];
  const [x0, x1] = span(ratioTicks, log);
  const [y0, y1] = span(dropTicks, toAxis);
  const within = (value: number): number => Math.max(0, Math.min(1, value));
  const x = (ratio: number): number => round(left + panel.width * within((log(ratio) - x0) / (x1 - x0)));
  const y = (drop: number): number =>
    round(top + panel.height * (1 - within((toAxis(drop) - y0) / (y1 - y0))));
  const highest = dropTicks.at(-1)!;
  const yOf = ({ drop }: SchemePoint): number => y(drop ?? highest);
  return [
    `<text x="${left}" y="${top - 12}" font-weight="bold">${escape(title)}</text>`,
    ...dropTicks.map(
      (tick) =>
        `<path d="M${left} ${y(tick)}h${panel.width}" stroke="${tick === 0 ? "#888" : "#ddd"}"/><text x="${left - 6}" y="${y(tick) + 4}" text-anchor="end">${tick}</text>`,
    ),
    ...ratioTicks.map(
      (tick) =>
        `<path d="M${x(tick)} ${top}v${panel.height}" stroke="#eee"/><text x="${x(tick)}" y="${top + panel.height + 18}" text-anchor="middle">${tick}×</text>`,
    ),
    `<path d="M${x(losslessRatio)} ${top}v${panel.height}" stroke="#888" stroke-dasharray="4 3"/><text x="${x(losslessRatio) + 4}" y="${top + 14}" fill="#555">lossless</text>`,
    `<text x="${left + panel.width / 2}" y="${top + panel.height + 38}" text-anchor="middle">raw bytes over stored bytes</text>`,
    `<text transform="translate(${left - 42} ${top + panel.height / 2}) rotate(-90)" text-anchor="middle">${escape(drops)}</text>`,
    ...series.flatMap(({ points }, index) => [
      ...(points.length < 2
        ? []
        : [
            `<path d="${points.map((point, i) => `${i === 0 ? "M" : "L"}${x(point.ratio)} ${yOf(point)}`).join("")}" fill="none" stroke="${colourOf(index)}" stroke-width="1.5"/>`,
          ]),
      ...points.map(
        (point) =>
          `<circle cx="${x(point.ratio)}" cy="${yOf(point)}" r="3.5" stroke="${colourOf(index)}" stroke-width="1.5" fill="${point.drop === null || point.drop > highest ? "#fff" : colourOf(index)}"/><text x="${x(point.ratio) + 5}" y="${yOf(point) - 5}" font-size="9" fill="${colourOf(index)}">${escape(point.label)}</text>`,
      ),
    ]),
  ];
}

function drawLegend(series: readonly SchemeSeries[], y: number): string[] {
  return [
    ...series.map(
      ({ name }, index) =>
        `<circle cx="${panel.left + 6 + index * 150}" cy="${y}" r="5" fill="${colourOf(index)}"/><text x="${panel.left + 16 + index * 150}" y="${y + 4}">${escape(name)}</text>`,
    ),
    `<text x="${panel.left}" y="${y + 20}" fill="#555">Numbers at the points: bits. Hollow, at the top: a larger drop. Below 0: better than the exact model.</text>`,
  ];
}
