/** The global options that a console gives to each of its commands. Changed by `use`. */
import { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { addGlobalOptions, globalOptionsOf, type GlobalOptions } from "../context.js";
import { splitLeadingOptions } from "../leading-options.js";

/** Each names where commands work; one is named at a time. */
const places = ["home", "server", "context"];

export class ConsoleOptions {
  readonly #options = new Map<string, readonly string[]>();

  /** @param command that of the console, with the options that it was started with */
  constructor(command: Command) {
    this.#add(command);
  }

  /** The options as they come before a command. */
  get words(): readonly string[] {
    return [...this.#options.values()].flat();
  }

  /** @throws USAGE, NOT_FOUND, CONFIG_INVALID */
  read(): GlobalOptions {
    return globalOptionsOf(parse(this.words));
  }

  /**
   * Takes other options from now on: `use --fleet vans`.
   * @throws USAGE, NOT_FOUND or CONFIG_INVALID, and then nothing has changed
   */
  use(words: readonly string[]): void {
    const { leading, rest } = splitLeadingOptions(words);
    if (rest.length > 0 || leading.length === 0)
      throw new StemmaError(
        "USAGE",
        "`use` takes options that the commands after it get: use --fleet vans, use --context prod, use -o json.",
      );
    const before = [...this.#options];
    this.#add(parse(leading));
    try {
      this.read();
    } catch (error) {
      this.#options.clear();
      for (const [name, given] of before) this.#options.set(name, given);
      throw error;
    }
  }

  /** The fleet, and where it is: "cars", "cars@prod", "cars@stemma.example". */
  describe(): string {
    const { fleet, server } = this.read();
    const context = this.#options.get("context")?.[1];
    if (context !== undefined) return `${fleet}@${context}`;
    return server === undefined || !URL.canParse(server) ? fleet : `${fleet}@${new URL(server).host}`;
  }

  #add(command: Command): void {
    for (const option of addGlobalOptions(new Command()).options) {
      const name = option.attributeName();
      if (command.getOptionValueSource(name) !== "cli") continue;
      if (places.includes(name)) for (const place of places) this.#options.delete(place);
      const value: unknown = command.getOptionValue(name);
      const long = option.long ?? "";
      this.#options.set(name, typeof value === "string" ? [long, value] : [long]);
    }
  }
}

function parse(words: readonly string[]): Command {
  return addGlobalOptions(new Command())
    .exitOverride()
    .parse([...words], { from: "user" });
}
