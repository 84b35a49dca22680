/** The lineage of versions as a picture: `stemma model log MODEL --svg > lineage.svg`. Pure. */
import { columnsOf } from "../../shared/cli/text-width.js";
import { printable } from "../../shared/printable.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { LineageVersion } from "../interface/api/models/lineage-definitions.js";
import { addedBytes, minuteOfSaving, nameOf, stateOf } from "./version-text.js";

const rowPx = 28;
const lanePx = 20;
const marginPx = 20;
/** Room to the left of the lanes for arcs between declared successors. */
const arcPx = 40;
/** The width of a column of the monospaced text at its size. */
const columnPx = 7.3;
const colours = ["#0b6bcb", "#b3261e", "#1e7d32", "#8a5a00", "#6a3fb5", "#00707a"];

interface Placed {
  readonly version: LineageVersion;
  readonly row: number;
  readonly lane: number;
}

interface Edge {
  readonly child: Hash;
  readonly base: Hash;
  /** The lane in which it runs from the child's row to the base's. */
  readonly lane: number;
}

/**
 * Gives each version a row and a lane, newest first. An edge keeps its lane until its base, so that it passes no
 * other version.
 */
function place(versions: readonly LineageVersion[]): {
  readonly placed: ReadonlyMap<Hash, Placed>;
  readonly edges: readonly Edge[];
  readonly lanes: number;
} {
  const placed = new Map<Hash, Placed>();
  const edges: Edge[] = [];
  const lanes: (Hash | undefined)[] = [];
  const toCome = new Set(versions.map(({ versionId }) => versionId));
  const freeLane = (): number => {
    const free = lanes.indexOf(undefined);
    return free < 0 ? lanes.length : free;
  };
  versions.forEach((version, row) => {
    const { versionId } = version;
    toCome.delete(versionId);
    const waiting = lanes.indexOf(versionId);
    const lane = waiting < 0 ? freeLane() : waiting;
    lanes.forEach((leadsTo, i) => {
      if (leadsTo === versionId) lanes[i] = undefined;
    });
    placed.set(versionId, { version, row, lane });
    const bases = [...new Set(version.bases)].filter((base) => toCome.has(base));
    bases.forEach((base, i) => {
      const own = i === 0 ? lane : freeLane();
      lanes[own] = base;
      edges.push({ child: versionId, base, lane: own });
    });
    if (bases.length === 0 && lane === lanes.length) lanes[lane] = undefined;
  });
  return { placed, edges, lanes: lanes.length };
}

/** Solid lines: trained from. Dashed arcs: declared to come after. Newest first. */
export function lineageSvg(versions: readonly LineageVersion[]): string {
  const { placed, edges, lanes } = place(versions);
  const arcs = versions.flatMap(({ versionId, after }) =>
    after.filter((id) => placed.has(id)).map((id) => [placed.get(versionId), placed.get(id)] as const),
  );
  const left = marginPx + (arcs.length > 0 ? arcPx : 0);
  const x = (lane: number): number => left + lane * lanePx;
  const y = (row: number): number => marginPx + row * rowPx;
  const textX = x(lanes) + 4;
  const rows = [...placed.values()].map(({ version, row, lane }) => ({
    version,
    row,
    lane,
    text: textOf(version),
  }));
  const columns = Math.max(0, ...rows.map(({ text }) => columnsOf(text)));
  const width = Math.ceil(textX + columns * columnPx + marginPx);
  const height = y(Math.max(0, versions.length - 1)) + marginPx;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">`,
    `<rect width="100%" height="100%" fill="#ffffff"/>`,
    `<g fill="none" stroke-width="2">`,
    ...edges.map((edge) => {
      const child = placed.get(edge.child) as Placed;
      const base = placed.get(edge.base) as Placed;
      return `<path stroke="${colourOf(edge.lane)}" d="${edgePath({ child, base, lane: edge.lane }, { x, y })}"/>`;
    }),
    ...arcs.map(([to, from]) => {
      const [y1, y2] = [y((from as Placed).row), y((to as Placed).row)];
      const [x1, x2] = [x((from as Placed).lane), x((to as Placed).lane)];
      return `<path stroke="#666666" stroke-dasharray="4 3" d="M${x1} ${y1}C${left - arcPx} ${y1} ${left - arcPx} ${y2} ${x2} ${y2}"/>`;
    }),
    `</g>`,
    ...rows.map(
      ({ version, row, lane }) =>
        `<circle cx="${x(lane)}" cy="${y(row)}" r="5" stroke="${colourOf(lane)}" stroke-width="2" ` +
        `fill="${version.state === "retired" ? "#ffffff" : colourOf(lane)}"/>`,
    ),
    `<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12" fill="#1a1a1a">`,
    ...rows.map(
      ({ version, row, text }) =>
        `<text x="${textX}" y="${y(row) + 4}"${version.state === "retired" ? ` fill="#666666"` : ""}>${escaped(text)}</text>`,
    ),
    `</g>`,
    `</svg>`,
    "",
  ].join("\n");
}

interface Scale {
  readonly x: (lane: number) => number;
  readonly y: (row: number) => number;
}

/** Draws the edge from the child over its lane to the base; a change of lane takes one row. */
function edgePath(
  { child, base, lane }: { readonly child: Placed; readonly base: Placed; readonly lane: number },
  { x, y }: Scale,
): string {
  const [x0, x1, x2] = [x(child.lane), x(lane), x(base.lane)];
  const [top, bottom] = [y(child.row), y(base.row)];
  const bend = (fromX: number, fromY: number, toX: number, toY: number): string => {
    const middle = (fromY + toY) / 2;
    return fromX === toX ? `L${toX} ${toY}` : `C${fromX} ${middle} ${toX} ${middle} ${toX} ${toY}`;
  };
  if (base.row === child.row + 1) return `M${x0} ${top}${bend(x0, top, x2, bottom)}`;
  return (
    `M${x0} ${top}${bend(x0, top, x1, top + rowPx)}` +
    `L${x1} ${bottom - rowPx}${bend(x1, bottom - rowPx, x2, bottom)}`
  );
}

function colourOf(lane: number): string {
  return colours[lane % colours.length] as string;
}

function textOf(version: LineageVersion): string {
  const { versionId } = version;
  return printable(
    `${nameOf(version)}  ${versionId.slice(0, 8)}  ${stateOf(version)}, ` +
      `${minuteOfSaving(version)}, +${addedBytes(version)}`,
  ).replaceAll("\n", " ");
}

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
