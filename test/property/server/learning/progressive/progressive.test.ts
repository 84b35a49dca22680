/**
 * Soundness, compared with the real forward pass: the kernels' results for a random network are within the
 * bounds at every level, and every progressive answer equals the full-precision one.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import fc from "fast-check";
import "../../../../helpers/property-seed.js";
import { compileNetwork } from "../../../../../server/learning/progressive/compile-network.js";
import { minMargin, propagateBounds } from "../../../../../server/learning/progressive/interval-network.js";
import {
  evaluateProgressively,
  type ProgressiveRequest,
} from "../../../../../server/learning/progressive/progressive-evaluation.js";
import { fixedReader, storedReader } from "../../../../../server/learning/progressive/weight-reader.js";
import { createDeltaCodec } from "../../../../../shared/delta/codec.js";
import { plainKernels } from "../../../../../shared/delta/kernels/plain.js";
import { tighten } from "../../../../../server/learning/progressive/tighten.js";
import { agreesWithFull, topKOf } from "../../../../../server/learning/progressive/top-k.js";
import type { LeafLayer } from "../../../../../shared/model/model.js";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { Streams } from "../../../../../shared/random/streams.js";
import { buildTrainable } from "../../../../../shared/train/trainable.js";
import {
  drawNetwork,
  keepHighestPlanes,
  floatTensor,
  type DrawnNetwork,
} from "../../../../helpers/random-network.js";
import { depth } from "../../../../helpers/test-depth.js";

const numRuns = depth(50, 5_000);
const seeds = fc.integer({ min: 0, max: 2 ** 31 - 1 });

let backend: StartedBackend;
before(async () => {
  backend = await startWasmBackend();
});
after(() => {
  backend.close();
});

/** The real forward pass of `count` samples in one batch. */
function forward({ architecture, tensors }: DrawnNetwork, inputs: Float32Array, count: number): Float32Array {
  const { tf } = backend;
  const model = buildTrainable(tf, architecture, tensors);
  try {
    return tf.tidy(() =>
      model
        .forward(
          tf.tensor(inputs, [
            count,
            ...(architecture.layers[0]!.config["batch_input_shape"] as number[]).slice(1),
          ]),
          false,
        )[0]!
        .dataSync<"float32">()
        .slice(),
    );
  } finally {
    model.dispose();
  }
}

describe("progressive evaluation, against the real forward pass", () => {
  it("bounds contain what the kernels compute, with 1, 2, 3 and 4 known bytes of the weights", () => {
    let finite = 0;
    fc.assert(
      fc.property(seeds, (seed) => {
        const drawn = drawNetwork(seed);
        const outputs = forward(drawn, drawn.inputs, drawn.sampleCount);
        const size = drawn.inputs.length / drawn.sampleCount;
        for (let planes = 1; planes <= 4; planes++) {
          const network = compileNetwork(
            drawn.architecture,
            drawn.tensors.map(({ bytes }) => ({ bytes: keepHighestPlanes(bytes, planes), planes })),
          );
          for (let sample = 0; sample < drawn.sampleCount; sample++) {
            const { low, high } = propagateBounds(
              network,
              drawn.inputs.subarray(sample * size, (sample + 1) * size),
            )[network.output]!.out;
            assert.equal(low.length, drawn.classes);
            for (let i = 0; i < low.length; i++) {
              const value = outputs[sample * drawn.classes + i]!;
              if (Number.isNaN(low[i])) continue;
              finite++;
              assert.ok(
                value >= low[i]! && value <= high[i]!,
                `seed ${seed}, ${planes} bytes, sample ${sample}, output ${i}: ${value} is not within ${low[i]} … ${high[i]}`,
              );
            }
          }
        }
      }),
      { numRuns },
    );
    assert.ok(finite > numRuns * 10, `only ${finite} bounds are known`);
  });

  it("bounds from backward passes are valid, for tightened layers and for margins between outputs", () => {
    let tighter = 0;
    let better = 0;
    fc.assert(
      fc.property(seeds, fc.integer({ min: 1, max: 4 }), (seed, planes) => {
        const drawn = drawNetwork(seed, { samples: 2 });
        const size = drawn.inputs.length / drawn.sampleCount;
        const network = compileNetwork(
          drawn.architecture,
          drawn.tensors.map(({ bytes }) => ({ bytes: keepHighestPlanes(bytes, planes), planes })),
        );
        // The ranking is the last layer without its softmax.
        const layers = drawn.architecture.layers.map((leaf, at) =>
          network.endsInSoftmax && at === drawn.architecture.layers.length - 1
            ? { ...leaf, config: { ...leaf.config, activation: "linear" } }
            : leaf,
        );
        const outputs = forward(
          { ...drawn, architecture: { ...drawn.architecture, layers } },
          drawn.inputs,
          drawn.sampleCount,
        );
        for (let sample = 0; sample < drawn.sampleCount; sample++) {
          const row = outputs.subarray(sample * drawn.classes, (sample + 1) * drawn.classes);
          const first = propagateBounds(network, drawn.inputs.subarray(sample * size, (sample + 1) * size));
          const second = tighten(network, first);
          if (second !== first) tighter++;
          for (const propagation of [first, second]) {
            const { low, high } = propagation[network.ranking]!.out;
            row.forEach((value, i) => {
              assert.ok(
                Number.isNaN(low[i]) || (value >= low[i]! && value <= high[i]!),
                `seed ${seed}, ${planes} bytes, sample ${sample}, output ${i}: ${value} is not within ${low[i]} … ${high[i]}`,
              );
            });
            for (let i = 0; i < row.length; i++) {
              const j = (i + 1) % row.length;
              const margin = minMargin(
                network,
                propagation,
                { step: network.ranking, first: i, second: j },
                Infinity,
              );
              assert.ok(
                margin <= row[i]! - row[j]! || margin === -Infinity,
                `seed ${seed}, ${planes} bytes, sample ${sample}: output ${i} exceeds ${j} by ${row[i]! - row[j]!}, less than ${margin}`,
              );
              if (margin > low[i]! - high[j]!) better++;
            }
          }
        }
      }),
      {
        numRuns: 2 * numRuns,
        // A saturated sigmoid over wide bounds.
        examples: [
          [1694349167, 1],
          [1104350351, 1],
        ],
      },
    );
    assert.ok(
      tighter > numRuns / 10 && better > numRuns,
      `${tighter} samples tightened, ${better} margins better than by bounds`,
    );
  });

  it("bounds contain the results of exact arithmetic, for a network written by hand in float64", () => {
    fc.assert(
      fc.property(seeds, fc.integer({ min: 1, max: 4 }), (seed, planes) => {
        const stream = new Streams(String(seed), 0).stream("chain");
        const draw = (count: number): number[] =>
          Array.from({ length: count }, () => Math.fround(stream.uniformBetween(-1, 1)));
        const [kernel, bias, dense, last] = [draw(3 * 3 * 2 * 4), draw(4), draw(4 * 3), draw(3)] as const;
        const sample = draw(6 * 6 * 2);
        const leaf = (
          className: string,
          config: Record<string, unknown>,
          from: number,
          weights: readonly (readonly [string, readonly number[]])[] = [],
        ): LeafLayer => ({
          className,
          config,
          inputs: [{ layer: from, output: 0 }],
          weights: weights.map(([name, shape]) => ({ name, dtype: "F32", shape, trainable: true })),
        });
        const layers: LeafLayer[] = [
          {
            className: "InputLayer",
            config: { batch_input_shape: [null, 6, 6, 2], dtype: "float32" },
            inputs: [],
            weights: [],
          },
          leaf("Conv2D", { filters: 4, kernel_size: [3, 3], activation: "relu", use_bias: true }, 0, [
            ["kernel", [3, 3, 2, 4]],
            ["bias", [4]],
          ]),
          leaf("GlobalAveragePooling2D", {}, 1),
          leaf("Dense", { units: 3, activation: "linear", use_bias: true }, 2, [
            ["kernel", [4, 3]],
            ["bias", [3]],
          ]),
        ];
        const tensors = [
          floatTensor([3, 3, 2, 4], kernel),
          floatTensor([4], bias),
          floatTensor([4, 3], dense),
          floatTensor([3], last),
        ];
        const network = compileNetwork(
          { layers, outputs: [{ layer: 3, output: 0 }] },
          tensors.map(({ bytes }) => ({ bytes: keepHighestPlanes(bytes, planes), planes })),
        );
        const { low, high } = propagateBounds(network, sample)[network.output]!.out;
        const means = [0, 1, 2, 3].map((filter) => {
          let sum = 0;
          for (let y = 0; y < 4; y++)
            for (let x = 0; x < 4; x++) {
              let value = bias[filter]!;
              for (let dy = 0; dy < 3; dy++)
                for (let dx = 0; dx < 3; dx++)
                  for (let c = 0; c < 2; c++)
                    value +=
                      sample[((y + dy) * 6 + x + dx) * 2 + c]! *
                      kernel[((dy * 3 + dx) * 2 + c) * 4 + filter]!;
              sum += Math.max(0, value);
            }
          return sum / 16;
        });
        last.forEach((start, unit) => {
          const exact = means.reduce((sum, mean, filter) => sum + mean * dense[filter * 3 + unit]!, start);
          assert.ok(
            exact >= low[unit]! && exact <= high[unit]!,
            `seed ${seed}, ${planes} bytes: ${exact} is not within ${low[unit]} … ${high[unit]}`,
          );
          if (planes === 4)
            assert.ok(high[unit]! - low[unit]! < 1e-4, "all bytes leave no more than rounding");
        });
      }),
      { numRuns },
    );
  });

  it("answers are the full-precision ones, for the first and the first five", async () => {
    const decided = [0, 0, 0, 0, 0];
    await fc.assert(
      fc.asyncProperty(seeds, fc.constantFrom("planes", "fixed"), async (seed, layout) => {
        const drawn = drawNetwork(seed, { samples: 4 });
        const report = await evaluateProgressively({ ...requestOf(drawn, layout), tops: [1, 5] });
        const outputs = forward(drawn, drawn.inputs, drawn.sampleCount);
        for (const { top, answers, levels, equal } of report.tops) {
          assert.notEqual(equal, false);
          answers.forEach((answer, sample) => {
            const expected = topKOf(
              outputs.subarray(sample * drawn.classes, (sample + 1) * drawn.classes),
              top,
            );
            assert.ok(
              answer === undefined ? expected === undefined : agreesWithFull(answer, expected),
              `seed ${seed}, top ${top}, sample ${sample}: ${JSON.stringify(answer)} instead of ${JSON.stringify(expected)}`,
            );
            decided[levels[sample]!]!++;
          });
        }
      }),
      {
        numRuns,
        examples: [
          [1407570556, "planes"],
          [576481515, "planes"],
          // Decided with three bytes, as few are.
          [22, "planes"],
        ],
      },
    );
    // Not vacuous: bounds decide some inputs with two and three bytes.
    assert.ok(decided[2]! > numRuns / 10 && decided[3]! > 0, `decided by level: ${decided.join(", ")}`);
  });

  it("concludes nothing if a weight or an input is NaN or infinite", async () => {
    for (const odd of [NaN, Infinity, -Infinity, 3.4e38]) {
      const drawn = drawNetwork(5, { scale: "usual", samples: 2 });
      for (let leaf = 0; leaf < drawn.tensors.length; leaf++) {
        const values = new Float32Array(drawn.tensors[leaf]!.bytes.slice().buffer);
        values[values.length >> 1] = odd;
        const spoilt = {
          ...drawn,
          tensors: drawn.tensors.map((tensor, at) =>
            at === leaf ? floatTensor(tensor.shape, values) : tensor,
          ),
        };
        const report = await evaluateProgressively({ ...requestOf(spoilt), tops: [1, 5], compare: true });
        for (const { equal } of report.tops) assert.equal(equal, true);
      }
      const inputs = drawn.inputs.slice();
      inputs[1] = odd;
      const report = await evaluateProgressively({
        ...requestOf({ ...drawn, inputs }),
        tops: [1],
        compare: true,
      });
      assert.equal(report.tops[0]!.equal, true);
      if (odd !== 3.4e38) assert.equal(report.tops[0]!.levels[0], 4);
    }
  });
});

const codec = createDeltaCodec(plainKernels());

/** A request that reads the weights from byte planes of a store, or from fixed planes. */
function requestOf(
  drawn: DrawnNetwork,
  layout: "planes" | "fixed" = "planes",
): Omit<ProgressiveRequest, "tops"> {
  const { architecture, tensors, inputs, sampleCount } = drawn;
  const size = inputs.length / sampleCount;
  const readHighPlanes = (
    leaf: number,
    planes: number,
  ): Promise<{ bytes: Uint8Array; readBytes: number }> => {
    const { bytes } = tensors[leaf]!;
    return Promise.resolve({
      bytes: keepHighestPlanes(bytes, planes),
      readBytes: (bytes.length * planes) / 4,
    });
  };
  return {
    architecture,
    inputs,
    count: sampleCount,
    forward: (samples) =>
      Promise.resolve(
        forward(
          drawn,
          Float32Array.from(
            samples.flatMap((sample) => [...inputs.subarray(sample * size, (sample + 1) * size)]),
          ),
          samples.length,
        ),
      ),
    weights:
      layout === "fixed"
        ? fixedReader(tensors, codec)
        : storedReader(tensors, {
            storedBytes: (leaf) => tensors[leaf]!.bytes.length,
            readHighPlanes,
            readFixedPlanes: () => Promise.resolve(undefined),
          }),
  };
}
