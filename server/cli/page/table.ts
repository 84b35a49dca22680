/**
 * Tables of a page. Where there is room, a row is a line of columns; else it is a card, whose cells bring the titles of
 * their columns. Rows are in groups that a browser lays out when they come into view, so that 10,000 stay quick.
 * Pure.
 */
import { drawLanes, lanesOf, layLanes, widthOfLanes, type Dot } from "./lanes.js";
import { html, type Markup, type Part } from "./markup.js";

const rowsOfAGroup = 50;
/** The usual height of a row as a line, and as a card. */
const linePx = 36;
const cardPx = 110;

export interface PageColumn<Row> {
  readonly title: string;
  readonly value: (row: Row) => Part;
  /** The least width in rem, where rows are lines. */
  readonly rem: number;
  /** The share of the width that is left over; absent: none. */
  readonly share?: number;
  readonly align?: "right";
}

export interface PageTable<Row> {
  /** The id of its element, unique in the page. */
  readonly id: string;
  readonly caption: string;
  /** The first column names the row. */
  readonly columns: readonly PageColumn<Row>[];
  readonly rows: readonly Row[];
  readonly idOf?: (row: Row) => string;
  readonly isMarked?: (row: Row) => boolean;
  /** Lanes to the left of the rows, by the numbers of the rows that each leads to. */
  readonly lanes?: {
    readonly leadsTo: readonly (readonly number[])[];
    readonly dotOf?: (row: Row) => Dot;
    /** True if the lines have the colours of their lanes. */
    readonly isColoured: boolean;
  };
  /** True if the reader may filter its rows. */
  readonly hasFilter?: boolean;
}

/** A piece of a page, with the rules of style that only it needs. */
export interface Piece {
  readonly markup: Markup;
  readonly style: string;
}

export function table<Row>(declaration: PageTable<Row>): Piece {
  const { id, caption, columns, rows, lanes, hasFilter } = declaration;
  const laneRows = lanes && layLanes(lanes.leadsTo);
  const laneCount = laneRows === undefined ? 0 : lanesOf(laneRows);
  const groups = Array.from({ length: Math.ceil(rows.length / rowsOfAGroup) }, (_, group) =>
    rows.slice(group * rowsOfAGroup, (group + 1) * rowsOfAGroup).map((row, at) => {
      const lane = laneRows?.[group * rowsOfAGroup + at];
      return rowOf(declaration, row, lane && drawLanes(lane, laneCount, lanes?.dotOf?.(row)));
    }),
  );
  const markup = html`${
      hasFilter === true
        ? html`<p class="filter" hidden>
            <label>Filter <input type="search" data-filters="${id}" /></label> <output role="status"></output>
          </p>`
        : undefined
    }
    <table id="${id}" role="table" ${lanes?.isColoured === false ? html` class="plain-lanes"` : undefined}>
      <caption>
        ${caption}
      </caption>
      <thead role="rowgroup">
        <tr role="row">
          ${columns.map(
            ({ title, align }) => html`<th role="columnheader" scope="col" ${alignment(align)}>${title}</th>`,
          )}
        </tr>
      </thead>
      ${groups.map(
        (group) =>
          html`<tbody role="rowgroup">
            ${group}
          </tbody> `,
      )}
    </table>`;
  return { markup, style: styleOf(declaration, laneCount) };
}

function rowOf<Row>({ columns, idOf, isMarked }: PageTable<Row>, row: Row, lane: Markup | undefined): Markup {
  const id = idOf?.(row);
  return html`<tr
    role="row"
    ${id === undefined ? undefined : html` id="${id}"`}${
      isMarked?.(row) === true ? html` class="marked"` : undefined
    }
  >
    ${columns.map(({ title, value, align }, at) =>
      at === 0
        ? html`<th role="rowheader" scope="row">${lane}${value(row) ?? "-"}</th>`
        : html`<td role="cell" ${alignment(align)} data-label="${title}">${value(row)}</td>`,
    )}
  </tr>`;
}

function alignment(align: "right" | undefined): Markup | undefined {
  return align === undefined ? undefined : html` class="right"`;
}

/** Rows become lines in windows that have room for all columns. */
function styleOf<Row>({ id, columns, rows }: PageTable<Row>, lanes: number): string {
  const gapRem = 1;
  const pageRem = 4;
  const needed = columns.reduce((sum, { rem }) => sum + rem + gapRem, pageRem) + widthOfLanes(lanes) / 16;
  const widths = columns.map(({ rem, share }) =>
    share === undefined ? `${rem}rem` : `minmax(${rem}rem,${share}fr)`,
  );
  const indent = lanes === 0 ? "" : `#${id} tr{padding-inline-start:${widthOfLanes(lanes) + 4}px}\n`;
  const last = rows.length % rowsOfAGroup || rowsOfAGroup;
  /** Browsers take these heights for groups that were not in view yet. */
  const heights = (rowPx: number): string =>
    rows.length <= rowsOfAGroup
      ? ""
      : `#${id} tbody{content-visibility:auto;contain-intrinsic-block-size:auto ${rowsOfAGroup * rowPx}px}
#${id} tbody:last-child{contain-intrinsic-block-size:auto ${last * rowPx}px}
`;
  return `${indent}${heights(cardPx)}@media (min-width:${Math.ceil(needed)}rem){
#${id} tr{display:grid;grid-template-columns:${widths.join(" ")};column-gap:${gapRem}rem;align-items:center}
#${id} tr:has(details[open]){align-items:start}
#${id} thead{position:sticky;inset-block-start:0;z-index:1;block-size:auto;inline-size:auto;clip-path:none}
#${id} td::before{display:none}
#${id} td:has(.bar){margin-block-end:-.375rem}
#${id} td:empty{display:block}
#${id} td:empty::after{content:"-"}
#${id} td.right,#${id} th.right{text-align:end}
#${id} th:has(details[open]){grid-column:1/-1}
${heights(linePx)}}
`;
}
