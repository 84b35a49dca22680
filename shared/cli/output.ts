/**
 * The output of commands: data on stdout in the chosen form (table, json, yaml, name), everything else on
 * stderr; progress only on a terminal. Does not depend on the commands.
 */
import { createRequire } from "node:module";
import { defined } from "../defined.js";
import { StemmaError } from "../errors.js";
import { printable } from "../printable.js";
import { renderTable, type Column } from "./table.js";
import { cutText, fitted, terminalColumns, wrapLine, type TerminalStream } from "./text-width.js";

export type { Cell, Column } from "./table.js";

export const outputForms = ["table", "json", "yaml", "name"] as const;
export type OutputForm = (typeof outputForms)[number];

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
  /** True if the text is data that are copied, such as JSON or a signed note: no terminal's width breaks its lines. */
  readonly isVerbatim?: boolean;
}

export class Output {
  constructor(
    readonly form: OutputForm,
    private readonly stdout: TerminalStream = process.stdout,
    private readonly stderr: TerminalStream = process.stderr,
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
    return terminalColumns(this.stdout) ?? 80;
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
        if (answer.table) {
          const { rows, columns, empty } = answer.table;
          this.stdout.write(renderTable(rows, columns, empty, terminalColumns(this.stdout)));
        }
        if (answer.text !== undefined) this.printText(answer.text, answer.isVerbatim);
    }
  }

  /** Prints lines for people on stdout. */
  printText(text: string, isVerbatim = false): void {
    const shown = printable(text);
    this.stdout.write(`${isVerbatim ? shown : fitted(shown, this.stdout)}\n`);
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
    this.stderr.write(`${fitted(printable(line), this.stderr)}\n`);
  }

  /**
   * Progress of long work: a line that rewrites itself on a terminal, one plain line per call otherwise when
   * `plain` is given.
   */
  progress(line: string, plain = false): void {
    const columns = terminalColumns(this.stderr);
    if (columns !== undefined) {
      // A second line would stay when the next one is written over this.
      this.stderr.write(`\r\u001b[K${cutText(printable(line), columns)}`);
    } else if (plain) this.stderr.write(`${printable(line)}\n`);
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

/** "850 ms", "3.2 s", "4 min 10 s", "47 h 5 min", "900 d 3 h". */
export function formatDuration(ms: number): string {
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_599_500) return inUnits(ms, [60, "min"], [1000, "s"]);
  if (ms < 48 * 3_600_000) return inUnits(ms, [60, "h"], [60_000, "min"]);
  return inUnits(ms, [24, "d"], [3_600_000, "h"]);
}

/** Rounds to the smaller unit first: no "1 h 60 min". */
function inUnits(
  ms: number,
  [perLarger, larger]: readonly [number, string],
  [msPerSmaller, smaller]: readonly [number, string],
): string {
  const count = Math.round(ms / msPerSmaller);
  return `${Math.floor(count / perLarger)} ${larger} ${count % perLarger} ${smaller}`;
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
