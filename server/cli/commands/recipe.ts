/** `stemma recipe list|show`: the registered training procedures. */
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { withContext } from "../context.js";

export function addRecipeCommands(program: Command): void {
  const recipe = program
    .command("recipe")
    .description("training procedures that devices and this machine can run");
  recipe
    .command("list")
    .description("names, versions and what they train")
    .action(async (_: unknown, command: Command) =>
      withContext(command, async ({ output }) => {
        const { listRecipes } = await import("../../../shared/train/recipes/registry.js");
        const rows = listRecipes();
        output.print({
          data: rows,
          names: rows.map((row) => row.name),
          table: {
            rows,
            columns: [
              { title: "RECIPE", value: (row) => row.name },
              { title: "VERSION", value: (row) => row.version },
              { title: "WHAT", value: (row) => row.description },
            ],
          },
        });
      }),
    );
  recipe
    .command("show")
    .argument("<name>")
    .description("parameters of a recipe with their defaults")
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, async ({ output }) => {
        const { listRecipes } = await import("../../../shared/train/recipes/registry.js");
        const found = listRecipes().find((row) => row.name === name);
        if (!found)
          throw new StemmaError(
            "RECIPE_UNKNOWN",
            `No recipe is called ${name}. See them with: stemma recipe list`,
          );
        const rows = Object.entries(found.parameters);
        output.print({
          data: found,
          names: [name],
          table: {
            rows,
            columns: [
              { title: "PARAMETER", value: ([key]) => key },
              { title: "DEFAULT", value: ([, value]) => String(value) },
            ],
          },
        });
      }),
    );
}
