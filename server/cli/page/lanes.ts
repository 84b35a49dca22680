/**
 * Lanes beside the rows of a table, which lead from a row to others below it: from a version to what it was trained
 * from, from a layer to those that read it. Lanes that lead to the same row join at once, so that a row with hundreds
 * of others above needs two lanes. Pure.
 */
import { html, type Markup } from "./markup.js";

/** Further lanes share the last one that is drawn. */
export const maxLanes = 10;
export const hues = 8;

interface Segment {
  readonly from: number;
  readonly to: number;
  /** Numbers the lanes from 0; for colours. */
  readonly path: number;
}

export interface LaneRow {
  readonly lane: number;
  readonly path: number;
  /** The lines that come from the row above. */
  readonly above: readonly Segment[];
  /** The lines to the row below. */
  readonly below: readonly Segment[];
}

/** @param leadsTo for each row the numbers of the rows below it that it leads to */
export function layLanes(leadsTo: readonly (readonly number[])[]): readonly LaneRow[] {
  const rows: LaneRow[] = [];
  /** The rows that the lanes lead to, and the number of each lane. */
  let [targets, paths]: [number[], number[]] = [[], []];
  let count = 0;
  let above: readonly Segment[] = [];
  leadsTo.forEach((leads, row) => {
    const waiting = targets.indexOf(row);
    const lane = waiting < 0 ? targets.length : waiting;
    const path = paths[waiting] ?? count++;
    const own = [...new Set(leads)].map((target, at) => ({ target, path: at === 0 ? path : count++ }));
    const joined = own.map(({ target }) => targets.indexOf(target)).filter((at) => at >= 0);
    const opened = own.filter(({ target }) => !targets.slice(0, lane).includes(target));
    const insert = (values: readonly number[], inserted: readonly number[]): number[] => [
      ...values.slice(0, lane),
      ...inserted,
      ...values.filter((_, at) => at > lane && !joined.includes(at)),
    ];
    const next = insert(
      targets,
      opened.map(({ target }) => target),
    );
    const others = new Set([...targets.keys()].slice(0, maxLanes + 2).concat(joined));
    others.delete(lane);
    const below = visible([
      ...own.map(({ target, path: of }) => ({ from: lane, to: next.indexOf(target), path: of })),
      ...[...others].map((from) => ({
        from,
        to: next.indexOf(targets[from] as number),
        path: paths[from] as number,
      })),
    ]);
    rows.push({ lane: Math.min(lane, maxLanes - 1), path, above, below });
    paths = insert(
      paths,
      opened.map(({ path: of }) => of),
    );
    targets = next;
    above = below;
  });
  return rows;
}

/** Lines between the same lanes are one line, and those to the right of the last lane that is drawn are in it. */
function visible(segments: readonly Segment[]): readonly Segment[] {
  const last = maxLanes - 1;
  const found = new Map<number, Segment>();
  for (const { from, to, path } of segments) {
    const cut = { from: Math.min(from, last), to: Math.min(to, last), path };
    const key = cut.from * maxLanes + cut.to;
    if (!found.has(key)) found.set(key, cut);
  }
  return [...found.values()];
}

/** The lanes that the widest row of a table needs. */
export function lanesOf(rows: readonly LaneRow[]): number {
  return rows.reduce(
    (most, { lane, below }) => Math.max(most, lane + 1, ...below.map(({ to }) => to + 1)),
    1,
  );
}

const lanePx = 14;
const x = (lane: number): number => 9 + lane * lanePx;
export const widthOfLanes = (lanes: number): number => x(lanes - 1) + 13;

export interface Dot {
  readonly hue: number | undefined;
  readonly isHollow: boolean;
}

/** Draws a row's lanes as high as the row turns out to be: all heights are shares of it. */
export function drawLanes(row: LaneRow, lanes: number, dot: Dot | undefined): Markup {
  const { lane, path, above, below } = row;
  const straight = below.filter(
    ({ from, to, path: of }) =>
      from === to && above.some((other) => other.path === of && other.from === to && other.to === to),
  );
  const whole = new Set(straight.map(({ path: of }) => of));
  const line = (of: number, [x1, y1, x2, y2]: readonly [number, string, number, string]): Markup =>
    html`<line class="${hueClass(of)}" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" />`;
  const middle = ({ from, to }: Segment): number => (x(from) + x(to)) / 2;
  const { hue, isHollow } = dot ?? { hue: path, isHollow: false };
  return html`<svg class="lanes" width="${widthOfLanes(lanes)}" aria-hidden="true" focusable="false">
    ${[
      ...straight.map(({ from, path: of }) => line(of, [x(from), "0", x(from), "100%"])),
      ...above.flatMap((each) =>
        whole.has(each.path) ? [] : [line(each.path, [middle(each), "0", x(each.to), "50%"])],
      ),
      ...below.flatMap((each) =>
        whole.has(each.path) ? [] : [line(each.path, [x(each.from), "50%", middle(each), "100%"])],
      ),
    ]}
    <circle
      class="${hue === undefined ? "hue-none" : hueClass(hue)}${isHollow ? " hollow" : ""}"
      cx="${x(lane)}"
      cy="50%"
      r="5"
    />
  </svg>`;
}

export function hueClass(number: number): string {
  return `hue-${number % hues}`;
}
