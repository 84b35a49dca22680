/** The page on queries has the grammar's words, and every attribute and template. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { attributes } from "../../../server/learning/query/attributes.js";
import { templateNames } from "../../../server/learning/query/templates.js";
import { codeBlocksOf, readPage, repositoryRoot } from "../../helpers/markdown.js";

const page = readPage("docs/dql.md");

test("the grammar on the page has the words, signs and rules of the parser's", () => {
  const grammar = readFileSync(join(repositoryRoot, "server/learning/query/dql.peggy"), "utf8");
  const shown = codeBlocksOf(page).find(({ info }) => info === "ebnf")?.text ?? "";
  const wordsIn = (text: string): readonly string[] =>
    [...new Set([...text.matchAll(/"([a-z]{2,})"/g)].map(([, word]) => word ?? ""))].sort();
  // The names of errors, and what actions return, are no words of the language.
  const parsed = grammar.replace(/\{[^{}]*(?:\{[^}]*\}[^{}]*)*\}/g, "").replace(/^(\w+) "[^"]*"/gm, "$1");
  assert.deepEqual(wordsIn(shown), wordsIn(parsed));
  const rulesIn = (text: string): readonly string[] =>
    [...text.matchAll(/^([a-z]{2,})(?=,| +=| +"| *$)/gm)].map(([, rule]) => rule ?? "");
  for (const rule of rulesIn(shown)) assert.match(grammar, new RegExp(`^${rule}\\b`, "m"), rule);
});

test("the page names every attribute and every group of templates, and no other", () => {
  const listed = (from: string): readonly string[] => {
    const paragraph = page.slice(page.indexOf(`\n${from}: `)).split("\n\n", 1)[0] ?? "";
    return [...paragraph.matchAll(/`([a-z_]+|[A-Z]+)`/g)].map(([, name]) => name ?? "");
  };
  assert.deepEqual([...listed("Attributes")].sort(), Object.keys(attributes).sort());
  assert.deepEqual([...listed("Templates")].sort(), [...templateNames].sort());
});
