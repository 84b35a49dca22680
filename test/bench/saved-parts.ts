/**
 * The finished parts of a long measurement, in a file, so that it can be ended at any time and continued in another
 * quiet hour. A part is measured again unless it was finished: nothing is measured in halves.
 *
 * The file has one JSON value a line: what was measured where, then the parts in the order in which they ended.
 */
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { commitHere, isCodeChanged, machineName, today } from "./machine.js";

/** All of it must be equal where a measurement goes on. */
export type MeasuredWhere = Readonly<Record<string, string>>;

export interface SavedParts {
  /** What was saved under this name, else what `measure` returns, which is saved. JSON keeps no undefined members. */
  part<Result>(name: string, measure: () => Promise<Result>): Promise<Result>;
  has(name: string): boolean;
  /** The days on which parts ended, first and last, as YYYY-MM-DD; none where there are no parts. */
  readonly days: readonly string[];
}

interface SavedPart {
  readonly part: string;
  readonly day: string;
  readonly result: unknown;
}

/**
 * Without a file nothing is kept beyond this process.
 * @throws Error where the file is of another commit, machine or selection, or is not one of saved parts
 */
export async function openSavedParts(
  file: string | undefined,
  where: MeasuredWhere,
  today: () => string,
): Promise<SavedParts> {
  const parts = new Map<string, SavedPart>();
  if (file !== undefined) for (const part of await readParts(file, where)) parts.set(part.part, part);
  return {
    has: (name) => parts.has(name),
    part: async <Result>(name: string, measure: () => Promise<Result>): Promise<Result> => {
      const known = parts.get(name);
      if (known !== undefined) return known.result as Result;
      const result = await measure();
      const part: SavedPart = { part: name, day: today(), result };
      parts.set(name, part);
      if (file !== undefined) await appendFile(file, `${JSON.stringify(part)}\n`);
      return result;
    },
    get days() {
      const all = [...parts.values()].map(({ day }) => day).sort();
      return all.length === 0 ? [] : [...new Set([all[0] as string, all.at(-1) as string])];
    },
  };
}

/**
 * Parts of one commit and machine, in the file of --resume.
 * @throws Error with a file where the code is not that of a commit
 */
export async function openPartsOfCommit(
  resume: string | undefined,
  what: MeasuredWhere,
): Promise<SavedParts> {
  if (resume === undefined) return await openSavedParts(undefined, {}, today);
  const commit = commitHere();
  if (commit === undefined || isCodeChanged())
    throw new Error(
      "--resume puts rounds of one commit together, and here the code is not that of a commit. Commit or undo the " +
        "changes first, or measure without --resume.",
    );
  return await openSavedParts(resume, { ...what, commit, machine: machineName() }, today);
}

/** Begins the file where there is none. A last line that was cut short is dropped. */
async function readParts(file: string, where: MeasuredWhere): Promise<readonly SavedPart[]> {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  if (whole === "") {
    await writeFile(file, `${JSON.stringify(where)}\n`);
    return [];
  }
  const [first, ...parts] = whole
    .trimEnd()
    .split("\n")
    .map((line) => parseLine(file, line));
  for (const [name, expected] of Object.entries(where)) {
    const saved = (first as Record<string, unknown>)[name];
    if (saved !== expected)
      throw new Error(
        `The measurement in ${file} has another ${name}: ${JSON.stringify(saved)}, and here it is ` +
          `${JSON.stringify(expected)}. Figures of both do not belong in one report. Name another file to begin anew.`,
      );
  }
  if (whole !== text) await writeFile(file, whole);
  return parts as readonly SavedPart[];
}

function parseLine(file: string, line: string): unknown {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // Said below.
  }
  throw new Error(
    `${file} is not a file of saved measurements, or it is damaged. Name another file to begin anew.`,
  );
}
