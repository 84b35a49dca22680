/** What a terminal shows is broken between words, whatever is printed; elsewhere each line stays one. */
import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import fc from "fast-check";
import { buildProgram } from "../../../../server/cli/build-program.js";
import { fitHelp } from "../../../../shared/cli/fit-help.js";
import { Output } from "../../../../shared/cli/output.js";
import { renderTable } from "../../../../shared/cli/table.js";
import { columnsOf, cutText } from "../../../../shared/cli/text-width.js";

const columns = 80;
const word = fc.stringMatching(/^[a-zäß0-9._:/-]{1,20}$/);
const cell = fc.array(word, { minLength: 1, maxLength: 12 }).map((words) => words.join(" "));

/** The words of a text, in their order. */
const wordsOf = (text: string): readonly string[] => text.split(/\s+/).filter((each) => each !== "");
const assertFits = (text: string, width = columns): void => {
  for (const line of text.split("\n"))
    assert.ok(columnsOf(line) <= width || wordsOf(line).length === 1, `${columnsOf(line)}: ${line}`);
};

function shownOn(terminal: boolean, print: (output: Output) => void): string {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const stream = (of: PassThrough): PassThrough => Object.assign(of, { isTTY: terminal, columns });
  print(new Output("table", stream(stdout), stream(stderr)));
  return String(stdout.read() ?? stderr.read());
}

describe("a terminal of 80 columns", () => {
  it("breaks no word of any table, and loses none", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 9 }).chain((width) =>
          fc.tuple(
            fc.array(fc.boolean(), { minLength: width, maxLength: width }),
            fc.array(fc.array(cell, { minLength: width, maxLength: width }), {
              minLength: 1,
              maxLength: 4,
            }),
          ),
        ),
        ([isRight, rows]) => {
          const text = renderTable(
            rows,
            isRight.map((right, at) => ({
              title: `T${at}`,
              value: (row) => row[at],
              align: right ? "right" : "left",
            })),
            "",
            columns,
          );
          assertFits(text);
          const expected = rows.flat().flatMap(wordsOf).sort();
          const titles = isRight.map((_, at) => `T${at}`);
          assert.deepEqual([...wordsOf(text)].sort(), [...expected, ...titles].sort());
        },
      ),
    );
  });

  it("leaves a table as it is that fits, and one that is not shown on a terminal", () => {
    const rows = [["a", "word ".repeat(30).trim()]];
    const table = (max?: number): string =>
      renderTable(
        rows,
        ["A", "B"].map((title, at) => ({ title, value: (row: readonly string[]) => row[at] })),
        "",
        max,
      );
    assert.equal(table().split("\n").length, 3);
    assert.equal(table(), table(1000));
    assert.ok(table(columns).split("\n").length > 3);
    assert.equal(renderTable([], [], "nothing is here", 10), "nothing is\n    here\n");
  });

  it("breaks texts, notes and errors between words; a pipe gets them whole, and data are never broken", () => {
    const text = "several words of a sentence that is long ".repeat(5).trim();
    for (const print of [
      (output: Output) => output.print({ data: null, text }),
      (output: Output) => output.info(text),
      (output: Output) => output.printText(text),
    ]) {
      const shown = shownOn(true, print);
      assertFits(shown);
      assert.deepEqual(wordsOf(shown), wordsOf(text));
      assert.equal(shownOn(false, print), `${text}\n`);
    }
    const json = JSON.stringify({ text });
    const printJson = (output: Output): void => output.print({ data: null, text: json, isVerbatim: true });
    assert.equal(shownOn(true, printJson), `${json}\n`);
  });

  it("shows progress in one line, which the next one replaces", () => {
    const shown = shownOn(true, (output) => output.progress("word ".repeat(40)));
    assert.ok(columnsOf(shown.replace("\r\u001b[K", "")) <= columns);
    assert.equal(cutText("one two three", 9), "one two …");
    assert.equal(cutText("x".repeat(20), 9), `${"x".repeat(8)}…`);
    assert.equal(cutText("one two", 7), "one two");
  });

  it("gets help that fits, of every command", async () => {
    const walk = async (words: readonly string[]): Promise<number> => {
      const program = await buildProgram([...words, "--help"]);
      const command = words.reduce(
        (at, name) => at.commands.find((each) => each.name() === name) ?? at,
        program,
      );
      let help = "";
      command.configureOutput({ writeOut: (text) => (help += fitHelp(text, columns)) });
      command.outputHelp();
      assertFits(help);
      let count = 1;
      for (const each of command.commands)
        if (each.name() !== "help") count += await walk([...words, each.name()]);
      return count;
    };
    assert.ok((await walk([])) > 150);
  });

  it("gets examples that can be copied, and paragraphs that are filled again where they are too wide", () => {
    const wide = "words ".repeat(16).trim();
    assert.deepEqual(fitHelp(`${wide}\nend\n\n  short\nshort\nlines`, 40).split("\n"), [
      ...["words words words words words words", "words words words words words words"],
      ...["words words words words end", "", "  short", "short", "lines"],
    ]);
    assert.deepEqual(
      fitHelp("  stemma model list --server https://a.example --fleet f   (all)", 40).split("\n"),
      [...["  stemma model list --server \\", "      https://a.example --fleet f", "      (all)"]],
    );
  });
});
