/** Layer identities: what makes them equal, what keeps them apart, twins, shared layers. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { commonPrefix } from "../../../../shared/model/common-prefix.js";
import { layerIdentities } from "../../../../shared/model/layer-identity.js";
import type { Architecture } from "../../../../shared/model/model.js";
import {
  architectureOf,
  type WrittenLayer,
  type WrittenModel,
} from "../../../helpers/random-architectures.js";

const input: WrittenLayer = { className: "InputLayer", inputs: [] };
const dense = (from: number, units = 3, config: WrittenLayer["config"] = {}): WrittenLayer => ({
  className: "Dense",
  config: { units, ...config },
  inputs: [from],
  weight: [4, units],
});
const join = (...inputs: number[]): WrittenLayer => ({ className: "Concatenate", inputs });

/** Pairs of positions in the two written lists. */
function sharedPositions(
  child: WrittenModel,
  ancestor: WrittenModel,
): readonly (readonly [number, number])[] {
  return commonPrefix(child.architecture, ancestor.architecture)
    .layers.map(
      (pair) => [child.writtenAt[pair.child] as number, ancestor.writtenAt[pair.ancestor] as number] as const,
    )
    .sort(([left], [right]) => left - right);
}

describe("what counts", () => {
  const identityOfDense = (config: WrittenLayer["config"], className = "Dense"): string | undefined =>
    layerIdentities(
      architectureOf([input, { ...dense(0), className, config: { units: 3, ...config } }], [1]).architecture,
    )[1];

  test("initialisers, seeds, absent and null members and written-out defaults do not", () => {
    const plain = identityOfDense({});
    assert.notEqual(plain, undefined);
    for (const config of [
      { kernel_initializer: { class_name: "GlorotNormal", config: { seed: 7 } } },
      { bias_constraint: null, kernel_regularizer: null, activity_regularizer: null },
      { use_bias: true, activation: "linear", input_dim: 4 },
      { activation: null },
    ])
      assert.equal(identityOfDense(config), plain);
  });

  test("what the layer computes does", () => {
    const different = [{}, { activation: "relu" }, { use_bias: false }].map((config) =>
      identityOfDense(config),
    );
    assert.equal(new Set([...different, identityOfDense({}, "Conv1D")]).size, 4);
  });

  test("one number and a list of it are one kernel size; two names of an activation are one", () => {
    const conv = (config: WrittenLayer["config"]): string | undefined =>
      identityOfDense({ filters: 3, ...config }, "Conv2D");
    assert.equal(
      conv({ kernel_size: 3, activation: "hard_sigmoid" }),
      conv({ kernel_size: [3, 3], activation: "hardSigmoid" }),
    );
    assert.notEqual(conv({ kernel_size: 3 }), conv({ kernel_size: [3, 5] }));
  });

  test("settings of a layer inside another are treated alike", () => {
    const inside = (config: object): string | undefined =>
      identityOfDense({ layer: { class_name: "LSTM", config: { units: 3, ...config } } }, "TimeDistributed");
    assert.equal(inside({ kernel_initializer: "ones", use_bias: true }), inside({}));
    assert.notEqual(inside({ go_backwards: true }), inside({}));
  });

  test("the batch size does not", () => {
    const of = (batch: number | null): string | undefined =>
      layerIdentities(
        architectureOf(
          [{ ...input, config: { batch_input_shape: [batch, 4], dtype: "float32" } }, dense(0)],
          [1],
        ).architecture,
      )[1];
    assert.equal(of(null), of(8));
  });
});

describe("twins", () => {
  test("the counterexample to ancestor cones: nobody inherits from the wrong twin", () => {
    // G: both dense layers of width 5 come after the first twin; A: one after each.
    const ancestor = architectureOf([input, dense(0), dense(0), dense(1, 5), dense(1, 6)], [3, 4, 2]);
    const child = architectureOf([input, dense(0), dense(0), dense(1, 5), dense(2, 6)], [3, 4]);
    assert.deepEqual(sharedPositions(child, ancestor), [[0, 0]]);
  });

  test("are told apart by uses that both models have, whatever the head", () => {
    const body = [input, dense(0), dense(0), dense(1, 5), dense(2, 6), join(3, 4)];
    const ancestor = architectureOf([...body, dense(5, 10)], [6]);
    // This head is computed from the second tower first, so that the canonical order swaps the twins.
    const child = architectureOf([...body, dense(4, 11), dense(5, 12)], [6, 7]);
    assert.notDeepEqual(ancestor.writtenAt.slice(0, 3), child.writtenAt.slice(0, 3));
    assert.deepEqual(sharedPositions(child, ancestor), [
      [0, 0],
      [1, 1],
      [2, 2],
      [3, 3],
      [4, 4],
      [5, 5],
    ]);
  });

  test("stay outside with their successors where nothing tells them apart", () => {
    const ancestor = architectureOf([input, dense(0, 9), dense(1), dense(1), join(2, 3), dense(4)], [5]);
    const symmetric = architectureOf(
      [input, dense(0, 9), dense(1), dense(1), dense(2, 7), dense(3, 7)],
      [4, 5],
    );
    assert.deepEqual(sharedPositions(symmetric, ancestor), [
      [0, 0],
      [1, 1],
    ]);
  });

  test("equal towers are told apart where they join", () => {
    const tower = architectureOf(
      [input, dense(0), dense(0), dense(1, 5), dense(2, 5), join(3, 4), dense(5, 10)],
      [6],
    );
    const identities = layerIdentities(tower.architecture);
    assert.equal(identities.includes(undefined), false);
    assert.equal(new Set(identities).size, identities.length);
  });

  test("thousands of twins take bounded work", () => {
    const layers = [input, ...Array.from({ length: 2_000 }, () => dense(0))];
    const joined = [...layers, join(...layers.keys())];
    const { architecture } = architectureOf(joined, [joined.length - 1]);
    assert.equal(layerIdentities(architecture).filter((identity) => identity === undefined).length, 0);
  });
});

describe("shared layers", () => {
  const siamese = (isShared: boolean): Architecture =>
    architectureOf(
      [
        input,
        { ...input, config: { batch_input_shape: [null, 6], dtype: "float32" } },
        dense(0),
        { ...dense(1), ...(isShared ? { sharedWith: 2 } : {}) },
        join(2, 3),
      ],
      [4],
    ).architecture;

  test("are not mixed up with separate ones", () => {
    assert.deepEqual(
      commonPrefix(siamese(true), siamese(false)).layers.map(({ child }) => child),
      [0, 1],
    );
    assert.equal(commonPrefix(siamese(true), siamese(true)).layers.length, 5);
  });

  test("give their weights once, from the call that has them in each model", () => {
    const body = [input, dense(0), { ...dense(1), sharedWith: 1, weight: [4, 3] }];
    const ancestor = architectureOf([...body, dense(2, 10)], [3]).architecture;
    const child = architectureOf([...body, dense(2, 11)], [3]).architecture;
    assert.deepEqual(commonPrefix(child, ancestor).weights, [{ child: "1/0", ancestor: "1/0" }]);
    // A head after the first call only: the layer is called once, and inherits all the same.
    const once = architectureOf([input, dense(0), dense(1, 12)], [2]).architecture;
    assert.deepEqual(commonPrefix(once, ancestor).weights, [{ child: "1/0", ancestor: "1/0" }]);
  });
});
