/** Tensor expressions: each operation against plain arithmetic, its gradient against differences, and its draws. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Streams } from "../../../../../shared/random/streams.js";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { augmentedSamples } from "../../../../../shared/train/expressions/augmentation.js";
import {
  checkExpression,
  type Expression,
  type Shape,
} from "../../../../../shared/train/expressions/check-expression.js";
import { evaluateExpression } from "../../../../../shared/train/expressions/evaluate-expression.js";
import {
  binaryNames,
  expressionSchema,
  reductionNames,
  unaryNames,
} from "../../../../../shared/train/expressions/operations.js";
import { ownLosses } from "../../../../../shared/train/expressions/own-loss.js";

let started: StartedBackend;
before(async () => {
  started = await startWasmBackend();
});
after(() => started.close());

type Written = Readonly<Record<string, unknown>>;

function expressionOf(
  operations: readonly Written[],
  inputs: readonly Shape[],
  output: Shape,
  isOfSamples = false,
): Expression {
  const answer = expressionSchema.parse({ operations, output: inputs.length + operations.length - 1 });
  return checkExpression(answer, { inputs, output, isOfSamples, needs: [] }, (why) => {
    throw new Error(why);
  });
}

/** Numbers of which no two are near each other, nor near those of another seed, nor any near 0. */
const numbers = (count: number, seed: number): Float32Array =>
  Float32Array.from({ length: count }, (_, index) => {
    const place = ((index * 7 + seed * 3) % count) + 1;
    return (0.25 + 0.031 * seed + (2 * place) / count) * ((index + seed) % 2 === 0 ? 1 : -1);
  });
const sizeOf = (shape: Shape): number => shape.reduce((a, b) => a * b, 1);

const batch = 3;

interface Case {
  readonly name: string;
  readonly inputs: readonly Shape[];
  readonly output: Shape;
  readonly operation: Written;
  readonly isPositive?: boolean;
}

const wide: readonly (readonly [Shape, Shape, Shape])[] = [
  [
    [2, 3],
    [2, 3],
    [2, 3],
  ],
  [[2, 3], [3], [2, 3]],
  [[], [2, 3], [2, 3]],
  [
    [2, 1],
    [1, 4],
    [2, 4],
  ],
];
const cases: readonly Case[] = [
  ...unaryNames.map((op) => ({
    name: op,
    inputs: [[2, 3]],
    output: [2, 3],
    operation: { op, from: [0] },
    isPositive: op === "sqrt" || op === "log",
  })),
  ...binaryNames.flatMap((op) =>
    wide.map(([one, other, output]) => ({
      name: `${op} of [${one.join()}] and [${other.join()}]`,
      inputs: [one, other],
      output,
      operation: { op, from: [0, 1] },
    })),
  ),
  ...reductionNames.flatMap((op) => [
    { name: `${op} of all`, inputs: [[2, 3]], output: [], operation: { op, from: [0] } },
    { name: `${op} of rows`, inputs: [[2, 3]], output: [3], operation: { op, from: [0], axes: [0] } },
    {
      name: `${op} of two axes`,
      inputs: [[2, 3, 2]],
      output: [3],
      operation: { op, from: [0], axes: [0, -1] },
    },
  ]),
  ...[-0.5, 0, 1, 2, 2.5].map((exponent) => ({
    name: `pow ${exponent}`,
    inputs: [[2, 3]],
    output: [2, 3],
    operation: { op: "pow", from: [0], exponent },
    isPositive: true,
  })),
  {
    name: "clip",
    inputs: [[2, 3]],
    output: [2, 3],
    operation: { op: "clip", from: [0], low: -1, high: 0.9 },
  },
  { name: "where", inputs: [[3], [2, 3], []], output: [2, 3], operation: { op: "where", from: [0, 1, 2] } },
  {
    name: "matMul",
    inputs: [
      [2, 3],
      [3, 4],
    ],
    output: [2, 4],
    operation: { op: "matMul", from: [0, 1] },
  },
  {
    name: "reshape",
    inputs: [[2, 3]],
    output: [3, 2],
    operation: { op: "reshape", from: [0], shape: [3, 2] },
  },
  {
    name: "transpose",
    inputs: [[2, 3, 4]],
    output: [4, 2, 3],
    operation: { op: "transpose", from: [0], axes: [-1, 0, 1] },
  },
  { name: "flip", inputs: [[2, 3]], output: [2, 3], operation: { op: "flip", from: [0], axes: [1] } },
  {
    name: "slice",
    inputs: [[3, 4]],
    output: [2, 2],
    operation: { op: "slice", from: [0], begin: [1, 0], size: [2, 2] },
  },
  {
    name: "pad",
    inputs: [[2, 3]],
    output: [3, 5],
    operation: { op: "pad", from: [0], before: [1, 0], after: [0, 2], value: 7 },
  },
  {
    name: "concatenate",
    inputs: [
      [2, 3],
      [2, 1],
    ],
    output: [2, 4],
    operation: { op: "concatenate", from: [0, 1], axis: -1 },
  },
  {
    name: "an operation on four axes",
    inputs: [
      [2, 1, 2, 2],
      [2, 2, 1],
    ],
    output: [2, 2, 2, 2],
    operation: { op: "maximum", from: [0, 1] },
  },
];

/** The sum of the results, each times a weight of its own, for the numbers of all inputs. */
function weighed({ inputs, output, operation }: Case, values: readonly Float32Array[]): number {
  const { tf } = started;
  return tf.tidy(() => {
    const tensors = inputs.map((shape, index) => tf.tensor(values[index] as Float32Array, [batch, ...shape]));
    const result = evaluateExpression(tf, expressionOf([operation], inputs, output), { tensors, batch });
    assert.deepEqual(result.shape, [batch, ...output]);
    const weights = numbers(batch * sizeOf(output), 5);
    return Array.from(result.dataSync()).reduce((sum, value, at) => sum + value * (weights[at] as number), 0);
  });
}

function gradientsOf({ inputs, output, operation }: Case, values: readonly Float32Array[]): Float32Array[] {
  const { tf } = started;
  return tf.tidy(() => {
    const expression = expressionOf([operation], inputs, output);
    const weights = tf.tensor(numbers(batch * sizeOf(output), 5), [batch, ...output]);
    const gradient = tf.grads((...tensors) =>
      evaluateExpression(tf, expression, { tensors, batch }).mul(weights),
    );
    const at = inputs.map((shape, index) => tf.tensor(values[index] as Float32Array, [batch, ...shape]));
    return gradient(at).map((tensor) => tensor.dataSync<"float32">().slice());
  });
}

describe("an operation's gradient is that of its differences", () => {
  for (const each of cases)
    it(each.name, () => {
      const values = each.inputs.map((shape, index) =>
        numbers(batch * sizeOf(shape), index + 1).map((value) => (each.isPositive ? Math.abs(value) : value)),
      );
      const step = 2 ** -7;
      gradientsOf(each, values).forEach((gradient, input) => {
        const largest = Math.max(1, ...gradient.map(Math.abs));
        gradient.forEach((slope, at) => {
          const moved = (by: number): number =>
            weighed(
              each,
              values.map((all, index) =>
                index === input ? all.map((value, place) => (place === at ? value + by : value)) : all,
              ),
            );
          const difference = (moved(step) - moved(-step)) / (2 * step);
          assert.ok(
            Math.abs(slope - difference) < 4e-3 * largest,
            `input ${input}, number ${at}: ${slope}, by differences ${difference}`,
          );
        });
      });
    });
});

describe("an expression", () => {
  const valuesOf = (operations: readonly Written[], inputs: readonly Shape[], output: Shape): number[] => {
    const { tf } = started;
    return tf.tidy(() => {
      const tensors = inputs.map((shape, index) =>
        tf.tensor(numbers(batch * sizeOf(shape), index + 1), [batch, ...shape]),
      );
      return [
        ...evaluateExpression(tf, expressionOf(operations, inputs, output), { tensors, batch }).dataSync(),
      ];
    });
  };

  it("compares to 0 and 1, and chooses by that", () => {
    const inputs: readonly Shape[] = [[2], [2]];
    const [one, other] = inputs.map((_, index) => numbers(batch * 2, index + 1)) as [
      Float32Array,
      Float32Array,
    ];
    const expected: Readonly<Record<string, (a: number, b: number) => boolean>> = {
      less: (a, b) => a < b,
      lessEqual: (a, b) => a <= b,
      greater: (a, b) => a > b,
      greaterEqual: (a, b) => a >= b,
      equal: (a, b) => a === b,
    };
    for (const [op, isSo] of Object.entries(expected)) {
      const choose = [
        { op, from: [0, 1] },
        { op: "where", from: [2, 0, 1] },
      ];
      assert.deepEqual(
        valuesOf(choose.slice(0, 1), inputs, [2]),
        Array.from(one, (a, at) => Number(isSo(a, other[at] as number))),
      );
      assert.deepEqual(
        valuesOf(choose, inputs, [2]),
        Array.from(one, (a, at) => (isSo(a, other[at] as number) ? a : other[at])),
      );
    }
  });

  it("repeats constants for each sample", () => {
    const operations = [
      { op: "constant", from: [], shape: [2], values: [1, 2] },
      { op: "constant", from: [], shape: [2, 1], values: [3, 4] },
      { op: "mul", from: [1, 2] },
    ];
    const joined = [...operations, { op: "concatenate", from: [0, 3], axis: 0 }];
    assert.deepEqual(valuesOf(operations, [[2, 2]], [2, 2]), [3, 6, 4, 8, 3, 6, 4, 8, 3, 6, 4, 8]);
    assert.deepEqual(valuesOf(joined, [[1, 2]], [3, 2]).slice(8, 12), [3, 6, 4, 8]);
  });

  it("is refused as a loss where an output is not finite, though a comparison would hide it", () => {
    const { tf } = started;
    const own = expressionOf([{ op: "minimum", from: [0, 1] }], [[], []], []);
    tf.tidy(() => {
      const [truth, output] = [tf.tensor1d([1, 2]), tf.tensor1d([NaN, 0])];
      assert.throws(() => ownLosses(tf, { own }, [output], [truth]), { code: "NOT_A_NUMBER" });
      const wide = tf.zeros([2, 1]);
      assert.throws(() => ownLosses(tf, { own }, [wide], [truth]), { code: "ARCHITECTURE_MISMATCH" });
    });
  });
});

describe("a change of samples", () => {
  const shape = [2, 2, 1];
  const changed = (operations: readonly Written[], values: Float32Array, streams: Streams): number[] => {
    const { tf } = started;
    const samples = tf.tensor(values, [values.length / 4, ...shape]);
    const stream = streams.stream("augmentation");
    const result = augmentedSamples(tf, expressionOf(operations, [shape], shape, true), samples, stream);
    const found = [...result.dataSync()];
    result.dispose();
    return found;
  };
  const values = Float32Array.from({ length: 12 }, (_, at) => at + 1);
  const moving = [
    { op: "integer", from: [], below: 3 },
    { op: "constant", from: [], shape: [], values: [1] },
    { op: "sub", from: [1, 2] },
    { op: "shift", from: [0, 3, 2], fill: -1 },
  ];

  it("moves each sample by its own numbers", () => {
    const stream = new Streams("1", 0).stream("augmentation");
    const expected = [0, 4, 8].flatMap((start) => {
      const down = stream.integer(3) - 1;
      const at = (y: number): number => (y >= 0 && y < 2 ? start + 2 * y + 1 : -1);
      return [-1, at(-down), -1, at(1 - down)];
    });
    assert.deepEqual(changed(moving, values, new Streams("1", 0)), expected);
  });

  it("turns counter-clockwise by quarters", () => {
    const turn = (quarters: number): Written[] => [
      { op: "constant", from: [], shape: [], values: [quarters] },
      { op: "rotate90", from: [0, 1] },
    ];
    const turned = (quarters: number): number[] =>
      changed(turn(quarters), values.slice(0, 4), new Streams("1", 0));
    assert.deepEqual([0, 1, 2, 3].map(turned), [
      [1, 2, 3, 4],
      [2, 4, 1, 3],
      [4, 3, 2, 1],
      [3, 1, 4, 2],
    ]);
    assert.deepEqual(turned(-1), turned(3));
  });

  it("draws for one sample after the other, so that the cut into batches changes nothing", () => {
    const noise = [
      { op: "normal", from: [], shape },
      { op: "uniform", from: [], shape: [] },
      { op: "mul", from: [1, 2] },
      { op: "add", from: [0, 3] },
    ];
    const whole = new Streams("1", 0);
    const cut = new Streams("1", 0);
    const parts = [values.slice(0, 4), values.slice(4)].flatMap((part) => changed(noise, part, cut));
    assert.deepEqual(parts, changed(noise, values, whole));
    assert.deepEqual(cut.counts(), whole.counts());
    assert.ok((whole.counts()["augmentation"] ?? 0) > 15);
  });

  it("leaves no tensor behind, also where it gives the sample itself or is refused", () => {
    const { tf } = started;
    const before = tf.memory().numTensors;
    changed([{ op: "neg", from: [0] }], values, new Streams("1", 0));
    const itself = checkExpression(
      { operations: [], output: 0 },
      { inputs: [shape], output: shape, isOfSamples: true, needs: [] },
      (why) => assert.fail(why),
    );
    const samples = tf.tensor(values, [3, ...shape]);
    augmentedSamples(tf, itself, samples, new Streams("1", 0).stream("a")).dispose();
    assert.throws(
      () =>
        changed(
          [{ op: "log", from: [0] }],
          values.map((value) => -value),
          new Streams("1", 0),
        ),
      {
        code: "NOT_A_NUMBER",
      },
    );
    const half = [
      { op: "constant", from: [], shape: [], values: [0.5] },
      { op: "shift", from: [0, 1], fill: 0 },
    ];
    assert.throws(() => changed(half, values, new Streams("1", 0)), { code: "RECIPE_FAILED" });
    assert.equal(tf.memory().numTensors, before);
  });
});
