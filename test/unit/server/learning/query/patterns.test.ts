/** Patterns on names against regular expressions, and what selectors capture. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { layerTest } from "../../../../../server/learning/query/templates.js";
import {
  likePattern,
  matchOf,
  prefixOf,
  selectorPattern,
} from "../../../../../server/learning/query/patterns.js";
import { allowedLayers } from "../../../../../shared/model/layer-catalog.js";
import "../../../../helpers/property-seed.js";

const fail = (reason: string): never => {
  throw new Error(reason);
};
const isLike = (pattern: string, text: string): boolean =>
  matchOf(likePattern(pattern, fail), text) !== undefined;
const captured = (selector: string, text: string): unknown => {
  const captures = matchOf(selectorPattern(selector, fail), text);
  return captures && [...captures];
};

test("like matches as a regular expression with the same meaning does", () => {
  const letters = (alphabet: string): fc.Arbitrary<string> =>
    fc.array(fc.constantFrom(...alphabet), { maxLength: 10 }).map((all) => all.join(""));
  fc.assert(
    fc.property(letters("ab%_"), letters("ab"), (pattern, text) => {
      const expression = new RegExp(`^${pattern.replaceAll("%", ".*").replaceAll("_", ".")}$`);
      assert.equal(isLike(pattern, text), expression.test(text));
    }),
  );
});

test("like escapes, and counts characters rather than code units", () => {
  assert.equal(isLike("100\\%", "100%"), true);
  assert.equal(isLike("100\\%", "100x"), false);
  assert.equal(isLike("_", "😀"), true);
  assert.equal(prefixOf(likePattern("net\\_a%", fail)), "net_a");
});

test("selectors have classes, ranges and captures, of which * takes as little as fits", () => {
  assert.deepEqual(captured("conv[1,3,5]", "conv3"), []);
  assert.deepEqual(captured("conv[1,3,5]", "conv2"), undefined);
  assert.deepEqual(captured("conv[1,3,5]", "conv,"), []);
  assert.deepEqual(captured("c[a-c][!0-9]?", "cbxy"), []);
  assert.deepEqual(captured("c[!0-9]", "c4"), undefined);
  assert.deepEqual(captured("conv*($1)", "conv12"), [[1, "12"]]);
  assert.deepEqual(captured("*($1)_*($2)_[ab]($3)", "x_y_z_a"), [
    [1, "x"],
    [2, "y_z"],
    [3, "a"],
  ]);
});

test("a pattern that a regular expression would follow for hours is matched at once", () => {
  assert.equal(isLike(`${"%a".repeat(100)}b`, "a".repeat(20_000)), false);
});

test("every class of layers is a template, and finds the layer of its class", () => {
  for (const className of allowedLayers)
    for (const name of [className, className.toUpperCase()]) {
      const fits = layerTest({ name, args: [], at: 0 }, new Set(), (_, reason) => fail(reason));
      const layer = { name: "x", forms: [{ className, config: {} }], next: [], prev: [] };
      assert.equal(fits(layer, new Map()), true, name);
      assert.equal(fits({ ...layer, forms: [{ className: "Other", config: {} }] }, new Map()), false, name);
    }
});

test("a template looks at kinds, names, settings and what a wrapper holds", () => {
  const holds = (
    args: readonly { readonly value: string | number | boolean; readonly setting?: string }[],
    [name, className, config]: readonly [
      template: string,
      className: string,
      config: Readonly<Record<string, unknown>>,
    ],
  ): boolean => {
    const template = { name, args: args.map((arg) => ({ ...arg, at: 0 })), at: 0 };
    const inner = { className, config };
    const forms = [{ className: "TimeDistributed", config: { layer: inner } }, inner];
    return layerTest(template, new Set([1]), (_, reason) => fail(reason))(
      { name: "pool3", forms, next: [], prev: [] },
      new Map([[1, "3"]]),
    );
  };
  assert.equal(holds([{ value: "max" }], ["POOL", "MaxPooling1D", {}]), true);
  assert.equal(holds([{ value: "AVG" }], ["POOL", "MaxPooling1D", {}]), false);
  assert.equal(holds([{ value: "pool$1" }], ["pool", "MaxPooling1D", {}]), true);
  assert.equal(holds([{ value: "pool4" }], ["POOL", "MaxPooling1D", {}]), false);
  assert.equal(
    holds([{ setting: "kernel_size", value: 3 }], ["CONV", "Conv2D", { kernel_size: [3, 3] }]),
    true,
  );
  assert.equal(
    holds([{ setting: "kernel_size", value: 3 }], ["CONV", "Conv2D", { kernel_size: [3, 5] }]),
    false,
  );
  assert.equal(holds([], ["RELU", "Activation", { activation: "relu" }]), true);
  assert.equal(holds([], ["TANH", "Activation", { activation: "relu" }]), false);
  assert.equal(holds([], ["TIMEDISTRIBUTED", "Dense", {}]), true);
});
