/** A verb of a model repository: a command that works on the repository of the working folder, or on a named fleet. */
import type { Command } from "commander";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { definePlainCommand, type PlainCommand } from "../plain-command.js";
import { findRepository } from "./find-repository.js";

/** Defines a verb whose home is that of the repository, unless the command line names a home, a server or a context. */
export function verb(declaration: PlainCommand): (command: Command) => Promise<void> {
  return async (command) => {
    const { run } = declaration;
    await definePlainCommand(command, {
      ...declaration,
      ...(run && { run: (choices, context) => run(choices, context).catch(adviseVerb) }),
    });
    command.hook("preAction", (_, action) => useRepository(action));
  };
}

/** Names the verb that lists the models of this repository; `stemma model list` shows those of another home. */
function adviseVerb(error: unknown): never {
  if (!isStemmaError(error, "MODEL_NOT_FOUND")) throw error;
  const message = error.message.replace("`stemma model list`", "`stemma list`");
  throw new StemmaError(error.code, message, { ...error.details, cause: error });
}

/** @throws NOT_FOUND outside of a repository, unless an option or the environment names a fleet */
export async function useRepository(action: Command): Promise<void> {
  const { home, server, context, fleet } = action.opts<Readonly<Record<string, string | undefined>>>();
  if (home !== undefined || server !== undefined || context !== undefined) return;
  const found = await findRepository();
  if (found !== undefined) {
    action.setOptionValueWithSource("home", found.home, "config");
    if (fleet === undefined) action.setOptionValueWithSource("fleet", found.fleet, "config");
    return;
  }
  const { STEMMA_HOME, STEMMA_SERVER, STEMMA_CONTEXT } = process.env;
  if ([STEMMA_HOME, STEMMA_SERVER, STEMMA_CONTEXT].some((each) => (each ?? "") !== "")) return;
  throw new StemmaError(
    "NOT_FOUND",
    "There is no model repository here or in a folder above. Make one with `stemma init`, or name a fleet with " +
      "--context or --home.",
  );
}
