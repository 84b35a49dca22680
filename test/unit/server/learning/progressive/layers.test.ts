/**
 * Bounds of single layers: linear bounds of activations, the measured error of float32 kernels, decisions,
 * and layers without bounds.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import fc from "fast-check";
import "../../../../helpers/property-seed.js";
import {
  ActivationLayer,
  activations,
  clippedRelu,
  leakyRelu,
  type Activation,
} from "../../../../../server/learning/progressive/activation-layers.js";
import type { ConstantTerm } from "../../../../../server/learning/progressive/bounded-layer.js";
import type { Bounds } from "../../../../../server/learning/progressive/bounds.js";
import { compileNetwork } from "../../../../../server/learning/progressive/compile-network.js";
import { minMargin, propagateBounds } from "../../../../../server/learning/progressive/interval-network.js";
import { MaxPoolingLayer } from "../../../../../server/learning/progressive/pooling-layers.js";
import { windowsOf } from "../../../../../server/learning/progressive/windows.js";
import { functionError } from "../../../../../server/learning/progressive/rounding.js";
import { agreesWithFull, decideTopK, topKOf } from "../../../../../server/learning/progressive/top-k.js";
import { weightBounds } from "../../../../../server/learning/progressive/weight-bounds.js";
import type { Architecture, LeafLayer } from "../../../../../shared/model/model.js";
import type { Tensor } from "../../../../../shared/tensor/tensor.js";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { keepHighestPlanes, floatTensor } from "../../../../helpers/random-network.js";
import { depth } from "../../../../helpers/test-depth.js";

const numRuns = depth(400, 100_000);
const every: Readonly<Record<string, Activation>> = {
  ...activations,
  clipped: clippedRelu(2.5),
  leaky: leakyRelu(0.1),
};
const number = fc.oneof(
  fc.double({ min: -8, max: 8, noNaN: true }),
  fc.double({ min: -60, max: 60, noNaN: true }),
  fc.double({ min: -1e-6, max: 1e-6, noNaN: true }),
  fc.double({ min: -1e38, max: 1e38, noNaN: true }),
  fc.constantFrom(0, -0, 2.5, -2.5, 6),
);

/** Returns slope and offset of a line such that coefficient·f(x) is at least slope·x + offset. */
function lineOf(layer: ActivationLayer, bounds: Bounds, coefficient: number): readonly [number, number] {
  const into = new Float64Array(1);
  const constant: ConstantTerm = { value: 0, magnitude: 0 };
  layer.backward(Float64Array.of(coefficient), { out: bounds }, [bounds], [into], constant);
  return [into[0]!, constant.value];
}

describe("activations over bounds", () => {
  for (const [name, activation] of Object.entries(every)) {
    it(`${name}: stays within its bounds and its lines`, () => {
      fc.assert(
        fc.property(
          number,
          number,
          fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 5, maxLength: 5 }),
          (a, b, shares) => {
            const low = Math.min(a, b);
            const high = Math.max(a, b);
            const bounds: Bounds = { shape: [1], low: Float64Array.of(low), high: Float64Array.of(high) };
            const layer = new ActivationLayer([1], activation);
            const { out } = layer.forward([bounds]);
            const [below, belowOffset] = lineOf(layer, bounds, 1);
            const [above, aboveOffset] = lineOf(layer, bounds, -1);
            for (const at of [
              low,
              high,
              ...shares.map((share) => low + share * (high - low)),
              ...shares.map((share) => 80 * share - 40),
            ]) {
              const x = Math.min(high, Math.max(low, at));
              const y = activation.value(x);
              assert.ok(
                y >= out.low[0]! && y <= out.high[0]!,
                `${name}(${x}) = ${y} is not within ${out.low[0]} … ${out.high[0]}`,
              );
              assert.ok(
                y >= below * x + belowOffset - 1e-13 * Math.abs(x),
                `${name}(${x}) = ${y} is below ${below}·x + ${belowOffset} between ${low} and ${high}`,
              );
              assert.ok(
                -y >= above * x + aboveOffset - 1e-13 * Math.abs(x),
                `${name}(${x}) = ${y} is above its line between ${low} and ${high}`,
              );
            }
          },
        ),
        { numRuns },
      );
    });
  }

  it("lines are tight: between −2 and 2 those of tanh are at most 0.6 apart, and those of relu meet at the ends", () => {
    const bounds: Bounds = { shape: [1], low: Float64Array.of(-2), high: Float64Array.of(2) };
    const gap = (name: string, x: number): number => {
      const layer = new ActivationLayer([1], every[name]!);
      const [below, belowOffset] = lineOf(layer, bounds, 1);
      const [above, aboveOffset] = lineOf(layer, bounds, -1);
      return -above * x - aboveOffset - (below * x + belowOffset);
    };
    for (const x of [-2, -1, 0, 1, 2]) assert.ok(gap("tanh", x) < 0.6);
    assert.ok(gap("relu", -2) < 1e-9 && gap("relu", 2) < 2.0001 && gap("relu", 0) < 1.0001);
  });

  it("NaN inputs give unknown bounds", () => {
    const bounds: Bounds = { shape: [1], low: Float64Array.of(NaN), high: Float64Array.of(NaN) };
    for (const activation of Object.values(every))
      assert.ok(Number.isNaN(new ActivationLayer([1], activation).forward([bounds]).out.low[0]));
  });
});

describe("float32 kernels, compared with exact functions", () => {
  let backend: StartedBackend;
  before(async () => {
    backend = await startWasmBackend();
  });
  after(() => {
    backend.close();
  });

  it("differ by no more than half of what bounds allow", () => {
    const { tf } = backend;
    const xs = Float32Array.from({ length: 60_001 }, (_, i) =>
      i < 40_000 ? (i - 20_000) / 1000 : i < 60_000 ? (i - 50_000) / 80 : 1e-30,
    );
    const kernels = {
      sigmoid: tf.sigmoid,
      tanh: tf.tanh,
      elu: tf.elu,
      selu: tf.selu,
      softplus: tf.softplus,
    } as const;
    for (const [name, kernel] of Object.entries(kernels)) {
      const ys = tf.tidy(() => kernel(tf.tensor1d(xs)).dataSync<"float32">());
      xs.forEach((x, i) => {
        const y = every[name]!.value(x);
        assert.ok(Math.abs(ys[i]! - y) <= functionError(y) / 2, `${name}(${x}) = ${ys[i]}, exactly ${y}`);
      });
    }
  });
});

const input = (shape: readonly number[]): LeafLayer => ({
  className: "InputLayer",
  config: { batch_input_shape: [null, ...shape], dtype: "float32" },
  inputs: [],
  weights: [],
});
const layerOf = (
  className: string,
  config: Record<string, unknown>,
  from: readonly number[],
  weights: readonly (readonly [string, readonly number[]])[] = [],
): LeafLayer => ({
  className,
  config,
  inputs: from.map((layer) => ({ layer, output: 0 })),
  weights: weights.map(([name, shape]) => ({ name, dtype: "F32", shape, trainable: true })),
});
const chain = (...layers: readonly LeafLayer[]): Architecture => ({
  layers,
  outputs: [{ layer: layers.length - 1, output: 0 }],
});
const dense = (from: number, inputs: number, units: number, activation = "linear"): LeafLayer =>
  layerOf(
    "Dense",
    { units, activation, use_bias: true },
    [from],
    [
      ["kernel", [inputs, units]],
      ["bias", [units]],
    ],
  );
const known = (tensors: readonly Tensor[], planes = 4): { bytes: Uint8Array; planes: number }[] =>
  tensors.map(({ bytes }) => ({ bytes: keepHighestPlanes(bytes, planes), planes }));

describe("weights by their highest bytes", () => {
  it("bound exactly the float32 numbers with these bytes", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 0xffffffff }),
        fc.integer({ min: 0, max: 0xffffffff }),
        fc.integer({ min: 1, max: 4 }),
        (word, other, planes) => {
          const unknown = planes === 4 ? 0 : 2 ** (32 - 8 * planes) - 1;
          const same = ((word & ~unknown) | (other & unknown)) >>> 0;
          const bytes = new Uint8Array(Uint32Array.of(word).buffer);
          const value = new Float32Array(Uint32Array.of(same).buffer)[0]!;
          const { mid, radius, allFinite } = weightBounds([1], bytes, planes);
          if (Number.isFinite(value) && allFinite) assert.ok(Math.abs(value - mid[0]!) <= radius[0]!);
          else
            assert.ok(
              Number.isNaN(mid[0]) || Number.isFinite(value),
              `${value} of ${word.toString(16)} is bounded by ${mid[0]} ± ${radius[0]}`,
            );
        },
      ),
      { numRuns },
    );
    assert.throws(() => weightBounds([2], new Uint8Array(7), 1), { code: "TENSOR_SIZE_MISMATCH" });
  });
});

describe("decisions", () => {
  const outputs = (values: readonly number[], k: number): ReturnType<typeof decideTopK> => {
    const network = compileNetwork(
      chain(input([1]), dense(0, 1, values.length)),
      known([
        floatTensor(
          [1, values.length],
          values.map(() => 0),
        ),
        floatTensor([values.length], values),
      ]),
    );
    return decideTopK(network, propagateBounds(network, [1]), k);
  };

  it("choose the largest, in order; leave ties and NaN undecided", () => {
    assert.deepEqual(outputs([3, 1, 2], 1), { classes: [0], isOrdered: true });
    assert.deepEqual(outputs([3, 1, 2], 2), { classes: [0, 2], isOrdered: true });
    assert.equal(outputs([3, 3, 2], 1), undefined);
    assert.deepEqual(outputs([3, 3, 2], 2), { classes: [0, 1], isOrdered: false });
    assert.equal(outputs([3, NaN, 2], 1), undefined);
    assert.deepEqual(outputs([3, 1], 5)?.classes, [0, 1]);
    assert.deepEqual(topKOf([1, 3, 3], 2), { classes: [1, 2], isOrdered: true });
    assert.equal(topKOf([1, NaN], 1), undefined);
    assert.ok(
      agreesWithFull({ classes: [1, 2], isOrdered: false }, { classes: [2, 1], isOrdered: true }) &&
        !agreesWithFull({ classes: [1, 2], isOrdered: true }, { classes: [2, 1], isOrdered: true }) &&
        !agreesWithFull({ classes: [1], isOrdered: true }, undefined),
    );
  });

  it("use that two outputs depend on the same uncertain activations", () => {
    // Two outputs that differ only by their bias, over activations with wide bounds.
    const network = compileNetwork(
      chain(input([2]), dense(0, 2, 2, "tanh"), dense(1, 2, 2)),
      known(
        [
          floatTensor([2, 2], [1.3, 0.7, -0.4, 0.9]),
          floatTensor([2], [0, 0]),
          floatTensor([2, 2], [1, 1, 1, 1]),
          floatTensor([2], [0.5, 0]),
        ],
        1,
      ).map((each, at) =>
        at === 0
          ? each
          : {
              bytes: known([
                [floatTensor([2], [0, 0]), floatTensor([2, 2], [1, 1, 1, 1]), floatTensor([2], [0.5, 0])][
                  at - 1
                ]!,
              ])[0]!.bytes,
              planes: 4,
            },
      ),
    );
    const propagation = propagateBounds(network, [1, 1]);
    const { low, high } = propagation[network.ranking]!.out;
    assert.ok(low[0]! < high[1]!, "their bounds overlap");
    assert.ok(
      Math.abs(
        minMargin(network, propagation, { step: network.ranking, first: 0, second: 1 }, Infinity) - 0.5,
      ) < 1e-3,
    );
    assert.deepEqual(decideTopK(network, propagation, 1), { classes: [0], isOrdered: true });
  });

  it("determine which input of a maximum is the largest", () => {
    const layer = new MaxPoolingLayer(
      [1, 1, 1],
      windowsOf(2, 1, { size: [2, 1], strides: [2, 1], dilation: [1, 1], padding: "valid" }),
      1,
    );
    const back = (
      low: readonly number[],
      high: readonly number[],
      coefficient: number,
    ): readonly number[] => {
      const bounds: Bounds = {
        shape: [2, 1, 1],
        low: Float64Array.from(low),
        high: Float64Array.from(high),
      };
      const into = new Float64Array(2);
      const constant: ConstantTerm = { value: 0, magnitude: 0 };
      layer.backward(Float64Array.of(coefficient), layer.forward([bounds]), [bounds], [into], constant);
      return [...into, constant.value];
    };
    assert.deepEqual(back([1, 3], [2, 4], -1), [0, -1, 0]);
    assert.deepEqual(
      back([1, 3], [3.5, 4], -1),
      [0, -1, -0.5],
      "the other input may exceed the winner's lower bound by a half",
    );
    assert.deepEqual(back([1, 3], [3.5, 4], 1), [0, 1, 0]);
    assert.deepEqual(back([1, 3], [5, 4], -1), [0, 0, -5], "at most the other input's upper bound");
  });
});

describe("what has no bounds", () => {
  const refused = (architecture: Architecture, tensors: readonly Tensor[], subject: string): void => {
    assert.throws(() => compileNetwork(architecture, known(tensors)), {
      code: "PROGRESSIVE_UNSUPPORTED",
      details: { subject },
    });
  };
  const ones = (shape: readonly number[]): Tensor =>
    floatTensor(shape, new Array<number>(shape.reduce((a, b) => a * b, 1)).fill(1));

  it("is refused by name", () => {
    refused(
      chain(
        input([3, 2]),
        layerOf(
          "LSTM",
          { units: 1 },
          [0],
          [
            ["kernel", [2, 4]],
            ["recurrent_kernel", [1, 4]],
            ["bias", [4]],
          ],
        ),
      ),
      [ones([2, 4]), ones([1, 4]), ones([4])],
      "layer 1 (LSTM)",
    );
    refused(
      chain(
        input([4, 4, 1]),
        layerOf(
          "DepthwiseConv2D",
          { kernel_size: [2, 2], dilation_rate: [2, 2], use_bias: false },
          [0],
          [["depthwise_kernel", [2, 2, 1, 1]]],
        ),
      ),
      [ones([2, 2, 1, 1])],
      "DepthwiseConv2D with a dilation, which TensorFlow.js ignores",
    );
    refused(
      chain(input([4, 4, 1]), layerOf("MaxPooling2D", { data_format: "channels_first" }, [0])),
      [],
      "MaxPooling2D with channels first",
    );
    refused(chain(input([2]), layerOf("Activation", { activation: "gelu" }, [0])), [], "the activation gelu");
    refused(
      chain(input([2]), layerOf("ReLU", { negative_slope: 0.1 }, [0])),
      [],
      "ReLU with a threshold or a negative slope",
    );
    refused(
      chain(input([2, 2]), layerOf("Activation", { activation: "relu" }, [0])),
      [],
      "outputs of shape [2, 2]",
    );
    refused(
      {
        layers: [input([2]), layerOf("Flatten", {}, [0])],
        outputs: [
          { layer: 0, output: 0 },
          { layer: 1, output: 0 },
        ],
      },
      [],
      "a model of several outputs",
    );
    refused(
      chain(
        { ...input([2]), config: { batch_input_shape: [null, null], dtype: "float32" } },
        layerOf("Flatten", {}, [0]),
      ),
      [],
      "inputs of any size ([any])",
    );
    assert.throws(
      () => compileNetwork(chain(input([4, 4, 1]), layerOf("MaxPooling2D", { pool_size: [5, 5] }, [0])), []),
      { code: "ARCHITECTURE_INVALID" },
    );
    assert.throws(() => compileNetwork(chain(input([2]), dense(0, 2, 2)), []), {
      code: "ARCHITECTURE_MISMATCH",
    });
  });
});
