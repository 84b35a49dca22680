/**
 * Draws the schemes benchmark's results as the paper's figure 6(a): compression ratio against accuracy drop by
 * float scheme, one panel per model and one of the means of models with the same measure, as an SVG. Pure.
 */
import { placeLabels } from "./chart-labels.js";
import { colourOf, escape, markerOf, round } from "./svg.js";

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
  /** What the vertical axis shows, with its unit; the same for all points of the panel. */
  readonly drops: string;
  readonly series: readonly SchemeSeries[];
  /** Raw bytes over those of the lossless encoding. */
  readonly losslessRatio: number;
}

const panel = { width: 960, height: 300, left: 60, top: 70, rowGap: 84 };
/** Compression ratios at the ends, on a logarithmic axis. */
const ratioTicks = [1, 2, 4, 8, 16, 32, 64];
/**
 * Drops on the vertical axis. Larger ones are drawn hollow at the top. The cube root spreads small drops, where
 * most schemes are.
 */
const dropTicks = [-5, -1, -0.1, 0, 0.1, 1, 5, 10, 25];
const fontSize = 10;

const toAxis = (drop: number): number => Math.cbrt(drop);
const log = (ratio: number): number => Math.log2(ratio);

export function schemesChart(title: string, panels: readonly SchemePanel[]): string {
  const width = panel.left + panel.width + 40;
  const height = panel.top + panels.length * (panel.height + panel.rowGap) + 20;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" role="img">`,
    `<title>${escape(title)}</title>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<text x="${panel.left}" y="24" font-size="15">${escape(title)}</text>`,
    ...panels.flatMap((each, index) =>
      drawPanel(each, panel.left, panel.top + index * (panel.height + panel.rowGap)),
    ),
    ...drawLegend(panels[0]?.series ?? [], height - 36),
    "</svg>",
  ];
  return `${parts.join("\n")}\n`;
}

interface Scale {
  readonly x: (ratio: number) => number;
  readonly y: (drop: number) => number;
}

function scaleAt(left: number, top: number): Scale {
  const [x0, x1] = [log(ratioTicks[0]!), log(ratioTicks.at(-1)!)];
  const [y0, y1] = [toAxis(dropTicks[0]!), toAxis(dropTicks.at(-1)!)];
  const within = (value: number): number => Math.max(0, Math.min(1, value));
  return {
    x: (ratio) => round(left + panel.width * within((log(ratio) - x0) / (x1 - x0))),
    y: (drop) => round(top + panel.height * (1 - within((toAxis(drop) - y0) / (y1 - y0)))),
  };
}

function drawPanel(
  { title, drops, series, losslessRatio }: SchemePanel,
  left: number,
  top: number,
): string[] {
  const scale = scaleAt(left, top);
  const { x, y } = scale;
  return [
    `<text x="${left}" y="${top - 16}" font-weight="bold">${escape(title)}</text>`,
    ...dropTicks.map(
      (tick) =>
        `<path d="M${left} ${y(tick)}h${panel.width}" stroke="${tick === 0 ? "#888" : "#ddd"}"/><text x="${left - 6}" y="${y(tick) + 4}" text-anchor="end">${tick}</text>`,
    ),
    ...ratioTicks.map(
      (tick) =>
        `<path d="M${x(tick)} ${top}v${panel.height}" stroke="#eee"/><text x="${x(tick)}" y="${top + panel.height + 18}" text-anchor="middle">${tick}×</text>`,
    ),
    `<path d="M${x(losslessRatio)} ${top}v${panel.height}" stroke="#888" stroke-dasharray="4 3"/><text x="${x(losslessRatio) + 4}" y="${top + 14}" fill="#555">lossless</text>`,
    `<text x="${left + panel.width / 2}" y="${top + panel.height + 36}" text-anchor="middle">raw bytes over stored bytes</text>`,
    `<text transform="translate(${left - 42} ${top + panel.height / 2}) rotate(-90)" text-anchor="middle">${escape(drops)}</text>`,
    ...drawSeries(series, scale),
  ];
}

/** Lines first, then markers, then the numbers of bits, each where it covers nothing. */
function drawSeries(series: readonly SchemeSeries[], { x, y }: Scale): string[] {
  const highest = dropTicks.at(-1)!;
  const drawn = series.flatMap(({ points }, index) =>
    points.map(({ label, ratio, drop }) => ({
      index,
      label,
      x: x(ratio),
      y: y(drop ?? highest),
      isCut: drop === null || drop > highest,
    })),
  );
  const lines = series.flatMap((_, index) => {
    const points = drawn.filter((point) => point.index === index);
    const path = points.map((point, i) => `${i === 0 ? "M" : "L"}${point.x} ${point.y}`).join("");
    return points.length < 2
      ? []
      : [`<path d="${path}" fill="none" stroke="${colourOf(index)}" stroke-width="1.2" opacity="0.6"/>`];
  });
  const markers = drawn.map(
    (point) =>
      `<path d="${markerOf(point.index, point.x, point.y)}" stroke="${colourOf(point.index)}" stroke-width="1.5" fill="${point.isCut ? "#fff" : colourOf(point.index)}"/>`,
  );
  const labels = placeLabels(drawn, fontSize).map(({ at, x: left, y: baseline, isMoved }) => {
    const { index, label, x: pointX, y: pointY } = drawn[at]!;
    const leader = isMoved
      ? `<path d="M${pointX} ${pointY}L${round(left + 3)} ${round(baseline - 3)}" stroke="${colourOf(index)}" stroke-width="0.5"/>`
      : "";
    return `${leader}<text x="${round(left)}" y="${round(baseline)}" font-size="${fontSize}" fill="${colourOf(index)}">${escape(label)}</text>`;
  });
  return [...lines, ...markers, ...labels];
}

function drawLegend(series: readonly SchemeSeries[], y: number): string[] {
  return [
    ...series.map(
      ({ name }, index) =>
        `<path d="${markerOf(index, panel.left + 6 + index * 150, y)}" fill="${colourOf(index)}"/><text x="${panel.left + 16 + index * 150}" y="${y + 4}">${escape(name)}</text>`,
    ),
    `<text x="${panel.left}" y="${y + 24}" fill="#555">Numbers at the points: bits. Hollow, at the top: a larger drop. Below 0: better than the exact model.</text>`,
  ];
}
