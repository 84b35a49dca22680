/** Of an agent that does not look at releases, and whose lines have no recipe of the fleet's own and no hooks. */
import assert from "node:assert/strict";
import type { SwitchHooks } from "../../agent/lines/switch-hooks.js";
import type { OwnRecipes } from "../../agent/recipes/own-recipes.js";
import type { ReleaseTrust } from "../../agent/releases/release-trust.js";

export const anyRelease: Pick<ReleaseTrust, "requireInstallable" | "requireOffered"> = {
  requireInstallable: () => Promise.resolve(),
  requireOffered: (_, __, { pipeline }) => Promise.resolve(pipeline?.id),
};

export const noRecipes: Pick<OwnRecipes, "require" | "jobRecipe" | "whyNot"> = {
  require: () => assert.fail("no line names a recipe of the fleet's own"),
  jobRecipe: () => assert.fail("no line names a recipe of the fleet's own"),
  whyNot: () => assert.fail("no line names a recipe of the fleet's own"),
};

/** Of an agent whose lines have no hooks. */
export const noHooks: Pick<SwitchHooks, "run"> = { run: () => Promise.resolve() };
