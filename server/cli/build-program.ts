/**
 * The program `stemma` with all its commands, of which the named one is loaded and runs; errors become text and an
 * exit status.
 */
import { Command, CommanderError } from "commander";
import { programVersion } from "../../shared/adapters/program-version.js";
import { reportError } from "../../shared/cli/command-line.js";
import { exitStatus } from "../../shared/errors.js";
import { addNamedCommands, isGroup } from "./command-modules.js";
import { addGlobalOptions } from "./context.js";
import { splitLeadingOptions, withLeadingOptions } from "./leading-options.js";

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
    const program = await buildProgram(rest);
    await program.parseAsync([...withLeadingOptions(program, leading, rest)], { from: "user" });
    return Number(process.exitCode ?? exitStatus.done);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitStatus.done : exitStatus.usage;
    const form = argv.includes("json") ? "json" : undefined;
    return reportError(error, form, argv.includes("--verbose"));
  }
}

/** The program with the names of all commands, of which the one that the arguments name is loaded. */
export async function buildProgram(argv: readonly string[]): Promise<Command> {
  const program = new Command("stemma");
  program
    .description("Lineage, exact recovery and rollout of the models of a fleet.")
    .version(programVersion())
    .exitOverride()
    .addHelpText("after", overview);
  program
    .configureHelp({ showGlobalOptions: true, sortSubcommands: false })
    .showHelpAfterError("(add --help to see how the command is used)");
  await addNamedCommands(program, argv);
  decorate(program);
  return program;
}

/** Global options on every command, and the same handling of errors. */
function decorate(command: Command): void {
  if (command.commands.length === 0 && !isGroup(command)) addGlobalOptions(command);
  command.exitOverride();
  command.commands.forEach(decorate);
}
