/** The words that Stemma states of a model are those of docs/what-is-claimed.md; each is printed, and has a test. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { markdownPages, readPage, repositoryRoot } from "../../helpers/markdown.js";

const page = readPage("docs/what-is-claimed.md");
const [meanings = "", tests = ""] = page.split("\n| word | test |");
const rowsOf = (table: string): readonly (readonly string[])[] =>
  table
    .split("\n")
    .filter((line) => line.startsWith("| ") && !line.startsWith("| word "))
    .map((line) =>
      line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
const words = rowsOf(meanings).map(([word = ""]) => word);

/** Folders whose texts people read. */
const rooms = ["server/cli", "agent/cli", "server/interface", "server/operations"];
const sources = rooms.flatMap((room) =>
  readdirSync(join(repositoryRoot, room), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(ts|html)$/.test(name))
    .map((name) => ({
      name: join(room, name),
      text: readFileSync(join(repositoryRoot, room, name), "utf8"),
    })),
);
/** Texts in quotes with a space in them: sentences, not names. */
const sentences = sources.flatMap(({ name, text }) =>
  [...text.matchAll(/"(?:[^"\\\n]|\\.)* (?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)* (?:[^`\\]|\\.)*`/g)].map(
    ([sentence]) => ({ name, sentence }),
  ),
);

/** Words that claim as much, and that nobody has said the meaning of. */
const likes =
  /\b(genuine|authentic|guarantee[ds]?|trustworthy|flawless|undamaged|unharmed|validated|bit-identical|bit-perfect|successful(?:ly)?|healthy|attested|tamper-proof|perfect(?:ly)?)\b/i;

test("each word has a meaning, a limit and a test that is there", () => {
  assert.ok(words.length >= 10);
  for (const [word = "", meaning = "", limit = ""] of rowsOf(meanings))
    assert.ok(meaning !== "" && limit !== "", word);
  const tested = new Map(
    rowsOf(tests).flatMap(([of = "", files = ""]) => of.split(", ").map((word) => [word, files] as const)),
  );
  for (const word of words) {
    const files = [...(tested.get(word) ?? "").matchAll(/`(test\/[^`]+)`/g)].map(([, file = ""]) => file);
    assert.ok(files.length > 0, `${word} has no test`);
    for (const file of files) assert.ok(existsSync(join(repositoryRoot, file)), file);
  }
});

test("each word is one that commands or the API state", () => {
  for (const word of words)
    assert.ok(
      sources.some(({ text }) => new RegExp(`\\b${word}\\b`, "i").test(text)),
      word,
    );
});

test("neither commands, API nor pages claim by other words", () => {
  const claimed = sentences.filter(({ sentence }) => likes.test(sentence));
  assert.deepEqual(claimed, []);
  const pages = markdownPages().filter(
    (name) => /^(docs\/|README|SECURITY)/.test(name) && !name.startsWith("docs/adr/"),
  );
  const onPages = pages.flatMap((name) =>
    readPage(name)
      .split("\n")
      .filter((line) => likes.test(line.replace(/`[^`]*`/g, "")))
      .map((line) => `${name}: ${line}`),
  );
  assert.deepEqual(onPages, []);
});
