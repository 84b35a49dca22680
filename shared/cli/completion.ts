/** Finds what can come next on a command line, for the completion of a shell. Pure. */
import type { Argument, Command, Option } from "commander";

export interface Suggestion {
  readonly word: string;
  readonly about: string;
}

/**
 * @param words those after the program's name; the last one is being typed, and may be empty
 * @returns what begins with the last word; empty where a name of the user's is expected, or a file
 */
export function suggestions(program: Command, words: readonly string[]): readonly Suggestion[] {
  const typed = words.at(-1) ?? "";
  const { command, expects, position } = placeOf(program, words.slice(0, -1));
  const [name = "", value] = typed.split("=", 2);
  const assigned = value === undefined ? undefined : optionOf(command, name);
  const found =
    expects !== undefined
      ? choicesOf(expects)
      : assigned !== undefined
        ? choicesOf(assigned).map(({ word, about }) => ({ word: `${name}=${word}`, about }))
        : typed.startsWith("-")
          ? optionsOf(command)
          : [...commandsOf(command), ...argumentChoices(command, position)];
  return found.filter(({ word }) => word.startsWith(typed));
}

/**
 * The name of the argument, or the long option, whose value the last word is: "device", "--device". Undefined where
 * something else is being typed.
 */
export function awaitedValue(
  program: Command,
  words: readonly string[],
): { readonly command: Command; readonly name: string } | undefined {
  const { command, expects, position } = placeOf(program, words.slice(0, -1));
  const typed = words.at(-1) ?? "";
  const name = expects?.long ?? (typed.startsWith("-") ? undefined : argumentAt(command, position)?.name());
  return name === undefined ? undefined : { command, name };
}

interface Place {
  /** The innermost command that the words name. */
  readonly command: Command;
  /** The option whose value comes next. */
  readonly expects: Option | undefined;
  /** Arguments of the command so far. */
  readonly position: number;
}

function placeOf(program: Command, words: readonly string[]): Place {
  let command = program;
  let expects: Option | undefined;
  let position = 0;
  for (const word of words) {
    if (expects !== undefined) {
      expects = undefined;
      continue;
    }
    if (word.startsWith("-")) {
      const option = word.includes("=") ? undefined : optionOf(command, word);
      if (option?.required === true) expects = option;
      continue;
    }
    const below = command.commands.find((each) => each.name() === word || each.aliases().includes(word));
    if (below === undefined) position++;
    else {
      command = below;
      position = 0;
    }
  }
  return { command, expects, position };
}

function optionOf(command: Command, name: string): Option | undefined {
  return visibleOptions(command).find(({ long, short }) => name === long || name === short);
}

function visibleOptions(command: Command): readonly Option[] {
  const help = command.createHelp();
  return [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)];
}

function optionsOf(command: Command): readonly Suggestion[] {
  return visibleOptions(command).flatMap(({ long, description }) =>
    long == null ? [] : [{ word: long, about: description }],
  );
}

function commandsOf(command: Command): readonly Suggestion[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .map((each) => ({ word: each.name(), about: each.description() }));
}

function choicesOf({
  argChoices = [],
}: {
  readonly argChoices?: readonly string[] | undefined;
}): readonly Suggestion[] {
  return argChoices.map((word) => ({ word, about: "" }));
}

function argumentChoices(command: Command, position: number): readonly Suggestion[] {
  const argument = argumentAt(command, position);
  return argument === undefined ? [] : choicesOf(argument);
}

function argumentAt(command: Command, position: number): Argument | undefined {
  const expected = command.registeredArguments;
  const last = expected.at(-1);
  return expected[position] ?? (last?.variadic === true ? last : undefined);
}

/** One line each: the word, a tab, what it is. */
export function suggestionLines(found: readonly Suggestion[]): string {
  return found.map(({ word, about }) => `${word}\t${about.replaceAll(/\s+/g, " ")}\n`).join("");
}
