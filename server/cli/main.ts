/** The `stemma` binary: runs one command, turns errors into text and exit status. */
import { CommanderError } from "commander";
import { exitStatus } from "../../shared/errors.js";
import { reportError } from "../../shared/cli/command-line.js";
import { exitWithParent } from "../../shared/cli/exit-with-parent.js";
import { buildProgram } from "./build-program.js";
import { splitLeadingOptions, withLeadingOptions } from "./leading-options.js";

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

// A reader that closes the pipe (| head) is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(exitStatus.done);
  throw error;
});
exitWithParent();
// The bundle is of a form that cannot await here.
void runCommandLine(process.argv.slice(2)).then((status) => {
  process.exitCode = status;
  if (process.env["STEMMA_EXIT_WITH_STDIN"] === "1") process.stdin.destroy();
});
