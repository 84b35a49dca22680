/** Recipes in agent.json are checked when the agent starts. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { builtInRecipes, checkRecipes } from "../../../../agent/settings/check-recipes.js";
import { parseConfig } from "../../../../agent/settings/config.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { recipes } from "../../../../shared/train/recipes/registry.js";

it("accepts the recipes of the engine and names what is unknown, and what there is", async () => {
  const check = await builtInRecipes();
  const config = (settings: object): ReturnType<typeof parseConfig> =>
    parseConfig({ format: 1, lines: { cam: settings } }, "test");
  for (const { name } of recipes) checkRecipes(config({ recipe: name }), check);
  checkRecipes(config({}), check);
  checkRecipes(config({ recipe: "battery-soh", parameters: { trainable: "head" } }), check);
  for (const [settings, part, known] of [
    [{ recipe: "battery-so" }, "lines.cam.recipe", "battery-soh-gru"],
    [{ recipe: "battery-soh", parameters: { epoch: 1 } }, "lines.cam.parameters", "epochs"],
    [{ recipe: "battery-soh", parameters: { epochs: -1 } }, "lines.cam.parameters", "epochs"],
  ] as const)
    assert.throws(
      () => {
        checkRecipes(config(settings), check);
      },
      (error) =>
        isStemmaError(error, "CONFIG_INVALID") &&
        error.message.includes(part) &&
        error.message.includes(known),
    );
});
