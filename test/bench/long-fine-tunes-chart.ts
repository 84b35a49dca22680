/** Draws what low-rank predictions save of longer fine-tunes, over steps and over rank, as an SVG. Pure. */
import { escape, markerOf, round } from "./svg.js";

export interface SavingRow {
  readonly network: string;
  readonly optimizer: string;
  readonly steps: number;
  readonly without: number;
  /** Bits per parameter with factors up to each rank, the highest last. */
  readonly byMaxRank: readonly { readonly maxRank: number; readonly bits: number }[];
}

/** Distinguishable to the colour-blind too (Okabe and Ito). */
const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"] as const;
const panel = { width: 360, height: 240, left: 70, top: 70, gap: 70 };

interface Point {
  readonly x: number;
  /** In per cent. */
  readonly saved: number;
}
interface Series {
  readonly name: string;
  readonly points: readonly Point[];
}
interface Panel {
  readonly title: string;
  readonly axis: string;
  readonly ticks: readonly number[];
  readonly series: readonly Series[];
}

const saved = (without: number, bits: number): number => 100 * (1 - bits / without);
const nameOf = ({ network, optimizer }: SavingRow): string =>
  `${network}, ${optimizer === "sgd" ? "SGD" : "Adam"}`;

/** @param rows of each network and optimiser in order of their steps */
export function savingChart(rows: readonly SavingRow[]): string {
  const names = [...new Set(rows.map(nameOf))];
  const of = (name: string): readonly SavingRow[] => rows.filter((row) => nameOf(row) === name);
  const panels: readonly Panel[] = [
    {
      title: "all ranks allowed",
      axis: "steps",
      ticks: [...new Set(rows.map(({ steps }) => 10 ** Math.floor(Math.log10(steps))))].flatMap((power) => [
        power,
        2 * power,
        5 * power,
      ]),
      series: names.map((name) => ({
        name,
        points: of(name).map(({ steps, without, byMaxRank }) => ({
          x: steps,
          saved: saved(without, byMaxRank.at(-1)!.bits),
        })),
      })),
    },
    {
      title: "at the most steps",
      axis: "highest rank allowed",
      ticks: rows[0]?.byMaxRank.map(({ maxRank }) => maxRank) ?? [],
      series: names.map((name) => {
        const { without, byMaxRank } = of(name).at(-1)!;
        return {
          name,
          points: byMaxRank.map(({ maxRank, bits }) => ({ x: maxRank, saved: saved(without, bits) })),
        };
      }),
    },
  ];
  const width = panel.left + panels.length * (panel.width + panel.gap);
  const height = panel.top + panel.height + 96;
  const title = "Bytes of longer fine-tunes that low-rank predictions save";
  const highest =
    5 *
    Math.ceil(
      Math.max(
        1,
        ...panels.flatMap(({ series }) => series.flatMap(({ points }) => points.map((point) => point.saved))),
      ) / 5,
    );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" role="img">`,
    `<title>${escape(title)}</title>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<text x="${panel.left}" y="24" font-size="15">${escape(title)}</text>`,
    ...panels.flatMap((each, index) =>
      drawPanel(each, panel.left + index * (panel.width + panel.gap), highest),
    ),
    ...names.map((name, index) => {
      const x = panel.left + index * 180;
      return `<path d="${markerOf(index, x + 8, height - 24)}" fill="${colourOf(index)}"/><text x="${x + 20}" y="${height - 20}">${escape(name)}</text>`;
    }),
    "</svg>",
    "",
  ].join("\n");
}

function drawPanel({ title, axis, ticks, series }: Panel, left: number, highest: number): string[] {
  const all = series.flatMap(({ points }) => points.map(({ x }) => x));
  const [low, high] = [Math.log2(Math.min(...all)), Math.log2(Math.max(...all))];
  const x = (value: number): number =>
    round(left + (panel.width * (Math.log2(value) - low)) / Math.max(high - low, 1e-9));
  const y = (percent: number): number => round(panel.top + panel.height * (1 - percent / highest));
  const bottom = panel.top + panel.height;
  const shown = ticks.filter((tick) => Math.log2(tick) >= low - 0.01 && Math.log2(tick) <= high + 0.01);
  return [
    `<text x="${left}" y="${panel.top - 14}">${escape(title)}</text>`,
    ...Array.from({ length: highest / 5 + 1 }, (_, i) => 5 * i).map(
      (percent) =>
        `<path d="M${left} ${y(percent)}h${panel.width}" stroke="${percent === 0 ? "#888" : "#ddd"}"/><text x="${left - 6}" y="${y(percent) + 4}" text-anchor="end">${percent} %</text>`,
    ),
    ...shown.map((tick) => `<text x="${x(tick)}" y="${bottom + 18}" text-anchor="middle">${tick}</text>`),
    `<text x="${left + panel.width / 2}" y="${bottom + 38}" text-anchor="middle">${escape(axis)}</text>`,
    ...series.flatMap(({ points }, index) => [
      `<path d="${points.map((point, i) => `${i === 0 ? "M" : "L"}${x(point.x)} ${y(point.saved)}`).join("")}" fill="none" stroke="${colourOf(index)}" stroke-width="2"/>`,
      ...points.map(
        (point) => `<path d="${markerOf(index, x(point.x), y(point.saved))}" fill="${colourOf(index)}"/>`,
      ),
    ]),
  ];
}

function colourOf(index: number): string {
  return colours[index % colours.length]!;
}
