/** Answers commands of the server: runs them, or refuses those that are stale or not believed. */
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError } from "../../shared/errors.js";
import type { Log } from "../../shared/ports.js";
import { requestField } from "../../shared/request-id.js";
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

/** Commands by which a person only looks. */
const lookingCommands: ReadonlySet<string> = new Set(["logs", "report"]);

/** Writes a command to the log: one that the server sends by itself, or a person only to look, at level debug alone. */
export function logCommand(
  log: Log,
  { name }: Command,
  { request, code, ms }: { readonly request: string | undefined; readonly code: string; readonly ms: number },
): void {
  const isOrder = request !== undefined && !lookingCommands.has(name);
  log[isOrder ? "info" : "debug"]("command", {
    command: name.slice(0, 40),
    ...requestField({ request }),
    ...(code === "" ? {} : { code }),
    ms,
    text: `the server's command ${name.slice(0, 40)} ${code === "" ? "was carried out" : `ended with ${code}`}`,
  });
}
