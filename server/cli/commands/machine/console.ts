/** `stemma console`: an interactive prompt over the same commands, or commands from standard input. */
import type { Command } from "commander";
import { globalOptionsOf, type BuildProgram } from "../../context.js";
import { Output } from "../../../../shared/cli/output.js";

const help = `
Examples:
  stemma console --fleet cars
  stemma console < commands.txt       (stops at the first that fails; # begins a comment)
  echo "device list -o json" | stemma console --context prod

Words are quoted as in a shell; pipes and variables are a shell's. Options given here go to every
command, and a command's own win. On a terminal the last 1000 lines are kept in console-history in
the user's configuration folder; a line that begins with a space is not.
`;

export function define(command: Command, buildProgram: BuildProgram): void {
  command
    .option("--keep-going", "with commands from standard input: go on after one that failed", false)
    .addHelpText("after", help)
    .action(async ({ keepGoing }: { keepGoing: boolean }, command: Command) => {
      const output = new Output(globalOptionsOf(command).output);
      const { ConsoleOptions } = await import("../../console/console-options.js");
      const { runPrompt, runScript } = await import("../../console/run-console.js");
      const options = new ConsoleOptions(command);
      if (process.stdin.isTTY && process.stdout.isTTY) await runPrompt(options, output, buildProgram);
      else process.exitCode = await runScript(process.stdin, { options, output, keepGoing });
    });
}
