/** A GRU's setting reset_after: its value where it is absent, the weights that follow from it, and who may have it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { cleanLayer, weightForms } from "../../../../shared/model/layer-catalog.js";
import { translateLayer } from "../../../../shared/model/keras-dialect.js";
import type { Json } from "../../../../shared/tensor/strict-json.js";

const fail = (reason: string): never => {
  throw new RangeError(reason);
};
const settings = (...more: readonly (readonly [string, Json])[]): Map<string, Json> =>
  new Map<string, Json>([["units", 2], ...more]);

test("absent, it is true in Keras 3 and false elsewhere", () => {
  const translated = (keras: 2 | 3 | undefined, className = "GRU"): unknown =>
    translateLayer(
      className,
      { entry: new Map(), config: settings(), dialect: { keras, isMasked: false } },
      fail,
    ).config.get("reset_after");
  assert.deepEqual([translated(3), translated(2), translated(undefined)], [true, undefined, undefined]);
  assert.equal(translated(3, "LSTM"), undefined);
});

test("gives the two products a bias each", () => {
  const shapes = (...more: readonly (readonly [string, Json])[]): unknown =>
    weightForms("GRU", cleanLayer("GRU", settings(...more), fail)).map(({ name, shape }) => [name, shape]);
  const kernels = [
    ["kernel", [null, 6]],
    ["recurrent_kernel", [2, 6]],
  ];
  assert.deepEqual(shapes(["reset_after", true]), [...kernels, ["bias", [2, 6]]]);
  assert.deepEqual(shapes(["reset_after", true], ["use_bias", false]), kernels);
  for (const value of [false, null])
    assert.deepEqual(shapes(["reset_after", value]), [...kernels, ["bias", [6]]]);
});

test("is refused of a layer that has no reset gate, and where it is no truth value", () => {
  assert.throws(() => cleanLayer("LSTM", settings(["reset_after", true]), fail), /only a GRU/);
  assert.throws(() => cleanLayer("GRU", settings(["reset_after", 1]), fail), /reset_after/);
});
