import { messageOf } from "../../shared/error-text.js";
import { isStemmaError } from "../../shared/errors.js";
import type { Command, CommandResult } from "../../shared/wire/messages.js";

/** The answer to a command of a server that is not believed. */
export function refuseCommand(doubt: string): CommandResult {
  const message = `The command was not run: ${doubt}.`;
  return { type: "commandResult", code: "HISTORY_UNPROVEN", json: JSON.stringify({ message }) };
}

/** The answer to a command that the server signed, and that came too late or out of order. */
export function refuseStale(why: string): CommandResult {
  const message = `The command was not run: ${why}. Send it again.`;
  return { type: "commandResult", code: "TIMED_OUT", json: JSON.stringify({ message }) };
}

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
