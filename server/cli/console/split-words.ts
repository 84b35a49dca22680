/** A line of the console, cut into the words of a command, with the quotes of a shell. Pure. */
import { StemmaError } from "../../../shared/errors.js";

/**
 * Words that a shell would act on. In the console such a word is a mistake: a line that was pasted must not do
 * half of its work.
 */
const shellWords = new Set(["|", "||", "&", "&&", ";", "<", ">", ">>"]);

interface Word {
  text: string;
  isQuoted: boolean;
}

/**
 * 'single quotes' keep all as it is; in "double quotes" and outside, a backslash keeps the next character; # begins a
 * comment where a word can begin.
 * @throws USAGE for a quote that is not closed, or what only a shell can do
 */
export function splitWords(line: string): readonly string[] {
  const words = readWords(line);
  for (const { text, isQuoted } of words)
    if (!isQuoted && shellWords.has(text))
      throw new StemmaError(
        "USAGE",
        `The console is not a shell: it cannot do "${text}". Run this line in one, or put the character in quotes.`,
      );
  return words.map(({ text }) => text);
}

function readWords(line: string): readonly Word[] {
  const words: Word[] = [];
  let word: Word | undefined;
  for (let at = 0; at < line.length; at++) {
    const character = line[at] as string;
    if (/\s/.test(character)) word = undefined;
    else if (character === "#" && word === undefined) break;
    else {
      if (word === undefined) words.push((word = { text: "", isQuoted: false }));
      if (character === "'" || character === '"') {
        const end = closingQuote(line, at);
        const inner = line.slice(at + 1, end);
        word.text += character === "'" ? inner : inner.replaceAll(/\\(["\\])/g, "$1");
        word.isQuoted = true;
        at = end;
      } else if (character === "\\" && at + 1 < line.length) {
        word.text += line[++at] as string;
        word.isQuoted = true;
      } else word.text += character;
    }
  }
  return words;
}

/** @throws USAGE */
function closingQuote(line: string, opened: number): number {
  const quote = line[opened] as string;
  for (let at = opened + 1; at < line.length; at++) {
    if (line[at] === quote) return at;
    if (quote === '"' && line[at] === "\\") at++;
  }
  throw new StemmaError(
    "USAGE",
    `A ${quote} is not closed. Close it, or write \\${quote} for the character itself.`,
  );
}

/** A word as it has to be typed for `splitWords` to give it back. */
export function quoteWord(word: string): string {
  return /^[^\s'"\\#|&;<>]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
