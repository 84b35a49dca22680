/** The tables of the benchmarks' reports in Markdown. Pure. */

/** As for a table in the terminal (shared/cli/output.ts). */
export interface ReportColumn<Row> {
  readonly title: string;
  readonly value: (row: Row) => string;
  readonly align?: "right";
}

/** Titles are written in lower case, but for names with digits. */
export function markdownTable<Row>(rows: readonly Row[], columns: readonly ReportColumn<Row>[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [
    line(columns.map(({ title }) => title.replace(/[^\s\d]+(?=\s|$)/g, (word) => word.toLowerCase()))),
    line(columns.map(({ align }) => (align === "right" ? "---:" : "---"))),
    ...rows.map((row) => line(columns.map(({ value }) => value(row)))),
  ].join("\n");
}
