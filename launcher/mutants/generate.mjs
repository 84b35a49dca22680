// The mutants of one source: copies of it that differ in one place, each of which some test should notice.
import ts from "typescript";
import { operators } from "./operators.mjs";

/** A sentence with values in it, as messages are. */
const isSentence = (node) =>
  ts.isTemplateExpression(node) && / \S+ /.test(node.getText().replaceAll(/\$\{[^}]*\}/g, ""));

/**
 * Types, imports and interfaces decide nothing when a program runs. Sentences and what is thrown are told to people:
 * whether it is thrown is the condition's matter.
 */
function isLeftOut(node) {
  return (
    isSentence(node) ||
    ts.isTypeNode(node) ||
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isImportDeclaration(node) ||
    ts.isExportDeclaration(node) ||
    ts.isThrowStatement(node) ||
    (ts.isNewExpression(node) && node.expression.getText().endsWith("Error"))
  );
}

const shortened = (text) => {
  const line = text.replaceAll(/\s+/g, " ");
  return line.length <= 70 ? line : `${line.slice(0, 67)}...`;
};

/**
 * All mutants of a source, in its order, each with the place of what it replaces (line and column from 1).
 * @param file the source's path in the checkout
 */
export function mutantsOf(file, text) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found = new Map();
  const visit = (node) => {
    if (isLeftOut(node)) return;
    for (const { kind, start, end, text: mutated } of operators.flatMap((operator) => operator(node))) {
      const { line, character } = source.getLineAndCharacterOfPosition(start);
      const original = text.slice(start, end);
      const key = `${start} ${end} ${mutated}`;
      if (original === mutated || found.has(key)) continue;
      const place = { line: line + 1, column: character + 1 };
      found.set(key, { file, ...place, kind, original: shortened(original), mutated, start, end });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return [...found.values()].sort((one, other) => one.start - other.start || one.end - other.end);
}

/** The source with the mutant in it. */
export function withMutant(text, { start, end, mutated }) {
  return `${text.slice(0, start)}${mutated}${text.slice(end)}`;
}

/** Numbers from 0 to 1 that a seed repeats (mulberry32). */
function numbersFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** `count` of the mutants, chosen by the seed, in their order. */
export function sampleOf(mutants, count, seed) {
  const next = numbersFrom(seed);
  const drawn = mutants.map((mutant, index) => ({ mutant, index, rank: next() }));
  drawn.sort((one, other) => one.rank - other.rank);
  const chosen = drawn.slice(0, count).sort((one, other) => one.index - other.index);
  return chosen.map(({ mutant }) => mutant);
}
