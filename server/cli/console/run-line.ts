/** Runs one line of the console: a word of its own, or a command in a process of its own. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { ownPart } from "../../../shared/adapters/own-program.js";
import { reportError } from "../../../shared/cli/command-line.js";
import { exitStatus, StemmaError } from "../../../shared/errors.js";
import type { ConsoleOptions } from "./console-options.js";
import { splitWords } from "./split-words.js";

const script = fileURLToPath(new URL("../main.js", import.meta.url));

export interface LineResult {
  readonly status: number;
  /** The user wants to leave. */
  readonly leaves: boolean;
}

const consoleHelp = `
In the console:
  use --fleet NAME      the commands after it get this option (also --context, --server, --home, -o)
  help [COMMAND]        all commands, or what one takes
  exit, quit, Ctrl-D    leave
`;

/** @param input "inherit" where commands may ask the person, "ignore" where standard input has the lines themselves */
export async function runLine(
  line: string,
  { options, input }: { readonly options: ConsoleOptions; readonly input: "inherit" | "ignore" },
): Promise<LineResult> {
  const done = (status: number): LineResult => ({ status, leaves: false });
  try {
    const typed = splitWords(line);
    const words = typed[0] === "stemma" || typed[0] === "./stemma" ? typed.slice(1) : typed;
    const [first, ...rest] = words;
    if (first === undefined) return done(exitStatus.done);
    if ((first === "exit" || first === "quit") && rest.length === 0)
      return { status: exitStatus.done, leaves: true };
    if (first === "use") {
      options.use(rest);
      return done(exitStatus.done);
    }
    if (first === "console") throw new StemmaError("USAGE", "This is the console already.");
    const isHelp = first === "help" && rest.length === 0;
    // The options of `agent` are those of its own program.
    const before = first === "agent" || first === "help" ? [] : options.words;
    const status = await runProgram([...before, ...words], input);
    if (isHelp) process.stdout.write(consoleHelp);
    return done(status);
  } catch (error) {
    return done(reportError(error, undefined, false));
  }
}

/**
 * Signals go on to the command, and leave the console as it is. From a terminal the command gets Ctrl-C twice within
 * moments, which it takes for one.
 */
async function runProgram(words: readonly string[], input: "inherit" | "ignore"): Promise<number> {
  const { program, args } = ownPart({ script, args: words });
  const child = spawn(program, [...args], { stdio: [input, "inherit", "inherit"] });
  const pass = (signal: NodeJS.Signals): void => {
    child.kill(signal);
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, pass);
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code) => {
        resolve(code ?? exitStatus.failed);
      });
    });
  } finally {
    for (const signal of signals) process.off(signal, pass);
  }
}
