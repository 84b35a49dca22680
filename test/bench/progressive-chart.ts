/**
 * Draws the progressive benchmark's results as ModelHub's figure 6(d): inputs that need lower-order bytes
 * over the share of bytes read, one panel per model, as an SVG. Pure.
 */
import { escape, round } from "./svg.js";

export interface ShareSeries {
  readonly name: string;
  readonly isDashed: boolean;
  /** In per cent: bytes read, and inputs whose answer is still open then. */
  readonly points: readonly { readonly data: number; readonly open: number }[];
}
export interface SharePanel {
  readonly title: string;
  readonly series: readonly ShareSeries[];
}

/** Distinguishable to the colour-blind too (Okabe and Ito). */
const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"] as const;
const panel = { width: 300, height: 220, left: 60, top: 70, gap: 50 };

export function shareChart(title: string, panels: readonly SharePanel[]): string {
  const width = panel.left + panels.length * (panel.width + panel.gap);
  const height = panel.top + panel.height + 90;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" role="img">`,
    `<title>${escape(title)}</title>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<text x="${panel.left}" y="24" font-size="15">${escape(title)}</text>`,
    ...panels.flatMap((each, index) => drawPanel(each, panel.left + index * (panel.width + panel.gap))),
    ...drawLegend(panels[0]?.series ?? [], height - 24),
    "</svg>",
    "",
  ].join("\n");
}

function drawPanel({ title, series }: SharePanel, left: number): string[] {
  const x = (data: number): number => round(left + (panel.width * data) / 100);
  const y = (open: number): number => round(panel.top + panel.height * (1 - open / 100));
  const bottom = panel.top + panel.height;
  return [
    `<text x="${left}" y="${panel.top - 14}">${escape(title)}</text>`,
    ...[0, 25, 50, 75, 100].flatMap((value) => [
      `<path d="M${left} ${y(value)}h${panel.width}" stroke="#ddd"/>`,
      `<text x="${left - 6}" y="${y(value) + 4}" text-anchor="end">${value} %</text>`,
      `<text x="${x(value)}" y="${bottom + 18}" text-anchor="middle">${value} %</text>`,
    ]),
    `<text x="${left + panel.width / 2}" y="${bottom + 38}" text-anchor="middle">bytes read, of the weights' raw size</text>`,
    ...series.flatMap(({ points, isDashed }, index) => [
      `<path d="${[{ data: 0, open: 100 }, ...points].map(({ data, open }, i) => `${i === 0 ? "M" : "L"}${x(data)} ${y(open)}`).join("")}" fill="none" stroke="${colourOf(index)}" stroke-width="2"${isDashed ? ` stroke-dasharray="5 4"` : ""}/>`,
      ...points.map(
        ({ data, open }) => `<circle cx="${x(data)}" cy="${y(open)}" r="3.5" fill="${colourOf(index)}"/>`,
      ),
    ]),
  ];
}

function drawLegend(series: readonly ShareSeries[], y: number): string[] {
  return series.map(({ name, isDashed }, index) => {
    const from = panel.left + index * 200;
    return `<path d="M${from} ${y - 4}h24" stroke="${colourOf(index)}" stroke-width="2"${isDashed ? ` stroke-dasharray="5 4"` : ""}/><text x="${from + 30}" y="${y}">${escape(name)}</text>`;
  });
}

function colourOf(index: number): string {
  return colours[index % colours.length]!;
}
