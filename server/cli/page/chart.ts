/** Curves of figures over iterations as a picture whose texts stay readable at any width. Pure. */
import { figure } from "../repository/metric-course.js";
import { hueClass } from "./lanes.js";
import { html, type Markup } from "./markup.js";

export interface CurvePoint {
  readonly iteration: number;
  /** The figure; null: it was not finite. */
  readonly value: number | null;
}

export interface Curve {
  readonly name: string;
  readonly hue: number;
  /** The points in the order of their iterations. */
  readonly points: readonly CurvePoint[];
}

/** Longer curves are drawn by the extremes of so many pieces. */
const maxPieces = 300;
/** The side of the square that the lines are drawn in, before the browser stretches it. */
const side = 1000;
/** Positive values that are further apart are drawn on a logarithmic scale. */
const linearRatio = 100;

interface Axis {
  /** Values at equal distances, from the lowest. */
  readonly ticks: readonly number[];
  readonly isLogarithmic: boolean;
}

export function chart(title: string, curves: readonly Curve[]): Markup {
  const finite = curves.flatMap(({ points }) =>
    points.flatMap(({ value }) => (value === null ? [] : [value])),
  );
  if (finite.length === 0)
    return html`<figure class="chart">
      <figcaption>${title}</figcaption>
      <p>No value of it was finite.</p>
    </figure>`;
  const y = axisOf(finite, true);
  const x = axisOf(
    curves.flatMap(({ points }) => points.map(({ iteration }) => iteration)),
    false,
  );
  const lines = curves.map(({ hue, points }, at) => {
    const { line, dots } = pathsOf(
      fewer(points),
      (value) => shareOf(x, value),
      (value) => 1 - shareOf(y, value),
    );
    return [
      html`<path class="${hueClass(hue)} dash-${at % 4}" d="${line}" />`,
      html`<path class="${hueClass(hue)} dots" d="${dots}" />`,
    ];
  });
  return html`<figure class="chart">
    <figcaption>${title}${y.isLogarithmic ? html` <small>logarithmic scale</small>` : undefined}</figcaption>
    <div class="plot">
      <div class="y-axis" aria-hidden="true">${[...y.ticks].reverse().map(tick)}</div>
      <svg
        role="img"
        aria-label="${descriptionOf(title, curves)}"
        viewBox="0 0 ${side} ${side}"
        preserveAspectRatio="none"
      >
        ${[
          ...gridOf(y.ticks.length).map((at) => html`<path class="grid" d="M0 ${at}H${side}" />`),
          ...gridOf(x.ticks.length).map((at) => html`<path class="grid" d="M${at} 0V${side}" />`),
          lines,
        ]}
      </svg>
      <div class="x-axis" aria-hidden="true">${x.ticks.map(tick)}</div>
    </div>
    <ul class="legend">
      ${curves.map(
        (curve, at) =>
          html`<li>
            <svg class="swatch" width="28" height="10" aria-hidden="true">
              <path class="${hueClass(curve.hue)} dash-${at % 4}" d="M1 5H27" />
            </svg>
            ${courseOf(curve)}
          </li>`,
      )}
    </ul>
  </figure>`;
}

const tick = (value: number): Markup => html`<span>${tickText(value)}</span>`;

function tickText(value: number): string {
  const size = Math.abs(value);
  if (value === 0 || (size >= 0.001 && size < 1e5)) return String(Number(value.toPrecision(4)));
  return Number(value.toPrecision(3)).toExponential().replace("e+", "e");
}

const gridOf = (ticks: number): readonly number[] =>
  Array.from({ length: ticks }, (_, at) => Math.round((side * at) / Math.max(1, ticks - 1)));

function axisOf(values: readonly number[], mayBeLogarithmic: boolean): Axis {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (mayBeLogarithmic && low > 0 && high / low > linearRatio) return decades(low, high);
  if (low === high) {
    const room = low === 0 ? 1 : Math.abs(low) / 2;
    [low, high] = [low - room, high + room];
  }
  const step = niceStep((high - low) / 5);
  const first = Math.floor(low / step);
  const count = Math.ceil(high / step) - first;
  // Values near the greatest number have no steps of this kind.
  if (!Number.isFinite(step) || step === 0 || !(count >= 1 && count <= 8))
    return { ticks: [low, high], isLogarithmic: false };
  const ticks = Array.from({ length: count + 1 }, (_, at) => (first + at) * step);
  return { ticks, isLogarithmic: false };
}

function decades(low: number, high: number): Axis {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const step = Math.max(1, Math.ceil((last - first) / 6));
  const count = Math.ceil((last - first) / step);
  return {
    ticks: Array.from({ length: count + 1 }, (_, at) => 10 ** (first + at * step)),
    isLogarithmic: true,
  };
}

/** 1, 2 or 5 times a power of ten, not below this. */
function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5].find((factor) => factor * power >= least) ?? 10) * power;
}

/** The place of a value between the first tick, 0, and the last, 1. */
function shareOf({ ticks, isLogarithmic }: Axis, value: number): number {
  const place = isLogarithmic ? Math.log10 : (each: number): number => each / 2;
  const [low, high] = [place(ticks[0] as number), place(ticks.at(-1) as number)];
  return (place(value) - low) / (high - low);
}

/** Least and greatest of each piece, in their order; gaps stay where a piece has nothing else. */
function fewer(points: readonly CurvePoint[]): readonly CurvePoint[] {
  if (points.length <= 2 * maxPieces) return points;
  return Array.from({ length: maxPieces }, (_, piece) => {
    const [from, to] = [piece, piece + 1].map((at) => Math.floor((at * points.length) / maxPieces));
    const part = points.slice(from, to);
    const values = part.filter(({ value }) => value !== null);
    if (values.length === 0) return part.slice(0, 1);
    const byValue = [...values].sort((a, b) => (a.value as number) - (b.value as number));
    const extremes = new Set([byValue[0], byValue.at(-1)]);
    return values.filter((point) => extremes.has(point));
  }).flat();
}

/** A line through what is finite, and dots for points that have no neighbour. */
function pathsOf(
  points: readonly CurvePoint[],
  xOf: (value: number) => number,
  yOf: (value: number) => number,
): { readonly line: string; readonly dots: string } {
  let [line, dots] = ["", ""];
  points.forEach(({ iteration, value }, at) => {
    if (value === null) return;
    const place = `${Math.round(xOf(iteration) * side)} ${Math.round(yOf(value) * side)}`;
    const [hasBefore, hasAfter] = [at - 1, at + 1].map((other) => (points[other]?.value ?? null) !== null);
    if (hasBefore === true || hasAfter === true) line += `${hasBefore === true ? "L" : "M"}${place}`;
    else dots += `M${place}h0`;
  });
  return { line, dots };
}

function courseOf({ name, points }: Curve): Markup {
  const last = points.at(-1);
  const lost = points.filter(({ value }) => value === null).length;
  return html`<strong>${name}</strong>
    ${last === undefined ? "" : `${figure(last.value)} at ${last.iteration}`}${
      lost === 0 ? "" : `, ${lost} of ${points.length} not finite`
    }`;
}

function descriptionOf(title: string, curves: readonly Curve[]): string {
  const texts = curves.map(({ name, points }) => {
    const [first, last] = [points[0], points.at(-1)];
    if (first === undefined || last === undefined) return name;
    return `${name} from ${figure(first.value)} at ${first.iteration} to ${figure(last.value)} at ${last.iteration}`;
  });
  return `${title} over iterations: ${texts.join("; ")}`;
}
