/** Parses the text of a query by the grammar in dql.peggy, which peggy made a parser of. Pure. */
import { parse, SyntaxError as GrammarError, type Expectation } from "./generated/dql-parser.js";
import { failIn, queryTooLarge } from "./query-errors.js";
import type { Statement } from "./syntax.js";

export const maxQueryCharacters = 16_384;
/** Parentheses inside each other, those of nested queries too. */
const maxDepth = 32;

/** @throws QUERY_INVALID, QUERY_TOO_LARGE */
export function parseQuery(text: string): Statement {
  if (text.length > maxQueryCharacters)
    throw queryTooLarge(
      `has ${text.length} characters, more than ${maxQueryCharacters}`,
      "Give the versions a tag and select by that.",
    );
  const fail = failIn(text);
  checkDepth(text, fail);
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    const { offset } = error.location.start;
    return fail(offset, `${expectedText(error.expected)}, but there is ${foundText(text, offset)}`);
  }
}

/** Texts (to the end, where one does not end), comments and parentheses. */
const lexicalPattern = /"(?:\\[^]|[^"\\])*(?:"|$)|'(?:\\[^]|[^'\\])*(?:'|$)|--[^\n]*|[()]/g;

/** Refuses what the parser, which calls itself for each parenthesis, would not survive. */
function checkDepth(text: string, fail: (at: number, reason: string) => never): void {
  let depth = 0;
  for (const { 0: token, index } of text.matchAll(lexicalPattern)) {
    if (token === ")") depth--;
    if (token === "(" && ++depth > maxDepth)
      fail(index, `more than ${maxDepth} parentheses are inside each other`);
  }
}

function expectedText(expected: readonly Expectation[] | null): string {
  const names = (expected ?? []).flatMap((each): string[] => {
    if (each.type === "end") return ["the end"];
    if (each.type === "other") return each.description === "a space" ? [] : [each.description];
    return each.type === "literal" ? [JSON.stringify(each.text)] : [];
  });
  const sorted = [...new Set(names)].sort((a, b) => Number(a === "the end") - Number(b === "the end"));
  const last = sorted.pop() ?? "something else";
  return `expected ${sorted.length === 0 ? last : `${sorted.join(", ")} or ${last}`}`;
}

function foundText(text: string, offset: number): string {
  const rest = text.slice(offset);
  if (rest === "") return "the end";
  if (/^["']/.test(rest)) return "a text, or one that does not end";
  const found = /^\w+/.exec(rest)?.[0].slice(0, 40) ?? [...rest][0] ?? "";
  if (/^[\x21-\x7e]+$/.test(found)) return JSON.stringify(found);
  return `the character U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}
