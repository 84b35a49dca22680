/** Global options before the command: `stemma --home DIR model list` means `stemma model list --home DIR`. Pure. */
import { Command } from "commander";
import { addGlobalOptions } from "./context.js";

/**
 * Splits off the global options that come before the command's name. What is not one of them stays, so that the
 * parser reports it.
 */
export function splitLeadingOptions(argv: readonly string[]): {
  readonly leading: readonly string[];
  readonly rest: readonly string[];
} {
  const { options } = addGlobalOptions(new Command());
  let at = 0;
  for (let arg = argv[at]; arg !== undefined; arg = argv[at]) {
    const [name = ""] = arg.split("=", 1);
    const option = options.find(({ long, short }) => name === long || name === short);
    if (option !== undefined) at += option.required && !arg.includes("=") ? 2 : 1;
    // "-ojson"
    else if (
      options.some(({ short, required }) => short && required && /^-[^-]./.test(arg) && arg.startsWith(short))
    )
      at++;
    else break;
  }
  return { leading: argv.slice(0, at), rest: argv.slice(at) };
}

/**
 * Puts the leading options behind the words of the command: of an option that is given twice the last one counts.
 * Where the words name no command they are left out, so that this is what the error is about.
 */
export function withLeadingOptions(
  program: Command,
  leading: readonly string[],
  rest: readonly string[],
): readonly string[] {
  let command = program;
  let words = 0;
  for (;;) {
    const word = rest[words];
    const named = command.commands.find((child) => child.name() === word || child.alias() === word);
    if (named === undefined) break;
    command = named;
    words++;
  }
  if (words === 0 || command.commands.length > 0) return rest;
  // Its own commands follow, and take them.
  if (command.name() === "agent") return [...rest, ...leading];
  return [...rest.slice(0, words), ...leading, ...rest.slice(words)];
}
