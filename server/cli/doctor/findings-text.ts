/** Findings as text of at most 80 columns: what was found, and below it what to do. Pure. */
import { columnsOf, wrapText } from "../../../shared/cli/text-width.js";
import type { Finding } from "./finding.js";

const columns = 80;
const marks: Readonly<Record<Finding["state"], string>> = { good: "ok", warning: "!!", wrong: "XX" };

export function findingsText(findings: readonly Finding[]): string {
  const subjectWidth = Math.max(0, ...findings.map(({ what }) => columnsOf(what)));
  const indent = " ".repeat(subjectWidth + 6);
  const textWidth = columns - indent.length;
  return findings
    .flatMap(({ state, what, found, advice }) => {
      const texts = [
        ...wrapText(found, textWidth),
        ...(advice === undefined ? [] : wrapText(`→ ${advice}`, textWidth)),
      ];
      const start = `${marks[state]}  ${what}${" ".repeat(subjectWidth - columnsOf(what))}  `;
      return texts.map((text, line) => (line === 0 ? start : indent) + text);
    })
    .join("\n");
}
