/** Finds the words that may follow the beginning of a query, by the grammar in dql.peggy. Pure. */
import { attributes, configAttribute } from "./attributes.js";
import { parse, SyntaxError as GrammarError, type Expectation } from "./generated/dql-parser.js";
import { maxQueryCharacters } from "./parse-query.js";
import { templateNames } from "./templates.js";

/** A character that no query has outside of texts: the parser says what it expected in its place. */
const nothingKnown = "\0";
/** A number with a point: digits follow, or a space. */
const endsInNumber = /(?:^|[^\w"'\]])\d+\.$/;
/** The rules whose names list their words, as a person reads them: "next or prev". */
const listOfWords = /^[a-z]+(?:, [a-z]+)*(?: or [a-z]+)+$/;

/**
 * @param text a query up to the cursor
 * @returns the words that can stand where its last one begins, in order; none inside of a text, or after an error
 */
export function completeQuery(text: string): readonly string[] {
  const typed = /\w*$/.exec(text)?.[0] ?? "";
  const before = text.slice(0, text.length - typed.length);
  if (endsInNumber.test(before)) return [];
  const found = new Set(expectedAfter(before).flatMap((each) => wordsOf(each, before)));
  return [...found].filter((word) => word.startsWith(typed)).sort();
}

function expectedAfter(before: string): readonly Expectation[] {
  if (before.length > maxQueryCharacters) return [];
  try {
    parse(before + nothingKnown);
    return [];
  } catch (error) {
    if (!(error instanceof GrammarError) || error.location.start.offset !== before.length) return [];
    return error.expected ?? [];
  }
}

function wordsOf(expected: Expectation, before: string): readonly string[] {
  if (expected.type === "literal") return /^[a-z]+$/.test(expected.text) ? [expected.text] : [];
  if (expected.type !== "other") return [];
  const { description } = expected;
  if (listOfWords.test(description)) return description.split(/, | or /);
  if (description === "a value") return ["true", "false"];
  if (description !== "a name") return [];
  if (/\bhas\s+$/i.test(before)) return templateNames;
  return /\b\w+\.$/.test(before) ? [...Object.keys(attributes), configAttribute] : [];
}
