// What `npm run mutants` prints: survivors by file, counts, and what was left out.
import { fewestTests } from "./select-tests.mjs";
import { longestTestMs } from "./try-mutants.mjs";

const countOf = (results, outcome) => results.filter((each) => each.outcome === outcome).length;
const placeOf = ({ file, line, column }) => `${file}:${line}:${column}`;

const unusableBecause = {
  failed: "fails without a mutant",
  hung: `takes longer than ${longestTestMs / 1000} s`,
  empty: "runs no test here",
};

function byFile(results) {
  const files = new Map();
  for (const result of results) files.set(result.file, [...(files.get(result.file) ?? []), result]);
  return files;
}

/** One room, or one file by itself, as data. */
export function summaryOf({ name, made, results, unusable, furtherTests }) {
  return {
    room: name,
    mutants: made,
    tried: results.length,
    killed: countOf(results, "killed"),
    survived: countOf(results, "survived"),
    invalid: countOf(results, "invalid"),
    files: [...byFile(results)].map(([file, own]) => ({
      file,
      killed: countOf(own, "killed"),
      survived: countOf(own, "survived"),
      survivors: own
        .filter(({ outcome }) => outcome === "survived")
        .map(({ line, column, kind, original, mutated, tests }) => ({
          line,
          column,
          kind,
          original,
          mutated,
          tests,
        })),
    })),
    unusable,
    furtherTests,
  };
}

const sumOf = (summaries, key) => summaries.reduce((total, summary) => total + summary[key], 0);

/** What a run did not do, in sentences. */
export function leftOutOf(summaries) {
  const invalid = sumOf(summaries, "invalid");
  const unusable = new Map(
    summaries.flatMap((each) => each.unusable).map((each) => [each.test, each.because]),
  );
  return [
    `${sumOf(summaries, "mutants") - sumOf(summaries, "tried")} mutants that the sample did not choose (--count, --seed).`,
    `Tests that reach a file only through others, beyond the ${fewestTests} nearest (${sumOf(summaries, "furtherTests")} in all); integration, fault and fleet tests.`,
    "Texts of errors, types, and files of a room's folder that carry decisions out (launcher/mutants/rooms.mjs).",
    ...(invalid === 0 ? [] : [`${invalid} mutants that give no program, or the same one.`]),
    ...[...unusable].map(([test, because]) => `${test}, which ${unusableBecause[because]}.`),
  ];
}

/** Tests that fail without a mutant, so that what survived may only have been judged by others. */
export function failingTests(summaries) {
  return summaries.flatMap(({ unusable }) => unusable).filter(({ because }) => because === "failed");
}

/** The last line of the text: .ci/full reads it as the result of the whole run. */
function totalOf(summaries) {
  return `${sumOf(summaries, "killed")} killed, ${sumOf(summaries, "survived")} survived`;
}

export function textOf(summaries, seed) {
  const lines = [];
  for (const { room, mutants, tried, killed, survived, files } of summaries) {
    lines.push(
      `${room}: ${killed} killed, ${survived} survived; ${tried} of ${mutants} mutants, seed ${seed}`,
    );
    for (const { file, killed: ofFile, survivors } of files) {
      lines.push(`  ${file}: ${ofFile} killed, ${survivors.length} survived`);
      for (const { line, column, kind, original, mutated, tests } of survivors) {
        const change = `${original} → ${mutated.replaceAll(/\s+/g, " ")}`;
        const untested = tests === 0 ? " (no test judges this file)" : "";
        lines.push(`    ${placeOf({ file, line, column })} ${kind}: ${change}${untested}`);
      }
    }
  }
  lines.push("Left out:", ...leftOutOf(summaries).map((each) => `  ${each}`), totalOf(summaries));
  return `${lines.join("\n")}\n`;
}
