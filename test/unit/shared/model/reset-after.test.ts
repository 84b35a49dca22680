/** What absent settings of recurrent layers mean, the weights that follow from reset_after, and who may have it. */
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

test("what is absent means in Keras 3 what Keras 3 does, and elsewhere what the engine does", () => {
  const translated = (keras: 2 | 3 | undefined, className = "GRU"): unknown => {
    const { config } = translateLayer(
      className,
      { entry: new Map(), config: settings(), dialect: { keras, isMasked: false } },
      fail,
    );
    return [config.get("reset_after"), config.get("recurrent_activation")];
  };
  assert.deepEqual(translated(3), [true, "sigmoid"]);
  assert.deepEqual(translated(3, "LSTM"), [undefined, "sigmoid"]);
  for (const keras of [2, undefined] as const) assert.deepEqual(translated(keras), [undefined, undefined]);
  assert.deepEqual(translated(3, "SimpleRNN"), [undefined, undefined]);
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
