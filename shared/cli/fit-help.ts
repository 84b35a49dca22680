/** Fits the help of commands to a terminal: 80 columns where none shows it. Pure, but for the writers. */
import { columnsOf, terminalColumns, wrapLine, wrapText } from "./text-width.js";

/** Writers of a program's help, for commander's `configureOutput`. */
export const fittedHelp = {
  writeOut: (text: string): void => {
    process.stdout.write(fitHelp(text, terminalColumns(process.stdout) ?? 80));
  },
  writeErr: (text: string): void => {
    process.stderr.write(fitHelp(text, terminalColumns(process.stderr) ?? 80));
  },
};

/** Paragraphs with a line that is too wide are filled again; indented lines are broken each by itself. */
export function fitHelp(text: string, columns: number): string {
  const fitted: string[] = [];
  let paragraph: string[] = [];
  const endParagraph = (): void => {
    const isWide = paragraph.some((line) => columnsOf(line) > columns);
    fitted.push(...(isWide ? wrapText(paragraph.join(" "), columns) : paragraph));
    paragraph = [];
  };
  for (const line of text.split("\n"))
    if (/^\S/.test(line)) paragraph.push(line);
    else {
      endParagraph();
      fitted.push(...(columnsOf(line) > columns ? brokenExample(line, columns) : [line]));
    }
  endParagraph();
  return fitted.join("\n");
}

/** An example and what it does come on lines of their own; a command is broken as a shell wants it. */
function brokenExample(line: string, columns: number): readonly string[] {
  const [, example = line, meaning] = /^(\s+\S.*?)\s{2,}(\S.*)$/.exec(line) ?? [];
  const isCommand = /^\s+(?:\.\/)?(?:stemma|curl) /.test(example);
  const parts =
    columnsOf(example) <= columns ? [example] : wrapLine(example, isCommand ? columns - 2 : columns);
  return [
    ...parts.map((part, at) => (isCommand && at < parts.length - 1 ? `${part} \\` : part)),
    ...(meaning === undefined ? [] : wrapLine(`      ${meaning}`, columns)),
  ];
}
