/** `evaluate` as it is checked and planned: grids, drawn settings, layers, saved queries, and errors at their place. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseQuery } from "../../../../../server/learning/query/parse-query.js";
import {
  compileEvaluation,
  type CompiledEvaluation,
} from "../../../../../server/learning/query/evaluate/compile-evaluation.js";
import type { Settings } from "../../../../../server/learning/query/evaluate/settings.js";
import { checkModelsQuery, runQuery } from "../../../../../server/learning/query/run-query.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import { seededNumbers } from "../../../../../shared/random/seeded-numbers.js";
import { recipes } from "../../../../../shared/train/recipes/registry.js";
import { plainModels, sourceOf } from "../../../../helpers/query-fleet.js";

const config: Settings = { recipe: "image-classify", input_data: "digits", base_lr: 0.05, epochs: 2 };
const rest = 'with config = "c" vary config.base_lr in [0.1] keep top(2, m["loss"], 100)';

function compile(text: string, given: Settings = config, seed = "1"): CompiledEvaluation {
  const statement = parseQuery(text);
  assert.ok(statement.kind === "evaluate");
  return compileEvaluation(statement, text, {
    config: given,
    seed,
    recipeOf: (name) => recipes.find((recipe) => recipe.name === name),
  });
}

test("random grids have the combinations that nested loops have, in their order", () => {
  const next = seededNumbers(Number(process.env["STEMMA_TEST_SEED"] ?? 1));
  const draw = (below: number): number => Math.floor(next() * below);
  const known = [
    ["base_lr", ["0.1", "0.02", "3e-3"]],
    ["batch", ["1", "16", "64"]],
    ["optimizer", ['"sgd"', '"adam"']],
    ["input_data", ['"a b"', '"path2"']],
    ["nesterov", ["true", "false"]],
  ] as const;
  for (let at = 0; at < 60; at++) {
    const chosen = known
      .filter(() => draw(2) === 0)
      .map(([name, values]) => [name, values.slice(0, 1 + draw(3))] as const);
    const vary = chosen.map(([name, values]) => `config.${name} in [${values.join(", ")}]`);
    const text = `evaluate m in (select x) with config = "c" ${vary.length === 0 ? "" : `vary ${vary.join(draw(2) ? " and " : ", ")}`} keep top(1, m["loss"], 5)`;
    let expected: Record<string, unknown>[] = [{}];
    for (const [name, values] of chosen)
      expected = expected.flatMap((before) =>
        values.map((value) => ({ ...before, [name]: JSON.parse(value) as unknown })),
      );
    const { combinations } = compile(text);
    assert.deepEqual(
      combinations.map(({ varied }) => varied),
      expected,
    );
    for (const { varied, data, parameters } of combinations) {
      assert.equal(data, varied["input_data"] ?? "digits");
      assert.equal(parameters["learningRate"], varied["base_lr"] ?? 0.05);
      assert.equal(parameters["batchSize"], varied["batch"]);
      assert.equal(parameters["epochs"], 2);
    }
  }
});

test("auto is a grid, or values that the seed draws", () => {
  const query = (values: string): string =>
    `evaluate m from (select x) with config = "c" vary config.lr ${values} keep top(1, m["loss"])`;
  const valuesOf = (text: string, seed?: string) => compile(text, config, seed).dimensions[0]?.values;
  assert.deepEqual(valuesOf(query("auto")), [0.1, 0.01, 0.001]);
  const drawn = valuesOf(query("auto random(20)")) ?? [];
  assert.equal(new Set(drawn).size, 20);
  assert.ok(drawn.every((value) => Number(value) >= 1e-4 && Number(value) < 1));
  assert.deepEqual(valuesOf(query("auto random(20)")), drawn);
  assert.notDeepEqual(valuesOf(query("auto random(20)"), "2"), drawn);
});

const refused: readonly (readonly [query: string, at: string, reason: RegExp])[] = [
  ['vary config.net["conv*"].lr in [0.5] keep top(1, m["loss"], 9)', "0.5", /one rate/],
  ['vary config.net["conv*"].decay auto keep top(1, m["loss"], 9)', "config.net", /rate of their own alone/],
  ['vary config.epochs auto keep top(1, m["loss"], 9)', "auto", /auto has values for learningRate/],
  ['vary config.lr auto random(900) keep top(1, m["loss"], 9)', "auto", /1 to 360/],
  ['vary config.lr in [0.1, 0.1] keep top(1, m["loss"], 9)', "0.1] keep", /twice/],
  [
    'vary config.lr in [0.1] and config.base_lr in [0.2] keep top(1, m["loss"], 9)',
    "config.base_lr",
    /varied twice/,
  ],
  ['vary config.momentums in [1] keep top(1, m["loss"], 9)', "config.momentums", /no parameter "momentums"/],
  ['vary config.lr in [99] keep top(1, m["loss"], 9)', "config.lr", /does not accept 99/],
  [
    'vary config.recipe in ["fine-tune"] and config.net["a"].lr auto keep top(1, m["loss"], 9)',
    "config.net",
    /trains all/,
  ],
  ['keep top(1, m["accuracy"], 9)', '"accuracy"', /leave the number of steps away/],
  ['keep top(1, m["speed"])', '"speed"', /loss and validation, and accuracy when/],
  ['keep above(m["loss"], 3)', '"loss"', /the lower loss, the better/],
  ['keep top(0, m["loss"], 9)', "top", /at least one/],
  ['keep top(1, m["loss"]) halving', "top", /number of steps/],
  ['keep top(1, x["loss"], 9)', 'x["loss"]', /called m/],
  ["", "", /expected .*"keep"/],
];

test("what cannot be had is refused at its place", () => {
  for (const [query, at, reason] of refused) {
    const text = `evaluate m from (select x) with config = "c" ${query}`;
    assert.throws(
      () => compile(text),
      (error) => {
        assert.ok(isStemmaError(error, "QUERY_INVALID"), `${query}: ${String(error)}`);
        assert.match(error.message, reason);
        assert.equal(
          error.details["column"],
          1 + (at === "" ? text.length : text.lastIndexOf(at)),
          error.message,
        );
        return true;
      },
    );
  }
  const ofConfig: readonly (readonly [Settings, RegExp])[] = [
    [{ recipe: "image-classify" }, /no input_data/],
    [{ ...config, lr: 1 }, /learningRate twice/],
    [{ ...config, clipNorm: "x" }, /does not accept "x"/],
  ];
  for (const [given, reason] of ofConfig)
    assert.throws(() => compile(`evaluate m from (select x) ${rest.replace(/vary.*keep/, "keep")}`, given), {
      code: "QUERY_INVALID",
      message: reason,
    });
  const many = Array.from({ length: 40 }, (_, at) => at + 1).join(", ");
  assert.throws(
    () =>
      compile(
        `evaluate m from (select x) with config = "c" vary config.batch in [${many}], config.epochs in [${many}] keep top(1, m["loss"], 9)`,
      ),
    { code: "QUERY_TOO_LARGE" },
  );
});

test("queries begin from saved ones, not from themselves, and are refused when those are gone", async () => {
  const models = plainModels(12, (below) => below - 1);
  const saved = new Map([
    ["all", "select m"],
    ["first", 'select m from "all" where m.number = 1'],
    ["loop", 'select m from "loop2"'],
    ["loop2", 'select m from "loop"'],
    ["two", "select a, b"],
    ["cut", 'slice b from a mutate b.input = a["x"] and b.output = a["y"]'],
    ["old", 'evaluate m from "all" with config = "c" keep top(1, m["loss"])'],
  ]);
  const ask = async (text: string): Promise<readonly string[]> => {
    const { rows } = await runQuery({ ...sourceOf(models), saved }, text, { offset: 0, limit: 100 });
    return rows.map(([row]) => row?.versionId ?? "");
  };
  assert.deepEqual(await ask('select x from "first"'), await ask("select m where m.number = 1"));
  for (const [text, reason] of [
    ['select m from "none"', /line 1, column 15: there is no saved query of this name/],
    ['select m from "loop"', /loop.*cannot be used \(.*loop2.*cannot be used \(.*begin from itself/],
    ['select m from "two"', /column 15: .*selects one variable/],
    ['select m from "cut"', /derives models/],
    ['select m from "old"', /it trains them/],
    ['select m where m in (select x from "none")', /column 36/],
  ] as const)
    await assert.rejects(ask(text), { code: "QUERY_INVALID", message: reason });
  checkModelsQuery('select m from "first"', saved);
  checkModelsQuery(saved.get("cut") ?? "", saved);
  for (const text of ['select m from "x"', saved.get("old") ?? "", "select"])
    assert.throws(() => checkModelsQuery(text, saved), { code: "QUERY_INVALID" });
  const wide = new Map([["a0", "select m"]]);
  for (let at = 1; at < 12; at++)
    wide.set(
      `a${at}`,
      `select m where m in (select x from "a${at - 1}") and m in (select y from "a${at - 1}")`,
    );
  assert.throws(() => checkModelsQuery('select m from "a11"', wide), {
    message: /more than 100 saved queries/,
  });
});

test("a configuration without a recipe is for a program of the user's own, which may do more", () => {
  const of = (query: string) =>
    compile(`evaluate m from (select x) with config = "c" ${query}`, { input_data: "d", epochs: 3 });
  const { combinations, rule } = of('vary config.net["a"].lr in [0.5, 0, "base"] keep top(1, m["loss"], 9)');
  assert.deepEqual(
    combinations.map(({ recipe, data, layerRates }) => [recipe, data, layerRates.map(({ rate }) => rate)]),
    [
      [undefined, "d", [0.5]],
      [undefined, "d", [0]],
      [undefined, "d", []],
    ],
  );
  assert.equal(rule.lowerIsBetter, true);
  const refuses = (query: string, message: RegExp): void =>
    void assert.throws(() => of(query), { code: "QUERY_INVALID", message });
  refuses('vary config.net["a"].lr in [-1] keep top(1, m["loss"], 9)', /a number from 0/);
  refuses('keep top(1, m["accuracy"])', /name it, and its direction/);
  refuses(
    'vary config.recipe in ["fine-tune"] and config.net["a"].lr in [0.5] keep top(1, m["loss"], 9)',
    /one rate/,
  );
});
