/** Changes of networks: which edges and layers they are about, what is refused and why, and what a slice needs. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { compileDerivation } from "../../../../../server/learning/query/derive/compile-derivation.js";
import {
  deriveModels,
  type DerivedModel,
} from "../../../../../server/learning/query/derive/derive-models.js";
import type { DraftNode } from "../../../../../server/learning/query/derive/draft.js";
import { parseQuery } from "../../../../../server/learning/query/parse-query.js";
import { Run } from "../../../../../server/learning/query/query-run.js";
import type { QuerySource } from "../../../../../server/learning/query/query-source.js";
import type { VersionRow } from "../../../../../server/storage/repository/row-keeper.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import {
  derive,
  inputLayer,
  networkOfLayers,
  plainLayer,
  tensorsOf,
} from "../../../../helpers/derived-networks.js";

const conv = { filters: 2, kernel_size: 3, padding: "same" };
const input = inputLayer("data", 8, 8, 2);
const conv1 = plainLayer("conv1", "Conv2D", conv, input);
const avg1 = plainLayer("avg1", "AveragePooling2D", { pool_size: 2 }, conv1);
const max1 = plainLayer("max1", "MaxPooling2D", { pool_size: 2 }, conv1);
const add = plainLayer("add", "Add", {}, avg1, max1);
const conv2 = plainLayer("conv2", "Conv2D", conv, add);
const flat = plainLayer("flat", "Flatten", {}, conv2);
const side = inputLayer("side", 3);
const fc1 = plainLayer("fc1", "Dense", { units: 4 }, side);
const join = plainLayer("join", "Concatenate", {}, flat, fc1);
const fc2 = plainLayer("fc2", "Dense", { units: 2 }, join);
const branched = networkOfLayers([input, side, conv1, avg1, max1, add, conv2, flat, fc1, join, fc2], [fc2]);

const series = inputLayer("steps", 5, 2);
const mask = plainLayer("mask", "Masking", { mask_value: 0 }, series);
const lstm = plainLayer("lstm", "LSTM", { units: 3 }, mask);
const out = plainLayer("out", "Dense", { units: 1 }, lstm);
const masked = networkOfLayers([series, mask, lstm, out], [out]);

async function made(text: string, network = branched): Promise<DerivedModel> {
  const model = await derive(network, text);
  assert.ok(typeof model === "object", JSON.stringify(model));
  return model;
}
/** "layer < what feeds it" for layers of these names. */
function feeds({ architecture, names }: DerivedModel, ...wanted: readonly string[]): readonly string[] {
  return wanted.map((name) => {
    const { inputs = [] } = architecture.layers[names.indexOf(name)] ?? {};
    return `${name} < ${inputs.map(({ layer }) => names[layer]).join(" ")}`;
  });
}

test("a layer is inserted on each edge that the condition means, in the order of the text", async () => {
  const all = await made(
    'construct b from a mutate a["conv1"].insert = RELU("r") and a["conv1"].insert = TANH("t")',
  );
  assert.deepEqual(feeds(all, "avg1", "t", "max1", "t_2"), ["avg1 < t", "t < r", "max1 < t_2", "t_2 < r_2"]);
  const one = await made(
    'construct b from a where a["conv*($1)"].next has POOL("AVG") mutate a["conv*($1)"].insert = RELU("relu$1")',
  );
  assert.deepEqual(one.added, ["relu1"]);
  assert.deepEqual(feeds(one, "avg1", "max1"), ["avg1 < relu1", "max1 < conv1"]);
  const reached = await made(
    'construct b from a where a["c*"].next has POOL("MAX") mutate a["c*"].next.insert = RELU("r")',
  );
  assert.deepEqual([reached.added, ...feeds(reached, "add")], [["r"], "add < avg1 r"]);
  const last = await made('construct b from a mutate a["fc2"].insert = SOFTMAX("prob")');
  assert.deepEqual(
    [feeds(last, "prob"), last.architecture.outputs],
    [["prob < fc2"], [{ layer: 11, output: 0 }]],
  );
});

test("a deleted layer's neighbours are joined, and weights of other shapes are drawn", async () => {
  const short = await made('construct b from a mutate a["data"].delete = CONV("conv1")');
  assert.deepEqual(feeds(short, "avg1"), ["avg1 < data"]);
  assert.deepEqual([short.removed, short.reshaped], [["conv1"], []]);
  const wide = await made(
    'construct b from a mutate a["add"].insert = CONV("wide", filters=5, kernel_size=1)',
  );
  assert.deepEqual(wide.reshaped, ["conv2"]);
  const [first, again, other] = await Promise.all(
    ["1", "1", "2"].map((seed) => tensorsOf(wide, branched, seed)),
  );
  assert.deepEqual(first, again);
  assert.notDeepEqual(first, other);
});

test("a slice has what its layers need, and says which inputs the cut leaves", async () => {
  const slice = await made('slice b from a mutate b.input = a["conv2"] and b.output = a["fc2"]');
  assert.deepEqual(slice.names.toSorted(), ["add_output", "conv2", "fc1", "fc2", "flat", "join", "side"]);
  assert.deepEqual([...slice.extraInputs], ["side"]);
  const cut = await made('slice b from a mutate b.input = a["max1"] and b.output = a["add"]');
  assert.deepEqual(feeds(cut, "add", "avg1"), ["add < avg1 max1", "avg1 < conv1_output"]);
  const x = inputLayer("x", 4);
  const begin = plainLayer("one", "Dense", { units: 4 }, x);
  const two = plainLayer("two", "Dense", { units: 4 }, begin);
  const three = plainLayer("three", "Dense", { units: 4 }, two);
  const sum = plainLayer("sum", "Add", {}, three, begin);
  const residual = networkOfLayers([x, begin, two, three, sum], [sum]);
  const later = await made('slice b from a mutate b.input = a["three"] and b.output = a["sum"]', residual);
  assert.deepEqual(feeds(later, "sum", "three"), ["sum < three one_output", "three < two_output"]);
  assert.deepEqual([...later.extraInputs], ["one_output"]);
});

test("a layer that is called twice stays one, unless its calls would need different weights", async () => {
  const [left, right] = [inputLayer("left", 4), inputLayer("right", 4)];
  const first = plainLayer("twin", "Dense", { units: 4 }, left);
  const second = plainLayer("twin2", "Dense", { units: 4 }, right);
  const sum = plainLayer("sum", "Add", {}, first, second);
  const { architecture, names } = networkOfLayers([left, right, first, second, sum], [sum]);
  const layers = architecture.layers.map((layer, at) =>
    at === 3 ? { ...layer, weights: [], sharedWith: 2 } : layer,
  );
  const twins = { architecture: { ...architecture, layers }, names: names.with(3, "twin"), tensors: [] };
  const model = await made('construct b from a mutate a["twin"].insert = RELU("r")', twins);
  assert.deepEqual(model.added, ["r", "r_2"]);
  assert.deepEqual(
    [model.drawnBytes, model.architecture.layers.filter(({ weights }) => weights.length > 0).length],
    [0, 1],
  );
  const half = await made('slice b from a mutate b.input = a["right"] and b.output = a["sum"]', twins);
  assert.deepEqual([...half.extraInputs], ["left"]);
  const wide = 'construct b from a mutate a["left"].insert = DENSE("d", units=5)';
  assert.match(
    JSON.stringify(await derive(twins, wide)),
    /twin is called twice, and would need different weights/,
  );
});

const deep = networkOfLayers(...chain(5000));

function chain(count: number): [DraftNode[], [DraftNode]] {
  const nodes = [inputLayer("x", 2)];
  while (nodes.length < count) nodes.push(plainLayer(`r${nodes.length}`, "ReLU", {}, nodes.at(-1)!));
  return [nodes, [nodes.at(-1)!]];
}

test("a query derives from 100 versions at most", async () => {
  const statement = parseQuery('construct b from a mutate a["x"].insert = ELU("e")');
  assert.ok(statement.kind === "construct");
  const run = new Run({ now: () => 0 } as unknown as QuerySource, { steps: 1e6, ms: 1000 });
  const rows = new Array<VersionRow>(101);
  const derived = deriveModels(rows, compileDerivation(statement, ""), run);
  await assert.rejects(derived, (error) => isStemmaError(error, "QUERY_TOO_LARGE"));
});

/** Network, query, and a part of the reason. */
const refused: readonly (readonly [typeof branched, string, RegExp])[] = [
  [branched, 'construct b from a mutate a["none"].insert = RELU("r")', /no layer is where/],
  [
    branched,
    'construct b from a mutate a["conv1"].insert = RELU("fc2")',
    /two layers would have the name fc2/,
  ],
  [branched, 'construct b from a mutate a["avg1"].delete = ADD()', /add joins 2 layers/],
  [branched, 'construct b from a mutate a["conv1"].delete = POOL()', /conv1 would be joined with itself/],
  [
    branched,
    'construct b from a mutate a["avg1"].insert = POOL("MAX", "p", pool_size=2)',
    /add: Add cannot join/,
  ],
  [
    branched,
    'construct b from a mutate a["flat"].insert = DENSE("d", units=90000000)',
    /bytes of weights would be drawn/,
  ],
  [
    branched,
    'construct b from a mutate a["fc1"].insert = DENSE("d", units=2, kernel_initializer="identity")',
    /is not drawn here/,
  ],
  [branched, 'slice b from a mutate b.input = a["fc1"] and b.output = a["conv2"]', /no path .* has fc1/],
  [branched, 'construct b from a mutate a["conv2"].insert = PRELU("p", shared_axes=9)', /has no axis 9/],
  [
    branched,
    'construct b from a mutate a["conv2"].insert = CONV("c", filters=2, kernel_size=[3])',
    /needs 2 numbers/,
  ],
  [
    branched,
    'construct b from a mutate a["conv2"].insert = CONV("c", filters=2, kernel_size=2, strides=2, dilation_rate=2)',
    /strides and a dilation/,
  ],
  [
    branched,
    'construct b from a mutate a["conv2"].insert = CONV("c", filters=2000000000, kernel_size=2000000000, padding="same")',
    /more elements than/,
  ],
  [
    branched,
    'construct b from a mutate a["data"].insert = MASKING("m") and a["fc2"].insert = SOFTMAX("s")',
    /a mask would reach a Softmax/,
  ],
  [deep, 'construct b from a mutate a["x"].insert = ELU("e")', /would have more than 5000 layers/],
  [masked, 'construct b from a mutate a["mask"].insert = RELU("r")', /a mask passes mask/],
  [masked, 'slice b from a mutate b.input = a["lstm"] and b.output = a["out"]', /a mask passes mask/],
];
for (const [network, text, reason] of refused)
  test(`refused: ${text}`, async () => {
    assert.match(JSON.stringify(await derive(network, text)), reason);
  });

test("behind what ends a mask, changes are made", async () => {
  assert.deepEqual((await made('construct b from a mutate a["lstm"].insert = ELU("e")', masked)).added, [
    "e",
  ]);
});
