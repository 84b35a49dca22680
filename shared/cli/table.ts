/** Tables of rows as text, without frames: they survive `cut`, and fit a terminal where they are shown on one. */
import { printable } from "../printable.js";
import { columnsOf, wrapLine, wrapText } from "./text-width.js";

export type Cell = string | number | boolean | null | undefined;
export interface Column<Row> {
  readonly title: string;
  readonly value: (row: Row) => Cell;
  readonly align?: "left" | "right";
}

const columnGap = "  ";
/** The indentation of the columns that come on a line of their own. */
const indent = "    ";

/**
 * Each cell is measured once, so the work grows with the number of cells.
 * @param maxColumns of a terminal: a row that is wider is broken between the words of its cells, or between its cells
 */
export function renderTable<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  empty = "nothing to show",
  maxColumns = Infinity,
): string {
  if (rows.length === 0) return `${wrapLine(empty, maxColumns).join("\n")}\n`;
  const lines = [columns.map(({ title }) => title), ...rows.map((row) => cellTexts(row, columns))];
  const isRight = columns.map(({ align }) => align === "right");
  const widths = widestOf(lines, columnsOf);
  const narrowed = narrow(
    widths,
    widestOf(lines, (cell, column) => (isRight[column] === true ? columnsOf(cell) : longestWord(cell))),
    maxColumns,
  );
  if (narrowed !== undefined) return asText(lines.flatMap((cells) => cellLines(cells, narrowed, isRight)));
  const parts = linesOfColumns(widths, maxColumns);
  return asText(
    lines.flatMap((cells) =>
      parts.flatMap(({ from, to, widths: shown }) =>
        cellLines(cells.slice(from, to), shown, isRight.slice(from, to)).map((line) =>
          from === 0 ? line : indent + line,
        ),
      ),
    ),
  );
}

const asText = (lines: readonly string[]): string => `${lines.map((line) => line.trimEnd()).join("\n")}\n`;

function cellTexts<Row>(row: Row, columns: readonly Column<Row>[]): string[] {
  return columns.map(({ value: valueOf }) => {
    const value = valueOf(row);
    return value === undefined || value === null ? "-" : printable(String(value)).replaceAll("\n", "\\u{a}");
  });
}

function widestOf(
  lines: readonly (readonly string[])[],
  widthOf: (cell: string, column: number) => number,
): readonly number[] {
  const widest: number[] = [];
  for (const cells of lines)
    for (const [column, cell] of cells.entries())
      widest[column] = Math.max(widest[column] ?? 0, widthOf(cell, column));
  return widest;
}

const longestWord = (cell: string): number => Math.max(...cell.split(" ").map(columnsOf));

const widthOfLine = (widths: readonly number[]): number =>
  widths.reduce((sum, width) => sum + width, columnGap.length * (widths.length - 1));

/** Widths that fit, of which the widest are made narrower; undefined where a word of a cell would be broken. */
function narrow(
  widths: readonly number[],
  leastWidths: readonly number[],
  maxColumns: number,
): readonly number[] | undefined {
  if (widthOfLine(leastWidths) > maxColumns) return undefined;
  const narrowed = [...widths];
  while (widthOfLine(narrowed) > maxColumns) {
    const spare = narrowed.map((width, column) => (width > (leastWidths[column] ?? 0) ? width : 0));
    const widest = spare.indexOf(Math.max(...spare));
    narrowed[widest] = (narrowed[widest] ?? 0) - 1;
  }
  return narrowed;
}

interface ColumnLine {
  readonly from: number;
  readonly to: number;
  readonly widths: readonly number[];
}

/** The columns that share a line, as many as fit. A single one that does not is broken between words. */
function linesOfColumns(widths: readonly number[], maxColumns: number): readonly ColumnLine[] {
  const parts: ColumnLine[] = [];
  for (const [column, width] of widths.entries()) {
    const last = parts.at(-1);
    const columns = parts.length > 1 ? maxColumns - indent.length : maxColumns;
    if (last !== undefined && widthOfLine([...last.widths, width]) <= columns)
      parts[parts.length - 1] = { ...last, to: column + 1, widths: [...last.widths, width] };
    else
      parts.push({
        from: column,
        to: column + 1,
        widths: [Math.min(width, column === 0 ? maxColumns : maxColumns - indent.length)],
      });
  }
  return parts;
}

/** The lines of one row, whose cells are broken between words where they are wider than their column. */
function cellLines(
  cells: readonly string[],
  widths: readonly number[],
  isRight: readonly boolean[],
): readonly string[] {
  const parts = cells.map((cell, column) => {
    const width = widths[column] ?? 0;
    return columnsOf(cell) <= width ? [cell] : wrapText(cell, width);
  });
  return Array.from({ length: Math.max(...parts.map(({ length }) => length)) }, (_, line) =>
    parts
      .map((texts, column) => {
        const text = texts[line] ?? "";
        const padding = " ".repeat(Math.max(0, (widths[column] ?? 0) - columnsOf(text)));
        return isRight[column] === true ? padding + text : text + padding;
      })
      .join(columnGap),
  );
}
