/**
 * Brings the fleet's own recipes to the connected devices whose lines name them, and takes back what is not approved
 * any more. A device says what its lines name and what it has; it gets the bundle that was approved last under each
 * name, and is never asked for one. What it was sent is a fact: it may name no other as what trained its models.
 */
import { messageOf } from "../../../../shared/error-text.js";
import { isStemmaError } from "../../../../shared/errors.js";
import type { SaveRecord } from "../../../../shared/model/model.js";
import type { Log } from "../../../../shared/ports.js";
import {
  readNamedRecipes,
  recipeParts,
  type NamedRecipes,
  type RecipeCommandBody,
} from "../../../../shared/wire/recipe-commands.js";
import type { KnownRecipe } from "../../../storage/repository/answers/code-answers.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import type { CommandRelay } from "./commands.js";
import type { RefusalDetails } from "./device-sender.js";

export interface RecipeSyncParts {
  readonly repository: Pick<FleetRepository, "knownRecipes" | "readRecipe" | "giveRecipe" | "wasGivenRecipe">;
  readonly commands: Pick<CommandRelay, "send">;
  readonly log: Log;
}

/** One part may take a while on a slow link. */
const answerMs = 120_000;

export class RecipeSync {
  /** Devices that are being told; true: something changed meanwhile, and they are asked again. */
  readonly #running = new Map<string, boolean>();

  constructor(private readonly parts: RecipeSyncParts) {}

  /** Brings a connected device what it lacks; resolves when it has answered, or has not. */
  async bring(device: string): Promise<void> {
    // Most fleets never had a recipe of their own.
    if (this.parts.repository.knownRecipes().length === 0) return;
    if (this.#running.has(device)) {
      this.#running.set(device, true);
      return;
    }
    this.#running.set(device, false);
    try {
      do {
        this.#running.set(device, false);
        await this.#bring(device);
      } while (this.#running.get(device) === true);
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      this.parts.log.info("recipes-not-brought", {
        device,
        code: error.code,
        text: `${device} gets the recipes of its lines when it connects again: ${messageOf(error)}`,
      });
    } finally {
      this.#running.delete(device);
    }
  }

  async #bring(device: string): Promise<void> {
    const answer = await this.#ask(device, "recipes", {});
    if (answer === undefined) return;
    const { recipes, confinement } = readNamedRecipes(answer);
    for (const named of recipes) await this.#bringOne(device, named);
    if (recipes.length > 0)
      this.parts.log.debug("recipes-brought", {
        device,
        text: `${device} has the recipes that its lines name and that are approved; ${confinement}`,
      });
  }

  async #bringOne(device: string, { name, recipe: held }: NamedRecipes["recipes"][number]): Promise<void> {
    const { repository, log } = this.parts;
    const known = repository.knownRecipes().filter((each) => each.name === name);
    const approved = known.filter(({ revoked, isStored }) => revoked === undefined && isStored).at(-1);
    if (approved === undefined) {
      if (held !== null) await this.#takeBack(device, name, known.at(-1));
      return;
    }
    const { recipe, version } = approved;
    if (held === recipe && repository.wasGivenRecipe(device, recipe)) return;
    const bundle = await repository.readRecipe(recipe);
    // Before the last part: what the device trains by it is taken from then on.
    await repository.giveRecipe(device, recipe);
    for (const part of recipeParts(bundle, { name, version }))
      if ((await this.#ask(device, "recipe", part)) === undefined) return;
    log.info("recipe-given", {
      device,
      recipe,
      text: `${device} was given the recipe ${name} ${version} (${recipe.slice(0, 12)})`,
    });
  }

  async #takeBack(device: string, name: string, known: KnownRecipe | undefined): Promise<void> {
    const because = known?.revoked?.because ?? "no recipe of this name is approved";
    await this.#ask(device, "recipe", { name, recipe: null, because: because.slice(0, 1000) });
  }

  /** Asks the device; undefined where it refuses, which is logged. @throws what CommandRelay.send throws */
  async #ask(
    device: string,
    name: "recipes" | "recipe",
    body: RecipeCommandBody | Readonly<Record<string, never>>,
  ): Promise<unknown> {
    const { code, result } = await this.parts.commands.send(device, { name, body }, answerMs);
    if (code === "") return result ?? {};
    const { message } = (result ?? {}) as { readonly message?: unknown };
    this.parts.log.warn("recipe-refused", {
      device,
      code,
      text:
        `${device} does not take the command ${name}: ${String(message).slice(0, 500)} ` +
        "An older agent does not know it; update it.",
    });
    return undefined;
  }
}

/**
 * Returns why an announced version may not be taken: a recipe of the fleet's own is code, and a device names
 * only those that it was given. Its bundle is never wanted of a device.
 */
export function refusalOfRecipe(
  repository: Pick<FleetRepository, "knownRecipes" | "wasGivenRecipe">,
  device: string,
  { uses }: Pick<SaveRecord, "uses">,
): Pick<RefusalDetails, "code" | "message"> | undefined {
  const recipe = uses?.recipe;
  if (recipe === undefined) return undefined;
  const isHere = (): boolean =>
    repository.knownRecipes().some((one) => one.recipe === recipe && one.isStored);
  if (repository.wasGivenRecipe(device, recipe) && isHere()) return undefined;
  return {
    code: "RECIPE_NOT_APPROVED",
    message:
      `The recipe ${recipe.slice(0, 12)} that trained this version was not given to ${device}: a device trains by ` +
      "the recipes that its server brings it, and sends none. Approve the recipe (`stemma recipe approve`), and let " +
      "the device's line name it.",
  };
}
