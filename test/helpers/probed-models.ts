/** Small models for probes, and probes of them in this process. */
import type { Figures, TensorValues } from "../../shared/determinism/figures.js";
import type { ProbeSummary } from "../../shared/determinism/probe-summary.js";
import type { Architecture, LeafLayer } from "../../shared/model/model.js";
import { fuseActivations } from "../../shared/train/backends/fused-layers.js";
import { probeModel, type ProbeRequest } from "../../shared/determinism/probe/probe-model.js";
import type { TensorFlow } from "../../shared/train/tensorflow.js";

export type Weights = LeafLayer["weights"];

export const inputLayer = (shape: readonly (number | null)[], dtype = "float32"): LeafLayer => ({
  className: "InputLayer",
  config: { batch_input_shape: [null, ...shape], dtype },
  inputs: [],
  weights: [],
});

export const weight = (name: string, ...shape: number[]): Weights[number] => ({
  name,
  dtype: "F32",
  shape,
  trainable: !name.startsWith("moving"),
});

/** @param from a layer's index, or index and output */
export const layerOn = (
  className: string,
  from: readonly (number | readonly [number, number])[],
  config: LeafLayer["config"] = {},
  weights: Weights = [],
): LeafLayer => ({
  className,
  config,
  inputs: from.map((each) => {
    const [layer, output] = typeof each === "number" ? [each, 0] : each;
    return { layer, output };
  }),
  weights,
});

export const denseOn = (
  from: number | readonly [number, number],
  inputs: number,
  units: number,
  activation: string,
): LeafLayer =>
  layerOn("Dense", [from], { units, activation, use_bias: true }, [
    weight("kernel", inputs, units),
    weight("bias", units),
  ]);

export const modelOf = (...layers: LeafLayer[]): Architecture => ({
  layers,
  outputs: [{ layer: layers.length - 1, output: 0 }],
});

/** Two inputs, one layer that both go through, and a sum. */
export const twins = modelOf(
  inputLayer([4]),
  inputLayer([4]),
  denseOn(0, 4, 3, "tanh"),
  { ...denseOn(1, 4, 3, "tanh"), weights: [], sharedWith: 2 },
  layerOn("Add", [2, 3]),
  denseOn(4, 3, 2, "sigmoid"),
);

/** A recurrent layer with three outputs, of which the last is read. */
export const states = modelOf(
  inputLayer([5, 2]),
  layerOn(
    "LSTM",
    [0],
    { units: 3, activation: "tanh", recurrent_activation: "sigmoid", use_bias: true, return_state: true },
    [weight("kernel", 2, 12), weight("recurrent_kernel", 3, 12), weight("bias", 12)],
  ),
  denseOn([1, 2], 3, 2, "linear"),
);

const normalization = (from: number, channels: number): LeafLayer =>
  layerOn(
    "BatchNormalization",
    [from],
    { axis: -1, momentum: 0.99, epsilon: 0.001, center: true, scale: true },
    ["gamma", "beta", "moving_mean", "moving_variance"].map((name) => weight(name, channels)),
  );

/** What the engine computes as one: a convolution, its normalisation and its activation. */
export const folded = modelOf(
  inputLayer([6, 6, 2]),
  layerOn(
    "Conv2D",
    [0],
    {
      filters: 3,
      kernel_size: [3, 3],
      strides: [1, 1],
      padding: "same",
      activation: "linear",
      use_bias: false,
    },
    [weight("kernel", 3, 3, 2, 3)],
  ),
  normalization(1, 3),
  layerOn("ReLU", [2], { max_value: 6 }),
  layerOn("Flatten", [3]),
  denseOn(4, 108, 2, "linear"),
);

export function probeHere(
  tf: TensorFlow,
  request: Partial<ProbeRequest> & Pick<ProbeRequest, "architecture">,
  onTensor?: (name: string, figures: Figures, values: TensorValues) => void,
): ProbeSummary {
  const backend = tf.getBackend();
  const run = probeModel(
    { seed: "1", batch: 2, size: 8, ...request },
    { tf, fuseActivations, kernelOf: () => `${backend} tfjs`, environment: { backend }, onTensor },
  );
  return { ...run, runs: { count: 1, differing: 0 } };
}
