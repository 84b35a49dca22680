/**
 * The program `stemma` with all its commands, of which the named one is loaded and runs; errors become text and an
 * exit status.
 */
import { Command, CommanderError, Help } from "commander";
import { versionText } from "../../shared/adapters/program-version.js";
import { reportError } from "../../shared/cli/command-line.js";
import { fittedHelp } from "../../shared/cli/fit-help.js";
import { exitStatus } from "../../shared/errors.js";
import { addNamedCommands, isGroup } from "./command-modules.js";
import { addGlobalOptions } from "./context.js";
import { splitLeadingOptions, withLeadingOptions } from "./leading-options.js";

/** The commands that the help of the program shows without --all, in its order. */
const shownAtFirst: ReadonlySet<string> = new Set([
  ...["demo", "server", "agent", "device", "fleet", "rollout"],
  ...["release", "model", "recipe", "replay", "storage", "doctor"],
]);

const moreCommands = `
In a model repository, worked in as with git:
  stemma init, add, status, commit, copy, archive, list, desc, diff, eval, query

stemma --help --all shows every command.
`;

const overview = `
When something looks wrong:
  stemma model verify MODEL   is this one model still exactly what was saved?
  stemma storage check        is everything that is stored readable and intact?
  stemma doctor               is this machine and this home fit to run Stemma?

Exit status: 0 done, 1 failed, 2 usage, 3 not found, 4 verification failed, 5 partly done, 124 timed out,
130 interrupted.
Data goes to stdout, everything else to stderr; -o json is for programs.
`;

/** @returns the exit status; a command that did only a part has set `process.exitCode` itself */
export async function runCommandLine(argv: readonly string[]): Promise<number> {
  try {
    const { leading, rest } = splitLeadingOptions(argv);
    const { words, showsAll } = splitHelpOfAll(rest);
    const program = await buildProgram(words, showsAll);
    await program.parseAsync([...withLeadingOptions(program, leading, words)], { from: "user" });
    return Number(process.exitCode ?? exitStatus.done);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitStatus.done : exitStatus.usage;
    const form = argv.includes("json") ? "json" : undefined;
    return reportError(error, form, argv.includes("--verbose"));
  }
}

const helpWords: readonly string[] = ["--help", "-h", "help"];

/** `--help --all` without its `--all`, which belongs to the help of the program alone. Pure. */
function splitHelpOfAll(argv: readonly string[]): {
  readonly words: readonly string[];
  readonly showsAll: boolean;
} {
  const words = argv.filter((word) => word !== "--all");
  const isHelp = words.length > 0 && words.every((word) => helpWords.includes(word));
  return isHelp && words.length < argv.length ? { words, showsAll: true } : { words: argv, showsAll: false };
}

/**
 * The program with the names of all commands, of which the one that the arguments name is loaded.
 * @param showsAll whether its help lists every command, and not only those that most readers need
 */
export async function buildProgram(argv: readonly string[], showsAll = false): Promise<Command> {
  const program = new Command("stemma");
  program
    .description("Lineage, exact recovery and rollout of the models of a fleet.")
    .version(versionText())
    .exitOverride()
    .addHelpText("after", showsAll ? overview : moreCommands + overview);
  program
    .configureHelp({
      showGlobalOptions: true,
      sortSubcommands: false,
      ...(showsAll ? {} : { formatHelp: formatFirstHelp }),
    })
    .showHelpAfterError("(add --help to see how the command is used)");
  await addNamedCommands(program, argv, buildProgram);
  decorate(program);
  return program;
}

/** Formats the first help. Its list is shorter: a misspelt name is still compared with those of all commands. */
function formatFirstHelp(command: Command, helper: Help): string {
  const shorter = Object.create(helper) as Help;
  shorter.visibleCommands = (of) => {
    const all = helper.visibleCommands(of);
    return of.parent === null ? all.filter((each) => shownAtFirst.has(each.name())) : all;
  };
  return Help.prototype.formatHelp.call(shorter, command, shorter);
}

/** Global options on every command but the agent's, whose program gets all as written; the same handling of errors. */
function decorate(command: Command): void {
  if (command.commands.length === 0 && !isGroup(command) && command.name() !== "agent")
    addGlobalOptions(command);
  command.exitOverride().configureOutput(fittedHelp);
  command.commands.forEach(decorate);
}
