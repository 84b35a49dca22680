/** Training logs of one JSON object a line, as many trainers write them. */
import { linesOf, logInvalid } from "./lines.js";
import type { LogReader, LogRow } from "./log-reader.js";

/** Members of an object in the row, such as those of "metrics", are named with it. */
const maxDepth = 3;

/** Python's json writes numbers that JSON has not. In a text they stay: such a line is valid without this. */
const notFinite = /(?<=[:,[]\s*)(?:-?Infinity|NaN)(?=\s*[,}\]])/g;

export const jsonLinesReader: LogReader = {
  name: "JSON lines",
  matches: (_, first) => /^\uFEFF?\s*\{/.test(first.toString("utf8")),
  read: async function* (path) {
    for await (const { text, number, isComplete } of linesOf(path)) {
      if (text.trim() === "") continue;
      const value = parsed(text);
      if (typeof value === "object" && value !== null && !Array.isArray(value)) yield rowOf(value);
      else if (isComplete) throw logInvalid(path, `line ${number} is not a JSON object`);
    }
  },
};

function parsed(text: string): unknown {
  for (const each of [text, text.replace(notFinite, "null")])
    try {
      return JSON.parse(each) as unknown;
    } catch {
      continue;
    }
  return undefined;
}

function rowOf(value: object): LogRow {
  const row = new Map<string, number | null>();
  const add = (members: object, before: string, depth: number): void => {
    for (const [name, member] of Object.entries(members) as [string, unknown][]) {
      if (typeof member === "number") row.set(before + name, Number.isFinite(member) ? member : null);
      else if (member === null) row.set(before + name, null);
      else if (typeof member === "object" && !Array.isArray(member) && depth < maxDepth)
        add(member, `${before}${name}.`, depth + 1);
    }
  };
  add(value, "", 1);
  return row;
}
