/** What a recipe's own code may write down as an expression: hostile graphs are refused before anything is computed. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  checkExpression,
  type Expression,
  type WantedExpression,
} from "../../../../../shared/train/expressions/check-expression.js";
import { checkAnswer } from "../../../../../shared/train/own-recipes/description.js";
import { invalidRecipe } from "../../../../../shared/train/own-recipes/bundle.js";

const ofLoss: WantedExpression = { inputs: [[3], [3]], output: [], isOfSamples: false, needs: [1] };
const ofSamples: WantedExpression = { inputs: [[4, 4, 1]], output: [4, 4, 1], isOfSamples: true, needs: [] };

function checked(
  operations: unknown,
  wanted = ofLoss,
  output = wanted.inputs.length + (operations as []).length - 1,
): Expression {
  const answer = checkAnswer(wanted.isOfSamples ? "augment" : "loss", { operations, output });
  return checkExpression(answer, wanted, (why) => {
    throw invalidRecipe(why);
  });
}

describe("an expression is followed", () => {
  it("with its shapes, and axes from the first", () => {
    const { operations, shapes } = checked([
      { op: "sub", from: [1, 0] },
      { op: "abs", from: [2] },
      { op: "max", from: [3], axes: [-1] },
    ]);
    assert.deepEqual(shapes, [[3], [3], []]);
    assert.deepEqual(operations[2], { op: "max", from: [3], axes: [0] });
  });
});

const sum = { op: "sum", from: [1] };
const tooMany = Array.from({ length: 1001 }, () => ({ op: "neg", from: [1] }));
const refused: readonly (readonly [string, unknown[], WantedExpression?, number?])[] = [
  ["an operation that there is not", [{ op: "eval", from: [0] }]],
  ["members that nobody asked for", [{ ...sum, name: "x" }]],
  ["an operation that reads itself", [{ op: "neg", from: [2] }]],
  ["one that reads what comes later", [{ op: "add", from: [1, 3] }, sum]],
  ["an index that is no whole number", [{ op: "neg", from: [0.5] }]],
  ["an index below 0", [{ op: "neg", from: [-1] }]],
  ["a result that it does not have", [sum], ofLoss, 17],
  ["more operations than it may have", [...tooMany, sum]],
  ["another number of inputs than the operation takes", [{ op: "add", from: [0] }]],
  ["a constant that is not finite", [{ op: "constant", from: [], shape: [], values: [NaN] }]],
  ["a constant beyond float32", [{ op: "constant", from: [], shape: [], values: [1e39] }]],
  ["an exponent beyond float32", [{ op: "pow", from: [1], exponent: 1e39 }]],
  ["fewer values than the shape has", [{ op: "constant", from: [], shape: [2], values: [1] }]],
  ["a shape of nothing", [{ op: "constant", from: [], shape: [0], values: [] }]],
  [
    "shapes that do not combine",
    [
      { op: "constant", from: [], shape: [2], values: [1, 2] },
      { op: "add", from: [1, 2] },
    ],
  ],
  ["an axis beyond the last", [{ op: "sum", from: [1], axes: [1] }]],
  ["an axis twice", [{ op: "sum", from: [1], axes: [0, -1] }]],
  ["too many axes", [{ op: "reshape", from: [1], shape: [1, 1, 1, 1, 3] }]],
  ["another size by a reshape", [{ op: "reshape", from: [1], shape: [2] }]],
  ["a part that is not inside", [{ op: "slice", from: [1], begin: [2], size: [2] }]],
  ["a lower bound above the upper one", [{ op: "clip", from: [1], low: 1, high: 0 }]],
  ["a product of vectors", [{ op: "matMul", from: [0, 1] }]],
  ["a softmax of a number", [sum, { op: "softmax", from: [2] }]],
  ["a result that is no number", [{ op: "neg", from: [1] }]],
  ["a loss that no output changes", [{ op: "sum", from: [0] }]],
  [
    "a loss by comparisons alone",
    [
      { op: "less", from: [0, 1] },
      { op: "sum", from: [2] },
    ],
  ],
  [
    "a loss that an output only chooses",
    [
      { op: "where", from: [1, 0, 0] },
      { op: "sum", from: [2] },
    ],
  ],
  ["a loss that draws", [{ op: "uniform", from: [], shape: [] }]],
  ["a loss that moves", [{ op: "shift", from: [1, 1], fill: 0 }]],
  ["huge shapes", [{ op: "uniform", from: [], shape: [2 ** 24, 2 ** 24, 2 ** 24, 2 ** 24] }], ofSamples],
  [
    "many large tensors",
    Array.from({ length: 5 }, () => ({ op: "normal", from: [], shape: [2 ** 22] })),
    ofSamples,
  ],
  [
    "borders without end",
    [{ op: "pad", from: [0], before: [2 ** 24, 2 ** 24, 0], after: [0, 0, 0], value: 0 }],
    ofSamples,
  ],
  [
    "a sample of another shape",
    [
      { op: "flip", from: [0], axes: [0] },
      { op: "mean", from: [1] },
    ],
    ofSamples,
  ],
  ["a shift by a tensor", [{ op: "shift", from: [0, 0], fill: 0 }], ofSamples],
  [
    "a shift along more axes than there are",
    [
      { op: "integer", from: [], below: 3 },
      { op: "shift", from: [0, 1, 1, 1, 1], fill: 0 },
    ],
    ofSamples,
  ],
  ["nothing below which to draw", [{ op: "integer", from: [], below: 0 }], ofSamples],
  [
    "a quarter turn of what is not as high as wide",
    [
      { op: "slice", from: [0], begin: [0, 0, 0], size: [4, 2, 1] },
      { op: "integer", from: [], below: 4 },
      { op: "rotate90", from: [1, 2] },
    ],
    ofSamples,
  ],
];

describe("an expression is refused with", () => {
  for (const [what, operations, wanted, output] of refused)
    it(what, () => {
      assert.throws(() => checked(operations, wanted, output), { code: "RECIPE_INVALID" });
    });

  it("the operation's number and name", () => {
    const operations = [
      { op: "abs", from: [1] },
      { op: "sum", from: [2], axes: [3] },
    ];
    assert.throws(() => checked(operations), /operation 2 \(sum\)/);
  });
});
