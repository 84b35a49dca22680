/** Models built by TensorFlow.js itself, for the tests of import and export. */
import * as tf from "@tensorflow/tfjs";

export interface SavedByTfjs {
  readonly modelJson: Uint8Array;
  readonly tensors: ReadonlyMap<string, { readonly shape: readonly number[]; readonly bytes: Uint8Array }>;
}

/** What `model.save` would write: model.json, and every weight's bytes by name. */
export async function savedByTfjs(model: tf.LayersModel): Promise<SavedByTfjs> {
  let artifacts: tf.io.ModelArtifacts | undefined;
  await model.save(
    tf.io.withSaveHandler((given) => {
      artifacts = given;
      return Promise.resolve({
        modelArtifactsInfo: { dateSaved: new Date(0), modelTopologyType: "JSON" as const },
      });
    }),
  );
  const { modelTopology, weightSpecs = [], weightData } = artifacts as tf.io.ModelArtifacts;
  const data = new Uint8Array(weightData as ArrayBuffer);
  const tensors = new Map<string, { shape: readonly number[]; bytes: Uint8Array }>();
  let at = 0;
  for (const { name, shape } of weightSpecs) {
    const length = 4 * shape.reduce((product, extent) => product * extent, 1);
    tensors.set(name, { shape, bytes: data.slice(at, at + length) });
    at += length;
  }
  const json = {
    format: "layers-model",
    generatedBy: "TensorFlow.js tfjs-layers v4.22.0",
    convertedBy: null,
    modelTopology,
    weightsManifest: [{ paths: ["./weights.bin"], weights: weightSpecs }],
  };
  return { modelJson: new TextEncoder().encode(JSON.stringify(json)), tensors };
}

/**
 * Small models of every kind that the import distinguishes: chains, branches, shared layers, nested models,
 * wrappers, several inputs and outputs.
 */
export const tfjsModels: Readonly<Record<string, () => tf.LayersModel>> = {
  sequential: () =>
    tf.sequential({
      layers: [
        tf.layers.conv2d({ filters: 3, kernelSize: 3, inputShape: [8, 8, 1], activation: "relu" }),
        tf.layers.batchNormalization(),
        tf.layers.depthwiseConv2d({ kernelSize: 3, padding: "same" }),
        tf.layers.maxPooling2d({ poolSize: 2 }),
        tf.layers.flatten(),
        tf.layers.dropout({ rate: 0.25 }),
        tf.layers.dense({ units: 4, activation: "softmax", kernelRegularizer: "l1l2" }),
      ],
    }),
  recurrent: () =>
    tf.sequential({
      layers: [
        tf.layers.lstm({ units: 5, returnSequences: true, inputShape: [6, 3] }),
        tf.layers.gru({ units: 4 }),
        tf.layers.dense({ units: 1 }),
      ],
    }),
  wrapped: () =>
    tf.sequential({
      layers: [
        tf.layers.bidirectional({
          layer: tf.layers.lstm({ units: 3, returnSequences: true }),
          mergeMode: "concat",
          inputShape: [5, 2],
        }),
        tf.layers.timeDistributed({ layer: tf.layers.dense({ units: 2 }) }),
        tf.layers.flatten(),
        tf.layers.dense({ units: 1 }),
      ],
    }),
  embedded: () =>
    tf.sequential({
      layers: [
        tf.layers.embedding({ inputDim: 10, outputDim: 4, inputLength: 3 }),
        tf.layers.flatten(),
        tf.layers.dense({ units: 2 }),
      ],
    }),
  branches: () => {
    const input = tf.input({ shape: [6] });
    const left = tf.layers.dense({ units: 4 }).apply(input) as tf.SymbolicTensor;
    const right = tf.layers.dense({ units: 4 }).apply(input) as tf.SymbolicTensor;
    const joined = tf.layers.concatenate().apply([left, right]) as tf.SymbolicTensor;
    const added = tf.layers.add().apply([right, left]) as tf.SymbolicTensor;
    return tf.model({
      inputs: input,
      outputs: [tf.layers.dense({ units: 2 }).apply(joined) as tf.SymbolicTensor, added],
    });
  },
  shared: () => {
    const a = tf.input({ shape: [8, 8, 1] });
    const b = tf.input({ shape: [8, 8, 1] });
    const inner = tf.sequential({
      layers: [
        tf.layers.conv2d({ filters: 2, kernelSize: 3, inputShape: [8, 8, 1] }),
        tf.layers.batchNormalization(),
      ],
    });
    const outer = tf.sequential({ layers: [inner, tf.layers.flatten()] });
    const joined = tf.layers
      .concatenate()
      .apply([outer.apply(b) as tf.SymbolicTensor, outer.apply(a) as tf.SymbolicTensor]);
    const twice = tf.layers.dense({ units: 144, activation: "tanh" });
    const first = twice.apply(joined) as tf.SymbolicTensor;
    return tf.model({
      inputs: [a, b],
      outputs: tf.layers.dense({ units: 2 }).apply(twice.apply(first)) as tf.SymbolicTensor,
    });
  },
  /**
   * The second call of `last` can be made before its first: TensorFlow.js, loading the calls in this order,
   * would number them the other way round.
   */
  overtaking: () => {
    const input = tf.input({ shape: [3] });
    const again = tf.layers.dense({ units: 3 });
    const between = tf.layers.dense({ units: 3 });
    const last = tf.layers.dense({ units: 3, activation: "tanh" });
    const first = again.apply(input) as tf.SymbolicTensor;
    const second = again.apply(between.apply(input)) as tf.SymbolicTensor;
    return tf.model({
      inputs: input,
      outputs: tf.layers
        .concatenate()
        .apply([
          first,
          last.apply(second) as tf.SymbolicTensor,
          last.apply(input) as tf.SymbolicTensor,
        ]) as tf.SymbolicTensor,
    });
  },
};

const chain =
  (inputShape: readonly number[], ...layers: tf.layers.Layer[]) =>
  (): tf.LayersModel => {
    const input = tf.input({ shape: [...inputShape] });
    return tf.model({
      inputs: input,
      outputs: layers.reduce((value, layer) => layer.apply(value) as tf.SymbolicTensor, input),
    });
  };
const image = [8, 8, 2];
const series = [6, 3];
const merged = (layer: tf.layers.Layer) => (): tf.LayersModel => {
  const inputs = [tf.input({ shape: [4] }), tf.input({ shape: [4] })];
  return tf.model({ inputs, outputs: layer.apply(inputs) as tf.SymbolicTensor });
};

/** One model for each layer class, as TensorFlow.js writes its defaults. */
export const everyLayer: Readonly<Record<string, () => tf.LayersModel>> = {
  Dense: chain([4], tf.layers.dense({ units: 2 })),
  Conv1D: chain(series, tf.layers.conv1d({ filters: 2, kernelSize: 3 })),
  Conv2D: chain(image, tf.layers.conv2d({ filters: 2, kernelSize: [3, 2] })),
  Conv2DTranspose: chain(image, tf.layers.conv2dTranspose({ filters: 3, kernelSize: 3 })),
  SeparableConv2D: chain(image, tf.layers.separableConv2d({ filters: 3, kernelSize: 3 })),
  DepthwiseConv2D: chain(
    image,
    tf.layers.depthwiseConv2d({ kernelSize: 3, depthMultiplier: 2, useBias: false }),
  ),
  BatchNormalization: chain(image, tf.layers.batchNormalization({ scale: false })),
  LayerNormalization: chain(series, tf.layers.layerNormalization()),
  SimpleRNN: chain(series, tf.layers.simpleRNN({ units: 2 })),
  GRU: chain(series, tf.layers.gru({ units: 2 })),
  LSTM: chain(series, tf.layers.lstm({ units: 2, useBias: false })),
  Embedding: chain([3], tf.layers.embedding({ inputDim: 5, outputDim: 2 })),
  PReLU: chain([4], tf.layers.prelu()),
  Activation: chain([4], tf.layers.activation({ activation: "hardSigmoid" })),
  ReLU: chain([4], tf.layers.reLU({ maxValue: 6 })),
  LeakyReLU: chain([4], tf.layers.leakyReLU()),
  ELU: chain([4], tf.layers.elu()),
  ThresholdedReLU: chain([4], tf.layers.thresholdedReLU()),
  Softmax: chain([4], tf.layers.softmax()),
  Dropout: chain([4], tf.layers.dropout({ rate: 0.1 })),
  SpatialDropout1D: chain(series, tf.layers.spatialDropout1d({ rate: 0.1 })),
  GaussianDropout: chain([4], tf.layers.gaussianDropout({ rate: 0.1 })),
  GaussianNoise: chain([4], tf.layers.gaussianNoise({ stddev: 0.1 })),
  AlphaDropout: chain([4], tf.layers.alphaDropout({ rate: 0.1 })),
  Flatten: chain(image, tf.layers.flatten()),
  Reshape: chain([4], tf.layers.reshape({ targetShape: [2, 2] })),
  Permute: chain(series, tf.layers.permute({ dims: [2, 1] })),
  RepeatVector: chain([4], tf.layers.repeatVector({ n: 3 })),
  Masking: chain(series, tf.layers.masking({ maskValue: 0 })),
  Rescaling: chain([4], tf.layers.rescaling({ scale: 0.5, offset: 1 })),
  ZeroPadding2D: chain(
    image,
    tf.layers.zeroPadding2d({
      padding: [
        [0, 1],
        [0, 1],
      ],
    }),
  ),
  Cropping2D: chain(
    image,
    tf.layers.cropping2D({
      cropping: [
        [1, 1],
        [1, 1],
      ],
    }),
  ),
  UpSampling2D: chain(image, tf.layers.upSampling2d({})),
  MaxPooling1D: chain(series, tf.layers.maxPooling1d({})),
  MaxPooling2D: chain(image, tf.layers.maxPooling2d({})),
  AveragePooling1D: chain(series, tf.layers.averagePooling1d({})),
  AveragePooling2D: chain(image, tf.layers.averagePooling2d({})),
  GlobalMaxPooling1D: chain(series, tf.layers.globalMaxPooling1d()),
  GlobalMaxPooling2D: chain(image, tf.layers.globalMaxPooling2d({})),
  GlobalAveragePooling1D: chain(series, tf.layers.globalAveragePooling1d()),
  GlobalAveragePooling2D: chain(image, tf.layers.globalAveragePooling2d({})),
  Add: merged(tf.layers.add()),
  Multiply: merged(tf.layers.multiply()),
  Average: merged(tf.layers.average()),
  Maximum: merged(tf.layers.maximum()),
  Minimum: merged(tf.layers.minimum()),
  Concatenate: merged(tf.layers.concatenate()),
  Dot: merged(tf.layers.dot({ axes: 1 })),
  TimeDistributed: chain(series, tf.layers.timeDistributed({ layer: tf.layers.dense({ units: 2 }) })),
  Bidirectional: chain(
    series,
    tf.layers.bidirectional({ layer: tf.layers.gru({ units: 2 }), mergeMode: "sum" }),
  ),
};
