/** The documentation stays readable: its length, its tables, its ways in, and no promise of what is there already. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { linksOf, markdownPages, readPage, repositoryRoot } from "../../helpers/markdown.js";

/** The promised length of what people write; a page about something new takes its words from others. */
const maxWords = 60_000;
const maxCellCharacters = 200;
const maxPagesOfAWayIn = 10;
const readers = ["Fleet engineer", "Modeller", "Operator", "Auditor", "Contributor"];

/** Pages that a program writes: `npm run http-api`, the benchmarks' --markdown. */
const writtenPages = new Set([
  "docs/architecture-search-figures.md",
  "docs/exactness.md",
  "docs/flows-distributed.md",
  "docs/flows.md",
  "docs/http-api.md",
]);
/** Pages in these folders are made from the first sentences of their files. */
const foldersWithWrittenPages = /^(?:agent|launcher|server|shared|stemma)\//;
/** Tables within a page that a program writes: that of server.json. */
const writtenTables = /<!-- table of the schema -->[\s\S]*?<!-- end of the table -->/g;

/** Commands, and what programs print, also where they are indented in a list. */
const codeBlocks = /^ *```.*\n[\s\S]*?^ *```$/gm;
/** What people wrote, by page, without code blocks. */
const texts = new Map(
  markdownPages()
    .filter((page) => !writtenPages.has(page) && !foldersWithWrittenPages.test(page))
    .map((page) => [page, readPage(page).replace(writtenTables, "").replace(codeBlocks, "")]),
);

/** Words have a letter: the bars of tables and measured figures are none. */
const wordsOf = (text: string): number => text.match(/\S*\p{L}\S*/gu)?.length ?? 0;

const cellsOf = (text: string): readonly string[] =>
  text
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .flatMap((line) => line.split(/(?<!\\)\|/).map((cell) => cell.trim()));

/** The ordered list below a reader's heading in the index of docs/. */
function wayInOf(reader: string): readonly string[] {
  const [, section = ""] = readPage("docs/README.md").split(`\n### ${reader}\n`);
  return (section.split(/^#/m)[0] ?? "").split("\n").filter((line) => /^\d+\. /.test(line));
}

test(`people wrote at most ${maxWords} words`, () => {
  const counts = [...texts].map(([page, text]) => ({ page, words: wordsOf(text) }));
  const words = counts.reduce((sum, count) => sum + count.words, 0);
  const longest = counts.sort((one, other) => other.words - one.words).slice(0, 10);
  assert.ok(words > 10_000);
  assert.ok(
    words <= maxWords,
    `${words} words, the most in ${longest.map(({ page, words: of }) => `${page} (${of})`).join(", ")}`,
  );
});

test(`no cell of a table has more than ${maxCellCharacters} characters`, () => {
  const long = [...texts].flatMap(([page, text]) =>
    cellsOf(text)
      .filter((cell) => cell.length > maxCellCharacters)
      .map((cell) => `${page} (${cell.length}): ${cell.slice(0, 60)}…`),
  );
  assert.deepEqual(long, []);
});

test(`each reader's way in has at most ${maxPagesOfAWayIn} pages, and each exists`, () => {
  for (const reader of readers) {
    const pages = wayInOf(reader).map((item) => linksOf(item));
    const links = pages.flat();
    assert.ok(
      pages.every(({ length }) => length > 0),
      `${reader}: an entry links to no page`,
    );
    assert.ok(links.length > 2 && links.length <= maxPagesOfAWayIn, `${reader}: ${links.length} pages`);
    for (const target of links)
      assert.ok(existsSync(join(repositoryRoot, "docs", target.split("#")[0] ?? "")), target);
  }
});

test("no page calls planned what may be there already", () => {
  const planned = [...texts]
    .filter(([page]) => !page.startsWith("docs/adr/"))
    .filter(([, text]) => /\bplanned\b/i.test(text.replace(/`[^`\n]*`/g, "")));
  assert.deepEqual(
    planned.map(([page]) => page),
    [],
  );
});
