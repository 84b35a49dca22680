/** The benchmark of exactness leaves no recipe out. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { recipes } from "../../../shared/train/recipes/registry.js";
import { exactnessCases } from "../../bench/exactness-cases.js";

test("every built-in recipe is trained by the benchmark of exactness", () => {
  const cases = exactnessCases("/data");
  const tried = new Set(cases.map(({ recipe }) => recipe));
  assert.deepEqual(
    recipes.map(({ name }) => name).filter((name) => !tried.has(name)),
    [],
    "add a case to test/bench/exactness-cases.ts",
  );
  for (const { recipe, startsFrom } of cases)
    assert.ok(startsFrom === undefined || tried.has(startsFrom), recipe);
});
