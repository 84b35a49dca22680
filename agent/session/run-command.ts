import { messageOf } from "../../shared/error-text.js";
import { isStemmaError } from "../../shared/errors.js";
import type { Command, CommandResult } from "../../shared/wire/messages.js";

/** Runs a command of the server. A failure is a result too, with its code; never rejects. */
export async function runCommand(
  run: (command: Command) => Promise<CommandResult>,
  command: Command,
): Promise<CommandResult> {
  try {
    return await run(command);
  } catch (error) {
    return {
      type: "commandResult",
      code: isStemmaError(error) ? error.code : "INTERNAL",
      json: JSON.stringify({ message: messageOf(error) }),
    };
  }
}
