/** A recipe's own code: what a bundle may import, what its code finds, what it may answer, what ends it. */
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import type { ErrorCode } from "../../../../../shared/errors.js";
import { Streams } from "../../../../../shared/random/streams.js";
import { buildNetwork } from "../../../../../shared/train/own-recipes/build-network.js";
import { recipeCommand } from "../../../../../shared/train/own-recipes/confinement.js";
import { describeRecipe } from "../../../../../shared/train/own-recipes/describe-recipe.js";
import { checkAnswer } from "../../../../../shared/train/own-recipes/description.js";
import { requireImports } from "../../../../../shared/train/own-recipes/imports.js";
import { callRecipe, type RecipeCommand } from "../../../../../shared/train/own-recipes/recipe-process.js";
import { scaffold } from "../../../../../shared/train/own-recipes/scaffold.js";
import {
  binaryNames,
  operationSchema,
  reductionNames,
  unaryNames,
} from "../../../../../shared/train/expressions/operations.js";
import { readPage } from "../../../../helpers/markdown.js";
import { drawn } from "../../../../helpers/test-depth.js";

let command: RecipeCommand;
before(async () => {
  command = await recipeCommand("interpreter");
});

/** What a recipe's plan() answers. */
const plan = (body: string, top = ""): Promise<Record<string, unknown>> =>
  callRecipe(command, {
    source: `${top}\nexport const recipe = { model() {}, plan(input) { ${body} } };`,
    call: "plan",
    input: { parameters: {}, data: { samples: 3, inputShape: [4] }, layers: [] },
    seed: "1",
    invocation: 0,
    counts: {},
  }).then(({ answer }) => answer);
const valueOf = async (expression: string, top = ""): Promise<unknown> =>
  ((await plan(`return { set: { value: ${expression} } };`, top))["set"] as { value: unknown }).value;

describe("imports of a bundle", () => {
  const cases: readonly (readonly [string, boolean])[] = [
    ['import { Network } from "stemma:recipe"; export const recipe = {};', true],
    ["// import fs from 'fs'\nexport const recipe = { title: \"import('fs')\" };", true],
    ['import fs from "node:fs";', false],
    ['import "./other.js";', false],
    ['export * from "stemma:own";', false],
    ['export { a } from "https://example.org/a.js";', false],
    ['export const recipe = { plan: () => import("stemma:recipe") };', false],
    ["export const recipe = {", false],
  ];
  for (const [source, isAllowed] of cases)
    it(`${isAllowed ? "allows" : "refuses"} ${JSON.stringify(source).slice(0, 60)}`, () => {
      if (isAllowed) requireImports(source);
      else
        assert.throws(
          () => {
            requireImports(source);
          },
          { code: "RECIPE_INVALID" },
        );
    });
});

describe("the code of a recipe", () => {
  it("has nothing of its host, and nothing that differs between machines", async () => {
    const absent = [
      "process, require, module, fetch, setTimeout, setInterval, queueMicrotask, console, performance",
      "WebAssembly, SharedArrayBuffer, Atomics, WeakRef, FinalizationRegistry, Date, eval, Proxy, Intl",
    ];
    const names = absent.join(", ").split(", ");
    const expression = `${JSON.stringify(names)}.filter((name) => name in globalThis).join()`;
    assert.equal(await valueOf(expression), "");
    assert.equal(await valueOf("typeof Math.random"), "undefined");
    for (const code of [
      '(() => 1).constructor("return 1")()',
      '(async () => 1).constructor("return 1")()',
      '(function* () {}).constructor("return 1")()',
      'Function("return 1")()',
      '[].map.constructor.constructor("return this")()',
    ])
      await assert.rejects(valueOf(code), { code: "RECIPE_FAILED" }, code);
  });

  it("computes and draws the same in every process", async () => {
    const body =
      "Math.sin(1e6) + Math.exp(1.5) + Math.pow(2.1, 3.3) + random('a').normal() + random('b').integer(9)";
    const top = 'import { random } from "stemma:recipe";';
    const values = [await valueOf(body, top), await valueOf(body, top)];
    assert.equal(values[0], values[1]);
    assert.equal(typeof values[0], "number");
  });

  type Ended = readonly [string, string, ErrorCode];
  /** These take seconds of the processor until they meet their limit. */
  const exhausting: readonly Ended[] = [
    ["loops without end", "for (;;);", "RECIPE_FAILED"],
    ["looks for text without end", "const x = 'x'.repeat(1e8); for (;;) x.indexOf('y');", "RECIPE_FAILED"],
    ["joins texts without end", "const x = 'x'.repeat(5e7); for (let i = 0; ; i++) x + i;", "RECIPE_FAILED"],
    ["walks an empty list", "new Array(4294967295).indexOf(1);", "RECIPE_FAILED"],
    ["fills memory without end", "const x = new Uint8Array(1e8); for (;;) x.fill(3);", "RECIPE_FAILED"],
    ["matches text without end", "/(a+)+b/.test('a'.repeat(40));", "RECIPE_FAILED"],
    ["takes 10 GB", "const all = []; for (;;) all.push(new Uint8Array(1e8));", "RECIPE_FAILED"],
  ];
  const ended: readonly Ended[] = [
    ...drawn(exhausting, 1),
    ["calls itself without end", "const f = () => f() + 1; f();", "RECIPE_FAILED"],
    ["throws", "throw new Error('no');", "RECIPE_FAILED"],
    ["gives nothing", "", "RECIPE_FAILED"],
    ["gives what is not finite", "return { set: { learningRate: NaN } };", "RECIPE_FAILED"],
    ["gives what nobody asked for", "return { command: ['sh'] };", "RECIPE_INVALID"],
    ["asks for a member that its input lacks", "return { set: { a: input.data.sampels } };", "RECIPE_FAILED"],
    ["asks for an item beyond the end", "return { set: { a: input.layers[7] } };", "RECIPE_FAILED"],
    ["answers a function", "return { loss: () => 1 };", "RECIPE_FAILED"],
    ["answers a list with a hole", "return { frozenLayers: [0, , 1] };", "RECIPE_FAILED"],
    ["imports while it runs", "return import('fs').then(() => ({}));", "RECIPE_FAILED"],
  ];
  for (const [what, body, code] of ended)
    it(`is ended or refused where it ${what}`, async () => {
      await assert.rejects(plan(body), { code });
    });

  it("cannot reach the prototypes of its host", async () => {
    const own = 'Object.prototype.polluted = 1; Array.prototype.map = () => "x"; JSON.parse = () => 7;';
    const answer = await plan(`return { "set": { ["__proto__"]: { polluted: 1 } } };`, own);
    assert.deepEqual(Object.keys(answer["set"] as object), []);
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
    assert.equal((answer["set"] as { polluted?: unknown }).polluted, undefined);
  });

  it("reads its input like any other value", async () => {
    const values =
      "const { data: { samples, ...more }, layers } = input; const [first] = input.data.inputShape;";
    const set =
      "{ a: samples + first + layers.length, b: JSON.stringify([more, ...input.data.inputShape.map(String)]) }";
    const answer = await plan(`${values} return { set: ${set} };`);
    assert.deepEqual(answer["set"], { a: 7, b: '[{"inputShape":[4]},"4"]' });
  });

  it("is refused with a function that a recipe does not have", async () => {
    const named = scaffold.replace("  plan({", "  plann({");
    assert.notEqual(named, scaffold);
    await assert.rejects(describeRecipe(Buffer.from(named), command), /no function named plann/);
  });

  it("is described with its parameters, and refused where a default is not one of its values", async () => {
    const described = await describeRecipe(Buffer.from(scaffold), command);
    assert.equal(described.name, "my-recipe");
    assert.equal(described.base.find(({ name }) => name === "hidden")?.default, 16);
    assert.equal(described.fineTuning.find(({ name }) => name === "epochs")?.default, 10);
    const wrong = scaffold.replace("default: 16", "default: 0");
    await assert.rejects(describeRecipe(Buffer.from(wrong), command), { code: "RECIPE_INVALID" });
  });
});

describe("a loss and a change of samples that a recipe writes down", () => {
  const written = async (call: "loss" | "augment", body: string, count = 1): Promise<readonly object[]> => {
    const { answer } = await callRecipe(command, {
      source: `import { constant, where, concatenate } from "stemma:recipe";
        export const recipe = { model() {}, loss(truth, output, given) { ${body} }, augment(sample, stream, given) { ${body} } };`,
      call,
      input: { count, parameters: { delta: 0.5 }, data: { inputShape: [2, 2] }, layers: [] },
      seed: "1",
      invocation: 0,
      counts: {},
    });
    assert.equal(answer.output, (call === "loss" ? 2 * count : 1) + answer.operations.length - 1);
    return answer.operations;
  };

  it("are operations, of which each names what it reads", async () => {
    const huber = `const error = output.sub(truth).abs();
      return where(error.less(given.parameters.delta), error.square(), error.mul([1, 2])).mean(-1);`;
    assert.deepEqual(await written("loss", huber), [
      { op: "sub", from: [1, 0] },
      { op: "abs", from: [2] },
      { op: "constant", from: [], shape: [], values: [0.5] },
      { op: "less", from: [3, 4] },
      { op: "square", from: [3] },
      { op: "constant", from: [], shape: [2], values: [1, 2] },
      { op: "mul", from: [3, 7] },
      { op: "where", from: [5, 6, 8] },
      { op: "mean", from: [9], axes: [-1] },
    ]);
    assert.deepEqual(await written("loss", "return output[1].sub(truth[1]).sum();", 2), [
      { op: "sub", from: [3, 1] },
      { op: "sum", from: [4] },
    ]);
  });

  it("have every operation that there is", async () => {
    const unary = unaryNames.map((name) => `.${name}()`).join("");
    const binary = binaryNames.map((name) => `.${name}(2)`).join("");
    const reductions = reductionNames.map((name) => `.${name}()`).join("");
    const other = `.pow(2).clip(0, 1).where(1, sample).matMul(sample).reshape([2, 2]).transpose([1, 0]).flip(0)
      .slice([0, 0], [1, 1]).pad([[0, 1], 1]).shift([stream.integer(3), 1], -1).rotate90(stream.integer(4))`;
    const joined =
      "concatenate([sample, stream.normal([2, 2]), stream.uniform([2, 2]), constant([1], [1, 1])], 0)";
    const operations = await written("augment", `return ${joined}${other}${unary}${binary}${reductions};`);
    const found = new Set(operations.map((operation) => (operation as { op: string }).op));
    const all = operationSchema.options.flatMap(({ shape: { op } }) =>
      "options" in op ? [...op.options] : [...op.values],
    );
    assert.deepEqual([...found].sort(), [...new Set<string>(all)].sort());
    const page = readPage("docs/recipes-of-your-own.md");
    const [, listed = ""] = /```text\n(numbers [\s\S]*?)```/.exec(page) ?? [];
    assert.deepEqual(
      all.filter((op) => !new RegExp(`\\b${op}\\b`).test(listed)),
      [],
    );
  });

  const refused: readonly (readonly ["loss" | "augment", string, ErrorCode])[] = [
    ["loss", "return output - truth;", "RECIPE_FAILED"],
    ["loss", "return output < truth ? output : truth;", "RECIPE_FAILED"],
    ["loss", "return output.sub({});", "RECIPE_FAILED"],
    ["loss", "return output.sub();", "RECIPE_FAILED"],
    ["loss", "return output.add(NaN);", "RECIPE_FAILED"],
    ["loss", "return;", "RECIPE_FAILED"],
    ["loss", "return { output: 0, operations: [] };", "RECIPE_FAILED"],
    ["loss", "return Object.create(output).neg();", "RECIPE_FAILED"],
    ["loss", "return (async () => output)();", "RECIPE_FAILED"],
    ["loss", "return output.add(1e39);", "RECIPE_INVALID"],
    ["loss", "return output.reshape([0.5]);", "RECIPE_INVALID"],
    [
      "loss",
      "let all = output; for (let i = 0; i < 2000; i++) all = all.neg(); return all;",
      "RECIPE_INVALID",
    ],
    ["loss", "let all = output; for (;;) all = all.neg();", "RECIPE_FAILED"],
    ["loss", "return output.sum({ length: 3 });", "RECIPE_INVALID"],
    ["augment", "return sample.add(stream.integer());", "RECIPE_INVALID"],
    ["augment", "return sample.shift(1);", "RECIPE_FAILED"],
  ];
  for (const [call, body, code] of refused)
    it(`are refused in ${call}() where it does ${body}`, async () => {
      await assert.rejects(written(call, body), { code });
    });

  it("are refused by the operation's number and name also where a member of it is wrong", () => {
    const operations = [
      { op: "abs", from: [1] },
      { op: "reshape", from: [2], shape: [0] },
    ];
    assert.throws(() => checkAnswer("loss", { operations, output: 3 }), /operation 2 \(reshape\)\.shape/);
    assert.throws(() => checkAnswer("loss", { operations: [null], output: 3 }), { code: "RECIPE_INVALID" });
  });

  it("are refused where a tensor was made before, which would be read as another one", async () => {
    const source = `import { constant } from "stemma:recipe";
      const scale = constant([100]);
      export const recipe = { model() {}, loss: (truth, output) => output.sub(truth).mul(scale).mean() };`;
    const asked = {
      source,
      call: "loss",
      input: { count: 1 },
      seed: "1",
      invocation: 0,
      counts: {},
    } as const;
    await assert.rejects(callRecipe(command, asked), { code: "RECIPE_FAILED" });
  });

  it("are functions, and nothing else that has their names", async () => {
    const changed = (member: string): Promise<unknown> =>
      describeRecipe(Buffer.from(scaffold.replace('loss: "mean-squared-error"', member)), command);
    const own = (await changed("loss: (truth, output) => output, augment: (sample) => sample")) as {
      readonly loss: string;
      readonly augments: boolean;
    };
    assert.deepEqual([own.loss, own.augments], ["own", true]);
    for (const member of ['loss: "own"', 'loss: "mean-squared-error", augment: true'])
      await assert.rejects(changed(member), { code: "RECIPE_FAILED" }, member);
    await assert.rejects(changed('loss: "mean-squared-error", augments: 1'), { code: "RECIPE_INVALID" });
  });
});

describe("a network that a recipe describes", () => {
  const build = (operations: unknown[], outputs = [operations.length], shape = [4]): unknown =>
    buildNetwork(checkAnswer("model", { operations, outputs }), shape, new Streams("1", 0));
  const refused: readonly (readonly [string, unknown[], number[]?])[] = [
    ["reads a later layer", [{ op: "flatten", from: 1 }]],
    [
      "has too many weights",
      [
        { op: "dense", from: 0, units: 1_000_000 },
        { op: "dense", from: 1, units: 1_000_000 },
      ],
    ],
    ["starts with another number of values", [{ op: "linear", from: 0, units: 2, start: [1, 2, 3] }]],
    ["starts with what float32 does not have", [{ op: "linear", from: 0, units: 1, start: 1e300 }]],
    [
      "joins different shapes",
      [
        { op: "dense", from: 0, units: 2 },
        { op: "sum", from: [0, 1] },
      ],
    ],
    ["needs an image", [{ op: "convolution", from: 0, filters: 2, kernel: 3 }]],
    ["is not a layer", [{ op: "lambda", from: 0, code: "1" }]],
  ];
  for (const [what, operations] of refused)
    it(`is refused where it ${what}`, () => {
      assert.throws(() => build(operations), { code: "RECIPE_INVALID" });
    });
  it("gets weights of the sizes that its layers need", () => {
    const model = buildNetwork(
      checkAnswer("model", {
        operations: [
          { op: "convolution", from: 0, filters: 3, kernel: 3, padding: "valid" },
          { op: "maxPool", from: 1 },
          { op: "flatten", from: 2 },
          { op: "dense", from: 3, units: 5 },
        ],
        outputs: [4],
      }),
      [8, 8, 2],
      new Streams("1", 0),
    );
    assert.deepEqual(
      model.tensors.map(({ shape }) => shape),
      [[3, 3, 2, 3], [3], [27, 5], [5]],
    );
  });
});
