/**
 * Runs layers of tfjs-layers on the fused operations. Those are batch normalisation in training, relu with a
 * maximum as one clip, and both as one operation where the model's graph allows it. Names, weights and
 * configuration stay the same, so model files do too.
 */
import type { LayersModel, Tensor, Tensor4D } from "@tensorflow/tfjs";
import { batchNormTraining, type FusedActivation } from "../kernels/batch-norm.js";
import type { KernelRegistry, Tf } from "../kernels/kernel-registry.js";
import {
  activationOf,
  normalizesLastAxis,
  onlyReader,
  type BatchNormLayer,
  type ConvolutionLayer,
} from "./layer-graph.js";
import { firstInput, prototypeOf, replaceCall, type Layer } from "./replace-call.js";

/** The activation that each batch normalisation applies in training in place of the layer that follows. */
const fusedActivations = new WeakMap<Layer, FusedActivation>();
/** Activation layers whose activation the batch normalisation before them applies in training. */
const fusedAway = new WeakSet<Layer>();
/** Outputs of such a normalisation: the activation layer returns these unchanged, and no others. */
const activated = new WeakSet<Tensor>();
/** Models whose graph was examined already. */
const examined = new WeakSet<LayersModel>();

/** Replaces the layers' `call` by the fused operations until the registry closes. */
export function registerFusedLayers(registry: KernelRegistry): void {
  const { tf } = registry;
  replaceCall(
    registry,
    prototypeOf(tf, "BatchNormalization"),
    (stock) =>
      function (inputs, kwargs) {
        const layer = this as BatchNormLayer;
        const x = firstInput(inputs);
        if (kwargs?.training && normalizesLastAxis(layer)) return normalizeBatch(tf, layer, x);
        // tfjs needs gamma and beta in training and for gradients, also where the layer has none, and does
        // not broadcast along another axis than the last.
        const isSupported = normalizesLastAxis(layer) && layer.scale && layer.center;
        return isSupported
          ? stock.call(this, inputs, kwargs)
          : normalizeByOperations(tf, layer, x, kwargs?.training ?? false);
      },
  );
  replaceCall(
    registry,
    prototypeOf(tf, "ReLU"),
    (stock) =>
      function (inputs, kwargs) {
        if (fusedAway.has(this) && activated.has(firstInput(inputs))) return firstInput(inputs);
        const { maxValue } = this as Layer & { maxValue?: number };
        // Gives the same bits as relu and a clip, forward and in the gradient.
        if (maxValue === 6) return tf.relu6(firstInput(inputs));
        return stock.call(this, inputs, kwargs);
      },
  );
  replaceCall(
    registry,
    prototypeOf(tf, "Activation"),
    (stock) =>
      function (inputs, kwargs) {
        return fusedAway.has(this) && activated.has(firstInput(inputs))
          ? firstInput(inputs)
          : stock.call(this, inputs, kwargs);
      },
  );
  replaceCall(
    registry,
    prototypeOf(tf, "Conv2D"),
    (stock) =>
      function (inputs, kwargs) {
        const layer = this as ConvolutionLayer;
        const dilated = this.getClassName() === "Conv2D" && layer.dilationRate.some((rate) => rate > 1);
        return dilated && layer.dataFormat !== "channelsFirst"
          ? convolveDilated(tf, layer, firstInput(inputs))
          : stock.call(this, inputs, kwargs);
      },
  );
  replaceCall(
    registry,
    tf.LayersModel.prototype,
    (stock) =>
      function (inputs, kwargs) {
        if (kwargs?.training) fuseActivations(this as unknown as LayersModel);
        return stock.call(this, inputs, kwargs);
      },
  );
}

/** Convolves without tfjs's fused convolution, whose gradient rejects dilation. */
function convolveDilated(tf: Tf, layer: ConvolutionLayer, x: Tensor): Tensor {
  return tf.tidy(() => {
    const y = tf.conv2d(
      x as Tensor4D,
      layer.kernel.read() as Tensor4D,
      layer.strides,
      layer.padding,
      "NHWC",
      layer.dilationRate,
    );
    const biased = layer.bias ? y.add(layer.bias.read()) : y;
    return layer.activation ? layer.activation.apply(biased) : biased;
  });
}

/**
 * Normalises along any axis, with or without gamma and beta, by plain operations, whose gradients are right.
 */
function normalizeByOperations(tf: Tf, layer: BatchNormLayer, x: Tensor, training: boolean): Tensor {
  return tf.tidy(() => {
    const axis = layer.axis < 0 ? layer.axis + x.rank : layer.axis;
    const C = x.shape[axis]!;
    const others = x.shape.flatMap((_, d) => (d === axis ? [] : [d]));
    const { mean, variance } = training
      ? tf.moments(x, others)
      : { mean: layer.movingMean.read(), variance: layer.movingVariance.read() };
    if (training) moveStatistics(layer, mean, variance);
    const spread = (values: Tensor): Tensor => values.reshape(x.shape.map((_, d) => (d === axis ? C : 1)));
    let y = x.sub(spread(mean)).div(spread(variance.add(layer.epsilon).sqrt()));
    if (layer.gamma) y = y.mul(spread(layer.gamma.read()));
    return layer.beta ? y.add(spread(layer.beta.read())) : y;
  });
}

/** Updates the moving averages as tfjs-layers does. */
function moveStatistics(layer: BatchNormLayer, mean: Tensor, variance: Tensor): void {
  for (const [moving, value] of [
    [layer.movingMean, mean],
    [layer.movingVariance, variance],
  ] as const) {
    const old = moving.read();
    moving.write(old.sub(old.sub(value).mul(1 - layer.momentum)));
  }
}

/** One training pass: normalises by the batch's statistics and updates the moving averages. */
function normalizeBatch(tf: Tf, layer: BatchNormLayer, x: Tensor): Tensor {
  return tf.tidy(() => {
    const { y, mean, variance } = batchNormTraining(
      tf,
      { x, gamma: layer.gamma?.read() ?? null, beta: layer.beta?.read() ?? null },
      { epsilon: layer.epsilon, activation: fusedActivations.get(layer) ?? "none" },
    );
    moveStatistics(layer, mean, variance);
    if (fusedActivations.has(layer)) activated.add(y);
    return y;
  });
}

/**
 * Lets the batch normalisations of a model apply the relu or relu6 of the layer that follows, in training,
 * where that layer is their only reader. Gives the same bits in less time and memory. Happens by itself the
 * first time a model is applied in training.
 * @returns the number of pairs that were fused; 0 when the model was examined before
 */
export function fuseActivations(model: LayersModel): number {
  if (examined.has(model)) return 0;
  examined.add(model);
  let pairs = 0;
  for (const layer of model.layers) {
    if (layer.getClassName() !== "BatchNormalization" || !normalizesLastAxis(layer as BatchNormLayer))
      continue;
    const next = onlyReader(model, layer);
    const activation = next === undefined ? undefined : activationOf(next);
    if (next === undefined || activation === undefined) continue;
    fusedActivations.set(layer, activation);
    fusedAway.add(next);
    pairs++;
  }
  return pairs;
}
