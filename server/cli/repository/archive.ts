/** `stemma archive`: stores all versions in fewer bytes, by a plan that keeps recoveries cheap. */
import type { Command } from "commander";
import { addApplyOptions, applyOrMove, type ApplyChoices } from "../commands/storage/plan.js";
import { withContext } from "../context.js";
import { useRepository } from "./verb.js";

const help = `
Makes a plan and applies it: stemma storage apply, whose help describes budgets and what
may happen meanwhile. Names, ids and bytes of versions stay; --dry-run shows the plan.

  stemma archive
  stemma archive --budget 3x --dry-run
`;

export function define(command: Command): void {
  addApplyOptions(command)
    .addHelpText("after", help)
    .hook("preAction", (_, action) => useRepository(action))
    .action(async (choices: ApplyChoices, action: Command) =>
      withContext(action, (context) => applyOrMove(choices, context)),
    );
}
