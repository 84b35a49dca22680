/** `stemma agent suggest`: what can come next, for the completion of a shell (`stemma completion`). Not in the help. */
import type { Command } from "commander";
import { suggestionLines, suggestions } from "../../../shared/cli/completion.js";

export function addSuggest(program: Command): void {
  program
    .command("suggest", { hidden: true })
    .argument("[words...]", "the words after `stemma agent`, of which the last is being typed; after --")
    .action((words: readonly string[]) => {
      process.stdout.write(suggestionLines(suggestions(program, words)));
    });
}
