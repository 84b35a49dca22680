/** `stemma recipe list|show`: the registered training procedures; and the commands of own ones. */
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { withContext } from "../context.js";
import { addOwnRecipeCommands, listOwnRecipes } from "./recipe-own.js";

export function addRecipeCommands(recipe: Command): void {
  addBuiltInCommands(recipe);
  addOwnRecipeCommands(recipe);
}

function addBuiltInCommands(recipe: Command): void {
  recipe
    .command("list")
    .option("--own", "those that were approved in this fleet, instead of the built-in ones", false)
    .description("names, versions and what they train")
    .action(async ({ own }: { own: boolean }, command: Command) =>
      withContext(command, async (context) => {
        const { output } = context;
        if (own) return await listOwnRecipes(context);
        const { listRecipes } = await import("../../../shared/train/recipes/registry.js");
        const rows = listRecipes();
        output.printRows(rows, {
          nameOf: (row) => row.name,
          columns: [
            { title: "RECIPE", value: (row) => row.name },
            { title: "VERSION", value: (row) => row.version },
            { title: "TRAINS", value: (row) => row.description },
          ],
        });
      }),
    );
  recipe
    .command("show")
    .argument("<name>")
    .description("parameters of a recipe: defaults and meanings")
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, async ({ output }) => {
        const { listRecipes } = await import("../../../shared/train/recipes/registry.js");
        const found = listRecipes().find((row) => row.name === name);
        if (!found)
          throw new StemmaError(
            "RECIPE_UNKNOWN",
            `${name} is not the name of a recipe. List them with: stemma recipe list`,
          );
        const rows = Object.keys(found.help);
        output.print({
          data: found,
          names: [name],
          table: {
            rows,
            columns: [
              { title: "PARAMETER", value: (parameter) => parameter },
              { title: "BASE TRAINING", value: (parameter) => defaultText(found.base[parameter]) },
              { title: "FINE-TUNING", value: (parameter) => defaultText(found.parameters[parameter]) },
              { title: "MEANING", value: (parameter) => found.help[parameter] },
            ],
          },
        });
      }),
    );
}

/** A default of one kind of training; a parameter that this kind does not have is shown as "-". */
function defaultText(value: string | number | boolean | undefined): string {
  return value === undefined ? "-" : String(value);
}
