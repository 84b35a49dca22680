/** Completes a line of the console with Tab: commands, options, values, names of the fleet, files. */
import { execFile } from "node:child_process";
import { readdir } from "node:fs/promises";
import { ownPart } from "../../../shared/adapters/own-program.js";
import { awaitedValue, suggestions } from "../../../shared/cli/completion.js";
import { agentProgram } from "../commands/machine/agent.js";
import type { BuildProgram } from "../context.js";
import { nameKindOf, type FleetNames } from "./fleet-names.js";
import { quoteWord, splitWords } from "./split-words.js";

/** Words that the console itself acts on. */
export const ownWords = ["help", "use", "exit", "quit"] as const;

/** Candidates for the last word of a line, and that word as readline replaces it. */
export type Completion = [candidates: string[], typed: string];

/** The names and commands that a line can be completed with. */
export interface CompletionSource {
  readonly names: FleetNames;
  readonly buildProgram: BuildProgram;
}

/** @param line up to the cursor */
export async function completeLine(line: string, source: CompletionSource): Promise<Completion> {
  const typed = /\S*$/.exec(line)?.[0] ?? "";
  const query = openQuery.exec(line)?.groups?.["query"];
  if (query !== undefined) return await queryCandidates(query, typed);
  // A word with quotes is the user's own matter.
  if (/['"\\]/.test(typed)) return [[], typed];
  let before: readonly string[];
  try {
    before = splitWords(line.slice(0, line.length - typed.length));
  } catch {
    return [[], typed];
  }
  if (before[0] === "stemma" || before[0] === "help") before = before.slice(1);
  const words = [...before, typed];
  const found = (await candidatesOf(words, source)).filter((word) => word.startsWith(typed));
  const [only] = found;
  // Readline adds nothing after the only candidate: the next word can begin, but for a folder, whose files follow.
  if (found.length === 1 && only !== undefined) return [[only.endsWith("/") ? only : `${only} `], typed];
  return [found, typed];
}

/** A line whose cursor is inside of the quoted text of a query. */
const openQuery = /^\s*(?:stemma\s+)?query\s(?:[^'"]*\s)?(?<quote>['"])(?<query>(?:(?!\k<quote>)[^])*)$/;

async function queryCandidates(query: string, typed: string): Promise<Completion> {
  // Loaded with the first query: its parser is the largest part of what the console needs.
  const { completeQuery } = await import("../../learning/query/complete-query.js");
  const begun = /\w*$/.exec(query)?.[0] ?? "";
  const kept = typed.slice(0, typed.length - begun.length);
  const words = completeQuery(query).map((word) => kept + word);
  return [words.length === 1 ? words.map((word) => `${word} `) : [...words], typed];
}

async function candidatesOf(
  words: readonly string[],
  { names, buildProgram }: CompletionSource,
): Promise<readonly string[]> {
  const typed = words.at(-1) ?? "";
  if (words[0] === "agent" && words.length > 1) return agentCandidates(words.slice(1));
  const program = await buildProgram(words);
  const own = words.length === 1 ? ownWords : [];
  const known = [...own, ...suggestions(program, words).map(({ word }) => word)];
  if (known.some((word) => word.startsWith(typed))) return known;
  const awaited = awaitedValue(program, words);
  if (awaited === undefined) return [];
  const kind = nameKindOf(awaited);
  if (kind !== undefined) return (await names(kind)).map(quoteWord);
  return awaited.name === "name" ? [] : filesLike(typed);
}

/** `agent` is a program of its own, which completes its commands itself. */
function agentCandidates(words: readonly string[]): Promise<readonly string[]> {
  return new Promise((resolve) => {
    const { program, args } = ownPart({ script: agentProgram, args: ["suggest", "--", ...words] });
    execFile(program, [...args], (error, stdout) => {
      resolve(error === null ? stdout.split("\n").map((each) => each.split("\t")[0] ?? "") : []);
    });
  });
}

/** Files and folders whose path begins so; folders end in a slash. */
async function filesLike(typed: string): Promise<readonly string[]> {
  const folder = typed.slice(0, typed.lastIndexOf("/") + 1);
  const entries = await readdir(folder === "" ? "." : folder, { withFileTypes: true }).catch(() => []);
  return entries
    .filter(({ name }) => !name.startsWith(".") || typed.slice(folder.length).startsWith("."))
    .map((entry) => quoteWord(`${folder}${entry.name}`) + (entry.isDirectory() ? "/" : ""))
    .sort();
}
