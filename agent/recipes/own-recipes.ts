/**
 * The recipes of the fleet's own that this device trains by: those that its settings name, as its server brought them.
 * Their code runs confined as on the server, or not at all. A device that demands releases runs only those that the
 * fleet's owner signed. (docs/recipes-of-your-own.md)
 */
import { join } from "node:path";
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import type { Files, Log } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { JobRecipe } from "../../shared/train/training.js";
import {
  ownRecipeName,
  readRecipeCommand,
  RecipeCollector,
  type NamedRecipes,
  type RecipeCommandBody,
} from "../../shared/wire/recipe-commands.js";
import type { ReleaseTrust } from "../releases/release-trust.js";
import type { AgentConfig } from "../settings/config.js";
import {
  readHeldRecipe,
  removeHeldRecipe,
  removeOthers,
  writeHeldRecipe,
  type HeldRecipe,
} from "./held-recipe.js";

export interface OwnRecipesOptions {
  readonly files: Files;
  readonly home: string;
  readonly config: Pick<AgentConfig, "lines" | "recipes">;
  readonly releases: Pick<ReleaseTrust, "requireRecipe">;
  readonly log: Log;
  /** A recipe came, or went: lines may train by it, or not any more. */
  onChange(): void;
}

/** One of them, for the status. */
export interface RecipeStatus {
  readonly name: string;
  /** Null: the server has not brought it. */
  readonly recipe: Hash | null;
  readonly version: number | null;
  /** The reason why it is not run although it is here; null: it is. */
  readonly refused: string | null;
}

export interface OwnRecipesStatus {
  /** A description of how this device confines their code; it runs none where it cannot. */
  readonly confinement: string;
  readonly recipes: readonly RecipeStatus[];
}

export class OwnRecipes {
  readonly #recipes = new Map<string, HeldRecipe>();
  readonly #collector = new RecipeCollector();
  /** Commands are answered one after the other. */
  readonly #queue = new SerialQueue();

  private constructor(
    private readonly options: OwnRecipesOptions,
    private readonly folder: string,
    private readonly names: ReadonlySet<string>,
  ) {}

  /** A file that is damaged counts as absent: the server brings the recipe again. */
  static async open(options: OwnRecipesOptions): Promise<OwnRecipes> {
    const { files, home, config, log } = options;
    const names = Object.values(config.lines).flatMap(({ recipe }) => ownRecipeName(recipe ?? "") ?? []);
    const own = new OwnRecipes(options, join(home, "recipes"), new Set(names));
    await removeOthers(files, own.folder, own.names);
    for (const name of own.names)
      try {
        const held = await readHeldRecipe(files, own.folder, name);
        if (held !== undefined) own.#recipes.set(name, held);
      } catch (error) {
        if (!isStemmaError(error)) throw error;
        log.warn("recipe-damaged", { recipe: name, text: error.message });
      }
    return own;
  }

  /** The answer to the command `recipes`. */
  async named(): Promise<NamedRecipes> {
    return {
      recipes: [...this.names].map((name) => ({ name, recipe: this.#recipes.get(name)?.recipe ?? null })),
      confinement: this.names.size === 0 ? "not needed" : await this.#confinement(),
    };
  }

  /**
   * Takes what the command `recipe` brings, or takes back; resolves once that is durable.
   * @throws ENVELOPE_MALFORMED, RECIPE_INVALID, RECIPE_UNKNOWN for one that no line names, RELEASE_REQUIRED and the
   * other errors of `requireRecipe`, FILE_FAILED, DISK_FULL; what was here before stays then
   */
  receive(body: unknown): Promise<NamedRecipes> {
    return this.#queue.run(async () => {
      await this.#receive(readRecipeCommand(body));
      return await this.named();
    });
  }

  async #receive(command: RecipeCommandBody): Promise<void> {
    const { name } = command;
    if (!this.names.has(name))
      throw new StemmaError(
        "RECIPE_UNKNOWN",
        `No line of this device trains by the recipe ${name}, so it is not kept. Name it in agent.json: ` +
          `lines.LINE.recipe "own:${name}".`,
        { recipe: name },
      );
    const { files, releases, log } = this.options;
    if (command.recipe === null) {
      if (this.#recipes.delete(name)) await removeHeldRecipe(files, this.folder, name);
      log.warn("recipe-taken-back", {
        recipe: name,
        text: `the server takes the recipe ${name} back: ${command.because || "no reason given"}`,
      });
      this.options.onChange();
      return;
    }
    const { recipe, version } = command;
    await releases.requireRecipe(recipe);
    const bundle = this.#collector.take(command);
    if (bundle === undefined) return;
    const held = { name, version, recipe, bundle };
    await writeHeldRecipe(files, this.folder, held);
    this.#recipes.set(name, held);
    log.info("recipe-received", {
      recipe,
      text: `the server brought the recipe ${name} ${version} (${recipe.slice(0, 12)})`,
    });
    this.options.onChange();
  }

  /**
   * The recipe of a name, as it may be run now.
   * @param expected the bundle that a begun training has; absent: whichever is here
   * @throws RECIPE_NOT_APPROVED, RELEASE_REQUIRED and the other errors of `requireRecipe`
   */
  async require(name: string, expected?: Hash): Promise<HeldRecipe> {
    const held = this.#recipes.get(name);
    if (held === undefined)
      throw new StemmaError(
        "RECIPE_NOT_APPROVED",
        `The recipe ${name} is not on this device. The server brings it where a line names it (agent.json, ` +
          `lines.LINE.recipe "own:${name}") and it is approved there: \`stemma recipe approve\`.`,
        { recipe: name },
      );
    if (expected !== undefined && held.recipe !== expected)
      throw new StemmaError(
        "RECIPE_NOT_APPROVED",
        `The recipe ${name} is another one now (${held.recipe.slice(0, 12)}) than this training began with ` +
          `(${expected.slice(0, 12)}). The line trains by the new one when it is due.`,
        { recipe: name, expected, actual: held.recipe },
      );
    await this.options.releases.requireRecipe(held.recipe);
    return held;
  }

  /** Returns why no training by this recipe can begin now; undefined: one can, as far as is known before. */
  async whyNot(name: string): Promise<string | undefined> {
    try {
      await this.require(name);
      return undefined;
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      return error.message;
    }
  }

  /**
   * The part of a job that names an own recipe, with its bundle in `folder`.
   * @throws as `require`; CONFINEMENT_FAILED
   */
  async jobRecipe(name: string, expected: Hash, folder: string): Promise<JobRecipe> {
    const { bundle } = await this.require(name, expected);
    // Loaded when first used: most devices train by built-in recipes.
    const { placeRecipe } = await import("../../shared/train/own-recipes/job-recipe.js");
    return await placeRecipe(bundle, { folder, confinement: this.options.config.recipes.confinement });
  }

  /** Returns the recipes for the agent's status. */
  async status(): Promise<OwnRecipesStatus | null> {
    if (this.names.size === 0) return null;
    const recipes: RecipeStatus[] = [];
    for (const name of this.names) {
      const held = this.#recipes.get(name);
      const refused = held === undefined ? undefined : await this.whyNot(name);
      recipes.push({
        name,
        recipe: held?.recipe ?? null,
        version: held?.version ?? null,
        refused: refused ?? null,
      });
    }
    return { confinement: await this.#confinement(), recipes };
  }

  /** Describes how this device confines their code. */
  async #confinement(): Promise<string> {
    const { whyUnconfined } = await import("../../shared/train/own-recipes/confinement.js");
    const why = await whyUnconfined().catch(messageOf);
    if (why === undefined) return "confined by namespaces";
    return this.options.config.recipes.confinement === "interpreter"
      ? `by the interpreter alone, as its owner set: ${why}`.slice(0, 500)
      : `refused: namespaces do not confine here (${why})`.slice(0, 500);
  }
}
