/** Findings as text of at most 80 columns: what was found, and below it what to do. Pure. */
import { columnsOf } from "../../shared/cli/output.js";
import type { Finding } from "./finding.js";

const columns = 80;
const marks: Readonly<Record<Finding["state"], string>> = { good: "ok", warning: "!!", wrong: "XX" };

/** Breaks text at spaces. A word that is longer than a line, such as a path, gets a line of its own. */
function wrapped(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && columnsOf(`${last} ${word}`) <= width)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

export function findingsText(findings: readonly Finding[]): string {
  const subjectWidth = Math.max(0, ...findings.map(({ what }) => columnsOf(what)));
  const indent = " ".repeat(subjectWidth + 6);
  const textWidth = columns - indent.length;
  return findings
    .flatMap(({ state, what, found, advice }) => {
      const texts = [
        ...wrapped(found, textWidth),
        ...(advice === undefined ? [] : wrapped(`→ ${advice}`, textWidth)),
      ];
      const start = `${marks[state]}  ${what}${" ".repeat(subjectWidth - columnsOf(what))}  `;
      return texts.map((text, line) => (line === 0 ? start : indent) + text);
    })
    .join("\n");
}
