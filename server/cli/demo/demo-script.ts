/**
 * The demo as a script: each step is a command that a person could type, run in a process of its own and shown with the
 * first lines of what it prints, in 78 columns.
 */
import { join, relative } from "node:path";
import { isExecutable, ownPart, type ProcessStart } from "../../../shared/adapters/own-program.js";
import { StemmaError } from "../../../shared/errors.js";
import { wrapLine } from "../../../shared/cli/text-width.js";
import type { Output } from "../../../shared/cli/output.js";
import type { ChildProcesses, EndedProcess, StartedProcess } from "./child-processes.js";

/** Columns of what the demo prints: a terminal of 80, and an indentation of two. */
const columns = 78;
/** Lines of a command's output that are shown. */
const shownLines = 4;

/** Returns a path as a person would type it in this folder. */
export function fromHere(path: string): string {
  const short = relative(process.cwd(), path);
  return short === "" || short.startsWith("..") ? path : short;
}

/** A word as a shell needs it. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** An option stays on the line of its value. */
function inPairs(words: readonly string[]): readonly string[] {
  const parts: string[] = [];
  for (const word of words.map(quoted)) {
    const last = parts.at(-1);
    if (last?.startsWith("--") === true && !last.includes(" ") && !word.startsWith("--"))
      parts[parts.length - 1] = `${last} ${word}`;
    else parts.push(word);
  }
  return parts;
}

/** A command as lines that a person can paste: broken between words, with a backslash at the end of each. */
export function commandLines(words: readonly string[], end = ""): readonly string[] {
  const lines: string[] = [];
  let line = "$";
  for (const part of inPairs(words)) {
    if (line.length + 1 + part.length + 2 > columns && line.trim() !== "$") {
      lines.push(`${line} \\`);
      line = `    ${part}`;
    } else line += ` ${part}`;
  }
  return [...lines, `${line}${end}`];
}

/** The lines of a text that was broken to a terminal's columns, as they were before. */
function unbroken(text: string): readonly string[] {
  const lines: string[] = [];
  for (const line of text.split("\n").filter((each) => each.trim() !== ""))
    if (/^ {4}/.test(line) && lines.length > 0) lines.push(`${lines.pop() ?? ""} ${line.trimStart()}`);
    else lines.push(line);
  return lines;
}

/** The first lines of a text, broken to the demo's columns; where there are more, the last one ends with "…". */
export function firstLines(text: string, most = shownLines): readonly string[] {
  const lines = unbroken(text).flatMap((line) => wrapLine(`  ${line}`, columns - 2));
  const shown = lines.slice(0, most);
  return lines.length <= most ? lines : [...shown.slice(0, -1), `${shown.at(-1) ?? ""} …`];
}

/** The lines of a table, cut between its columns where it is wider than the demo's. */
function tableLines(text: string): readonly string[] {
  const lines = text.trimEnd().split("\n");
  if (lines.every((line) => line.length + 2 <= columns)) return lines.map((line) => `  ${line}`);
  const isGap = (at: number): boolean => lines.every((line) => line.slice(at - 2, at).trim() === "");
  let end = columns - 4;
  while (end > 2 && !isGap(end)) end--;
  return lines.map((line) => `  ${line.slice(0, end).trimEnd()} …`);
}

export interface ScriptOptions {
  readonly processes: ChildProcesses;
  readonly output: Output;
  /** Folder of the built programs: dist/. */
  readonly programs: string;
  /** The agent's executable; absent: its commands are parts of this program. */
  readonly agent?: string | undefined;
  /** Variables of every command, such as its home. */
  readonly environment: Readonly<Record<string, string>>;
}

export interface Step {
  /** Exit statuses that are not failures; 0 alone where absent. */
  readonly statuses?: readonly number[];
  /** The most lines of its output that are shown. */
  readonly lines?: number;
  /** True if its output is a table: lines that are too wide lose their end. */
  readonly isTable?: boolean;
}

export class DemoScript {
  constructor(private readonly options: ScriptOptions) {}

  /** Prints a sentence. */
  say(text: string): void {
    for (const line of wrapLine(text, columns)) this.options.output.info(line);
  }

  /** Begins a part of the script. */
  heading(text: string): void {
    this.options.output.info(`\n# ${text}`);
  }

  /** Shows a command, runs it, and shows what it printed. Returns that. @throws CHECK_FAILED where it fails */
  async run(
    words: readonly string[],
    { statuses = [0], lines, isTable = false }: Step = {},
  ): Promise<string> {
    for (const line of commandLines(["stemma", ...words])) this.options.output.info(line);
    const ended = await this.#end(words);
    if (!statuses.some((status) => status === ended.status)) throw failed(words, ended);
    const shown = isTable ? tableLines(ended.stdout) : firstLines(ended.stdout, lines);
    for (const line of shown) this.options.output.info(line);
    return ended.stdout;
  }

  /** Runs a command without showing it. Returns what it prints. @throws CHECK_FAILED where it fails */
  async tell(words: readonly string[], statuses: readonly number[] = [0]): Promise<string> {
    const ended = await this.#end(words);
    if (!statuses.some((status) => status === ended.status)) throw failed(words, ended);
    return ended.stdout;
  }

  /** Runs a command without showing it. Returns what it prints as JSON; undefined where it finds nothing. */
  async ask<T>(...words: readonly string[]): Promise<T | undefined> {
    const ended = await this.#end([...words, "-o", "json"]);
    if (ended.status === 3) return undefined;
    if (ended.status !== 0) throw failed(words, ended);
    return JSON.parse(ended.stdout) as T;
  }

  /** Shows a command that stays, and starts it. */
  start(name: string, words: readonly string[]): StartedProcess {
    const { processes, environment, output } = this.options;
    for (const line of commandLines(["stemma", ...words], " &")) output.info(line);
    return processes.start(name, this.#program(words, true), environment);
  }

  #end(words: readonly string[]): Promise<EndedProcess> {
    const { processes, environment } = this.options;
    return processes.run(this.#program(words, false), environment);
  }

  #program(words: readonly string[], stays: boolean): Pick<ProcessStart, "program" | "args"> {
    const { programs, agent } = this.options;
    const isAgent = words[0] === "agent";
    const args = isAgent ? words.slice(1) : words;
    if (isAgent && agent !== undefined) return { program: agent, args };
    // An executable has no second form for short commands.
    const file =
      stays || isExecutable()
        ? `${isAgent ? "agent" : "server"}/cli/main.js`
        : `bundle/${isAgent ? "agent" : "stemma"}.cjs`;
    return ownPart({ script: join(programs, file), args });
  }
}

function failed(words: readonly string[], { status, stderr }: EndedProcess): StemmaError {
  return new StemmaError(
    "CHECK_FAILED",
    `stemma ${words.join(" ")} ended with ${status}: ${stderr.trim().slice(-1000)}\nRun the demo again; it goes on from here.`,
  );
}
