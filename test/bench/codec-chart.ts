/** Draws a bar chart of bits per parameter, by pair of models and by method, as an SVG. Pure. */
import { colourOf, escape, round } from "./svg.js";

export interface BarGroup {
  readonly name: string;
  /** One per series; undefined: not measured, which is written in its place. */
  readonly values: readonly (number | undefined)[];
}

const plot = { left: 50, top: 56, height: 260, bar: 22, gap: 34 };
const maxBits = 32;
const step = 8;

export function barChart(title: string, series: readonly string[], groups: readonly BarGroup[]): string {
  const groupWidth = series.length * plot.bar + plot.gap;
  const plotWidth = groups.length * groupWidth;
  const width = plot.left + plotWidth + 30;
  const height = plot.top + plot.height + 80;
  const y = (value: number): number => round(plot.top + plot.height * (1 - value / maxBits));
  const ticks = Array.from({ length: maxBits / step + 1 }, (_, i) => i * step);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" role="img">`,
    `<title>${escape(title)}</title>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<text x="${plot.left}" y="24" font-size="15">${escape(title)}</text>`,
    ...ticks.map(
      (tick) =>
        `<path d="M${plot.left} ${y(tick)}h${plotWidth}" stroke="${tick === 0 ? "#888" : "#ddd"}"/><text x="${plot.left - 6}" y="${y(tick) + 4}" text-anchor="end">${tick}</text>`,
    ),
    ...groups.flatMap(({ name, values }, g) => {
      const left = plot.left + g * groupWidth + plot.gap / 2;
      return [
        ...values.flatMap((value, s) =>
          value === undefined
            ? [
                `<text transform="translate(${left + s * plot.bar + plot.bar / 2 + 2} ${y(0) - 6}) rotate(-90)" font-size="10" fill="#555">${escape(series[s]!)}: not measured</text>`,
              ]
            : [
                `<rect x="${left + s * plot.bar}" y="${y(value)}" width="${plot.bar - 2}" height="${round(y(0) - y(value))}" fill="${colourOf(s)}"/>`,
                `<text x="${left + s * plot.bar + plot.bar / 2 - 1}" y="${y(value) - 4}" font-size="9" text-anchor="middle">${value.toFixed(1)}</text>`,
              ],
        ),
        `<text x="${left + (groupWidth - plot.gap) / 2}" y="${y(0) + 18}" text-anchor="middle">${escape(name)}</text>`,
      ];
    }),
    ...series.map((name, s) => {
      const x = round(plot.left + (s * plotWidth) / series.length);
      return `<rect x="${x}" y="${height - 34}" width="10" height="10" fill="${colourOf(s)}"/><text x="${x + 16}" y="${height - 25}">${escape(name)}</text>`;
    }),
    "</svg>",
  ];
  return `${parts.join("\n")}\n`;
}
