/** Random changes of random networks; random-derivations.slow.test.ts makes more of them. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { allowedLayers } from "../../../../../shared/model/layer-catalog.js";
import * as networks from "../../../../helpers/derived-networks.js";
import { deriveRandomly } from "./same-network.js";

const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 1);
let backend: StartedBackend;
// The engine's foldings depend on which layers read a convolution, so their rounding does.
before(async () => {
  backend = await startWasmBackend({ fused: false });
});
after(() => {
  backend.close();
});

test(`a derived model is refused with a reason, or runs with the source's weights (seed ${seed})`, async () => {
  const { made, sliced, refused } = await deriveRandomly(backend.tf, seed, 25);
  // Hardly any of so few networks may be changed; the slow test demands each kind.
  assert.ok(made + sliced > 3 && refused > 3, JSON.stringify({ made, sliced, refused }));
});

/** Settings that a class needs; a class that is not here needs none, or joins layers. */
const settings: Readonly<Record<string, string>> = {
  Activation: 'activation="swish"',
  Bidirectional: "layer=LSTM(units=2, return_sequences=true)",
  TimeDistributed: "layer=DENSE(units=2)",
  Dense: "units=2",
  Embedding: "input_dim=9, output_dim=2",
  Permute: "dims=[2, 1]",
  RepeatVector: "n=2",
  Reshape: "target_shape=[12]",
  GaussianNoise: "stddev=0.1",
  ZeroPadding2D: "padding=[[1, 0], [2, 1]]",
  Cropping2D: "cropping=1",
  UpSampling2D: "size=2",
  DepthwiseConv2D: "kernel_size=2, depth_multiplier=2",
  Rescaling: "scale=2, offset=1",
};
const settingsOf = (className: string): string => {
  if (/^(SimpleRNN|GRU|LSTM)$/.test(className)) return "units=2, return_sequences=true";
  if (className.endsWith("Dropout") || className.startsWith("SpatialDropout")) return "rate=0.5";
  if (/Conv/.test(className)) return settings[className] ?? "filters=2, kernel_size=2";
  return settings[className] ?? (/^(Max|Average)Pooling/.test(className) ? "pool_size=2" : "");
};

test("a template makes each class of the catalog that follows one layer, and the engine runs it", async () => {
  const joins = "Add Average Concatenate Dot InputLayer Maximum Minimum Multiply".split(" ");
  const made = new Set<string>();
  for (const shape of [[4], [4, 3], [6, 6, 2]])
    for (const className of allowedLayers) {
      const input = networks.inputLayer("x", ...shape);
      const mid = networks.plainLayer("mid", "ReLU", {}, input);
      const network = networks.networkOfLayers([input, mid], [mid]);
      const given = ['"new"', ...[settingsOf(className)].filter((text) => text !== "")].join(", ");
      const text = `construct b from a mutate a["mid"].insert = ${className}(${given})`;
      const model = await networks.derive(network, text).catch((error: unknown) => String(error));
      if (typeof model !== "object") continue;
      const { architecture } = model;
      const tensors = await networks.tensorsOf(model, network);
      const [output] = networks.outputsOf(
        backend.tf,
        { architecture, tensors },
        networks.randomInputs(architecture, 1),
      );
      assert.ok(output !== undefined && output.values.every(Number.isFinite), className);
      made.add(className);
    }
  assert.deepEqual(
    allowedLayers.filter((name) => !made.has(name)),
    joins,
  );
});
