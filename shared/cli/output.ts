/**
 * The output of commands: data on stdout in the chosen form (table, json, yaml, name), everything else on
 * stderr; progress only on a terminal. Does not depend on the commands.
 */
import { createRequire } from "node:module";
import { defined } from "../defined.js";
import { StemmaError } from "../errors.js";
import { printable } from "../printable.js";
import { columnsOf, wrapLine } from "./text-width.js";

export const outputForms = ["table", "json", "yaml", "name"] as const;
export type OutputForm = (typeof outputForms)[number];

export type Cell = string | number | boolean | null | undefined;
export interface Column<Row> {
  readonly title: string;
  readonly value: (row: Row) => Cell;
  readonly align?: "left" | "right";
}

/** The result of a command: data for programs, and its form for people. */
export interface Answer<Row = unknown> {
  /** The data for json and yaml. */
  readonly data: unknown;
  /** The names for `-o name`: one name a line. */
  readonly names?: readonly string[];
  readonly table?: {
    readonly rows: readonly Row[];
    readonly columns: readonly Column<Row>[];
    readonly empty?: string;
  };
  /** The text for people, instead of or below the table. */
  readonly text?: string;
}

export class Output {
  constructor(
    readonly form: OutputForm,
    private readonly stdout: NodeJS.WritableStream & { isTTY?: boolean } = process.stdout,
    private readonly stderr: NodeJS.WritableStream & { isTTY?: boolean } = process.stderr,
  ) {}

  get isTerminal(): boolean {
    return this.stderr.isTTY === true;
  }

  /** True if lines on stdout may have colours: it is a terminal, and NO_COLOR is not set (no-color.org). */
  get hasColours(): boolean {
    return this.stdout.isTTY === true && (process.env["NO_COLOR"] ?? "") === "";
  }

  /** Columns of the terminal that shows stdout; 80 where it is none. */
  get columns(): number {
    const { columns } = this.stdout as { readonly columns?: number };
    return this.stdout.isTTY === true && columns !== undefined && columns > 0 ? columns : 80;
  }

  /** The lines as one text, in which those that are wider than the terminal are broken between words. */
  wrap(lines: readonly string[]): string {
    return lines.flatMap((line) => wrapLine(line, this.columns)).join("\n");
  }

  /** Prints a drawing on stdout as it is. Its texts from files and devices must have gone through `printable`. */
  draw(drawing: string): void {
    this.stdout.write(drawing);
  }

  /** Prints an answer on stdout. */
  print<Row>(answer: Answer<Row>): void {
    switch (this.form) {
      case "json":
        this.stdout.write(`${JSON.stringify(answer.data, null, 2)}\n`);
        return;
      case "yaml":
        this.stdout.write(toYaml(answer.data));
        return;
      case "name":
        for (const name of answer.names ?? []) this.stdout.write(`${name}\n`);
        return;
      case "table":
        if (answer.table)
          this.stdout.write(renderTable(answer.table.rows, answer.table.columns, answer.table.empty));
        if (answer.text !== undefined) this.stdout.write(`${printable(answer.text)}\n`);
    }
  }

  /** Prints a list: the rows themselves as data, their names, and a table of them. */
  printRows<Row>(
    rows: readonly Row[],
    {
      nameOf,
      text,
      ...table
    }: {
      readonly nameOf: (row: Row) => string;
      readonly columns: readonly Column<Row>[];
      readonly empty?: string;
      readonly text?: string;
    },
  ): void {
    const names = rows.map(nameOf);
    this.print({ data: rows, names, table: { rows, ...table }, ...defined({ text }) });
  }

  /** A line for the person at the terminal; never data. */
  info(line: string): void {
    this.stderr.write(`${printable(line)}\n`);
  }

  /**
   * Progress of long work: a line that rewrites itself on a terminal, one plain line per call otherwise when
   * `plain` is given.
   */
  progress(line: string, plain = false): void {
    if (this.isTerminal) this.stderr.write(`\r\u001b[K${printable(line)}`);
    else if (plain) this.stderr.write(`${printable(line)}\n`);
  }
  endProgress(): void {
    if (this.isTerminal) this.stderr.write("\r\u001b[K");
  }
}

/** Loads its library only now: that takes half as long as Node takes to start, and few commands need it. */
function toYaml(data: unknown): string {
  const require = createRequire(import.meta.url);
  const { stringify } = require("yaml") as typeof import("yaml");
  return stringify(data);
}

const columnGap = "  ";

/**
 * A table without frames that survives `cut` and narrow terminals. Each cell is measured and padded once, so
 * the work grows with the number of cells.
 */
export function renderTable<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  empty = "nothing to show",
): string {
  if (rows.length === 0) return `${empty}\n`;
  const lines = [columns.map(({ title }) => title), ...rows.map((row) => cellTexts(row, columns))];
  const widths = columns.map(() => 0);
  const cellWidths = lines.map((cells) =>
    cells.map((cell, column) => {
      const width = columnsOf(cell);
      widths[column] = Math.max(widths[column]!, width);
      return width;
    }),
  );
  const padded = lines.map((cells, line) =>
    cells.map((cell, column) => {
      const padding = " ".repeat(widths[column]! - cellWidths[line]![column]!);
      return columns[column]!.align === "right" ? padding + cell : cell + padding;
    }),
  );
  return `${padded.map((cells) => cells.join(columnGap).trimEnd()).join("\n")}\n`;
}

function cellTexts<Row>(row: Row, columns: readonly Column<Row>[]): string[] {
  return columns.map(({ value: valueOf }) => {
    const value = valueOf(row);
    return value === undefined || value === null ? "-" : printable(String(value)).replaceAll("\n", "\\u{a}");
  });
}

/** "14.2 MB": decimal units, three digits. */
export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return unit === 0 ? `${bytes} B` : `${value.toPrecision(3)} ${units[unit]}`;
}

/** "850 ms", "3.2 s", "4 min 10 s". */
export function formatDuration(ms: number): string {
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.round((ms % 3_600_000) / 60_000)} min`;
}

/** Formats a time as "2026-11-21 09:30:12Z". */
export function formatTime(ms: number): string {
  return new Date(ms)
    .toISOString()
    .replace("T", " ")
    .replace(/\.\d+Z$/, "Z");
}

/** Parses a time: ISO 8601, or milliseconds since 1970. @throws USAGE */
export function parseTime(text: string): number {
  const ms = /^\d{10,16}$/.test(text) ? Number(text) : Date.parse(text);
  if (Number.isNaN(ms))
    throw new StemmaError(
      "USAGE",
      `"${text}" is not a time. Write it as 2026-11-21T09:30:00Z, or as milliseconds since 1970.`,
    );
  return ms;
}
