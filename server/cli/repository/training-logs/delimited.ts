/** Training logs as CSV with a line of names, such as those of Keras's CSVLogger and of Lightning's CSVLogger. */
import { linesOf, logInvalid } from "./lines.js";
import type { LogReader, LogRow } from "./log-reader.js";
import { counted } from "../../../../shared/printable.js";

const maxColumns = 1000;
const separators = [",", ";", "\t"] as const;

export const delimitedReader: LogReader = {
  name: "CSV with a line of names",
  matches: (_, first) => {
    const [header = ""] = first.toString("utf8").split("\n", 1);
    return separators.some((separator) => header.includes(separator)) && !header.includes("\0");
  },
  read: async function* (path) {
    let names: readonly string[] | undefined;
    let separator = ",";
    for await (const { text, number, isComplete } of linesOf(path)) {
      if (text.trim() === "") continue;
      if (names === undefined) {
        separator = separators.find((each) => text.includes(each)) ?? ",";
        names = cellsOf(text, separator);
        if (names.length > maxColumns) throw logInvalid(path, `it has more than ${maxColumns} columns`);
        continue;
      }
      const cells = cellsOf(text, separator);
      if (cells.length === names.length) yield rowOf(names, cells);
      else if (isComplete)
        throw logInvalid(
          path,
          `line ${number} has ${counted(cells.length, "column")}, the first has ${names.length}`,
        );
    }
  },
};

/** Cells in quotes may have the separator. */
export function cellsOf(text: string, separator: string): readonly string[] {
  if (!text.includes('"')) return text.split(separator).map((cell) => cell.trim());
  const cells: string[] = [];
  let cell = "";
  let isQuoted = false;
  for (const character of text)
    if (character === '"') isQuoted = !isQuoted;
    else if (character === separator && !isQuoted) {
      cells.push(cell.trim());
      cell = "";
    } else cell += character;
  return [...cells, cell.trim()];
}

function rowOf(names: readonly string[], cells: readonly string[]): LogRow {
  const row = new Map<string, number | null>();
  for (const [column, name] of names.entries()) {
    const cell = cells[column] ?? "";
    if (/^[+-]?(nan|inf|infinity)$/i.test(cell)) row.set(name, null);
    else if (cell !== "" && Number.isFinite(Number(cell))) row.set(name, Number(cell));
  }
  return row;
}
