/** Of an agent that does not look at releases, and whose lines name no recipe of the fleet's own. */
import assert from "node:assert/strict";
import type { OwnRecipes } from "../../agent/recipes/own-recipes.js";
import type { ReleaseTrust } from "../../agent/releases/release-trust.js";

export const anyRelease: Pick<ReleaseTrust, "requireInstallable" | "requireOffered"> = {
  requireInstallable: () => Promise.resolve(),
  requireOffered: () => Promise.resolve(),
};

export const noRecipes: Pick<OwnRecipes, "require" | "jobRecipe" | "whyNot"> = {
  require: () => assert.fail("no line names a recipe of the fleet's own"),
  jobRecipe: () => assert.fail("no line names a recipe of the fleet's own"),
  whyNot: () => assert.fail("no line names a recipe of the fleet's own"),
};
