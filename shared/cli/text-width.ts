/** Measures how wide text is on a terminal, and fits lines to one. */
import { createRequire } from "node:module";

const plainText = /^[\x20-\x7e]*$/;
let stringWidth: ((text: string) => number) | undefined;

/**
 * Columns of a text on a terminal. Most text is plain ASCII, for which the library takes 20 times as long as this;
 * it is loaded only for other text, since that takes half as long as Node takes to start.
 */
export function columnsOf(text: string): number {
  if (plainText.test(text)) return text.length;
  stringWidth ??= (createRequire(import.meta.url)("string-width") as typeof import("string-width")).default;
  return stringWidth(text);
}

/**
 * Breaks text between words. A word that is wider alone stays whole, so that it can be copied.
 * @param columns of each part
 * @param firstColumns of the first part, where that is different
 */
export function wrapText(text: string, columns: number, firstColumns = columns): readonly string[] {
  const [first = "", ...words] = text.split(" ");
  const parts: string[] = [];
  let part = first;
  let width = columnsOf(first);
  for (const word of words) {
    const wordWidth = columnsOf(word);
    if (width + 1 + wordWidth <= (parts.length === 0 ? firstColumns : columns)) {
      part += ` ${word}`;
      width += 1 + wordWidth;
    } else {
      parts.push(part);
      part = word;
      width = wordWidth;
    }
  }
  return [...parts, part];
}

/** The beginning of a text, cut between words where there is more; a word that is too wide alone is cut. */
export function cutText(text: string, columns: number): string {
  if (columnsOf(text) <= columns) return text;
  const [start = ""] = wrapText(text, columns - 2);
  return columnsOf(start) <= columns - 2 ? `${start.trimEnd()} …` : `${start.slice(0, columns - 1)}…`;
}

/** Spaces by which what follows of a broken line is indented more than its beginning. */
const hangingIndent = 4;

/** Breaks a line, which may be indented, so that no part of it is wider than this many columns. */
export function wrapLine(line: string, columns: number): readonly string[] {
  const text = line.trimStart();
  const indent = line.length - text.length;
  const parts = wrapText(text, columns - indent - hangingIndent, columns - indent);
  return parts.map(
    (part, at) =>
      " ".repeat(at === 0 ? indent : indent + hangingIndent) +
      (at === parts.length - 1 ? part : part.trimEnd()),
  );
}

/** A stream that a terminal may show. */
export type TerminalStream = NodeJS.WritableStream & { readonly isTTY?: boolean; readonly columns?: number };

/** Columns of the terminal that shows a stream; undefined where none does. */
export function terminalColumns({ isTTY, columns = 0 }: TerminalStream): number | undefined {
  return isTTY !== true ? undefined : columns > 0 ? columns : 80;
}

/** A text whose lines a terminal need not break within words; elsewhere a line stays one, for `grep` and others. */
export function fitted(text: string, stream: TerminalStream): string {
  const columns = terminalColumns(stream);
  if (columns === undefined) return text;
  return text
    .split("\n")
    .flatMap((line) => wrapLine(line, columns))
    .join("\n");
}
