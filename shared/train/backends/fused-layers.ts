/**
 * tfjs-layers' layers on the fused operations: batch normalisation in training, relu with a maximum
 * as one clip, and both as one operation where a model's graph allows it. Same names, same weights,
 * same configuration; a model file does not know the difference. Knows layers, no training loop.
 */
import type { LayersModel, Tensor, Tensor4D } from "@tensorflow/tfjs";
import { batchNormTraining, type FusedActivation } from "../kernels/batch-norm.js";
import type { KernelRegistry, Tf } from "../kernels/kernel-registry.js";
import { only, prototypeOf, replaceCall, type Layer, type Prototype, type Variable } from "./replace-call.js";

interface BatchNormLayer extends Layer {
  readonly axis: number;
  readonly momentum: number;
  readonly epsilon: number;
  readonly center: boolean;
  readonly scale: boolean;
  readonly gamma: Variable | null;
  readonly beta: Variable | null;
  readonly movingMean: Variable;
  readonly movingVariance: Variable;
}
interface ConvolutionLayer extends Layer {
  readonly dilationRate: [number, number];
  readonly strides: [number, number];
  readonly padding: "same" | "valid";
  readonly dataFormat: string;
  readonly kernel: Variable;
  readonly bias: Variable | null;
  readonly activation: { apply(x: Tensor): Tensor } | null;
}
interface LayerNode {
  readonly outboundLayer: Layer;
  readonly inboundLayers: Layer[];
  readonly outputTensors: readonly object[];
}

/**
 * Activation that a batch normalisation layer applies in training, because the layer behind it is told not
 * to.
 */
const fusedInto = new WeakMap<Layer, FusedActivation>();
/** Activation layers that are the only readers of a batch normalisation that applies them, in training. */
const doneBefore = new WeakSet<Layer>();
/** Tensors that such a normalisation gave: the activation layer lets these pass, and no others. */
const activated = new WeakSet<Tensor>();
/** Models whose graph has been looked at. */
const planned = new WeakSet<LayersModel>();

/** Puts the fused `call`s in place until the room closes. */
export function registerFusedLayers(room: KernelRegistry): void {
  const { tf } = room;
  replaceCall(
    room,
    prototypeOf(tf, "BatchNormalization"),
    (stock) =>
      function (inputs, kwargs) {
        const layer = this as BatchNormLayer;
        const x = only(inputs);
        if (kwargs?.training && normalizesLastAxis(layer)) return normalizeBatch(tf, layer, x);
        // tfjs reads gamma and beta in training and for gradients, there or not; and broadcasts no other axis
        const plain = normalizesLastAxis(layer) && layer.scale && layer.center;
        return plain
          ? stock.call(this, inputs, kwargs)
          : normalizeByOperations(tf, layer, x, kwargs?.training ?? false);
      },
  );
  replaceCall(
    room,
    prototypeOf(tf, "ReLU"),
    (stock) =>
      function (inputs, kwargs) {
        if (doneBefore.has(this) && activated.has(only(inputs))) return only(inputs);
        const { maxValue } = this as Layer & { maxValue?: number };
        // bit for bit what relu and a clip give, forward and back
        if (maxValue === 6) return tf.relu6(only(inputs));
        return stock.call(this, inputs, kwargs);
      },
  );
  replaceCall(
    room,
    prototypeOf(tf, "Activation"),
    (stock) =>
      function (inputs, kwargs) {
        return doneBefore.has(this) && activated.has(only(inputs))
          ? only(inputs)
          : stock.call(this, inputs, kwargs);
      },
  );
  replaceCall(
    room,
    prototypeOf(tf, "Conv2D"),
    (stock) =>
      function (inputs, kwargs) {
        const layer = this as ConvolutionLayer;
        const dilated = this.getClassName() === "Conv2D" && layer.dilationRate.some((rate) => rate > 1);
        return dilated && layer.dataFormat !== "channelsFirst"
          ? convolveDilated(tf, layer, only(inputs))
          : stock.call(this, inputs, kwargs);
      },
  );
  replaceCall(
    room,
    tf.LayersModel.prototype,
    (stock) =>
      function (inputs, kwargs) {
        if (kwargs?.training) fuseActivations(this as unknown as LayersModel);
        return stock.call(this, inputs, kwargs);
      },
  );
}

/** Without tfjs's fused convolution, whose gradient refuses dilation. */
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

/** Any axis, gamma or beta missing: by plain operations, whose gradients are right. */
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

/** As tfjs-layers does it. */
function moveStatistics(layer: BatchNormLayer, mean: Tensor, variance: Tensor): void {
  for (const [moving, value] of [
    [layer.movingMean, mean],
    [layer.movingVariance, variance],
  ] as const) {
    const old = moving.read();
    moving.write(old.sub(old.sub(value).mul(1 - layer.momentum)));
  }
}

/** Built layers know their input's rank; only the last axis is fused. */
function normalizesLastAxis(layer: BatchNormLayer): boolean {
  const rank = layer.inputSpec?.[0]?.ndim;
  return layer.axis === -1 || (rank != null && layer.axis === rank - 1);
}

/** One training pass: normalise by the batch, move the moving statistics as tfjs-layers does. */
function normalizeBatch(tf: Tf, layer: BatchNormLayer, x: Tensor): Tensor {
  return tf.tidy(() => {
    const { y, mean, variance } = batchNormTraining(
      tf,
      x,
      layer.gamma?.read() ?? null,
      layer.beta?.read() ?? null,
      { epsilon: layer.epsilon, activation: fusedInto.get(layer) ?? "none" },
    );
    moveStatistics(layer, mean, variance);
    if (fusedInto.has(layer)) activated.add(y);
    return y;
  });
}

/**
 * Lets batch normalisations of this model apply the relu or relu6 layer that alone reads them, in
 * training. Gives the same bits as without, in less time and memory. A model does this for itself the
 * first time it is applied in training; returns how many pairs there are.
 */
export function fuseActivations(model: LayersModel): number {
  if (planned.has(model)) return 0;
  planned.add(model);
  const outputs = new Set<object>(model.outputs);
  const inside = new Set<Layer>(model.layers);
  let pairs = 0;
  for (const layer of model.layers) {
    if (layer.getClassName() !== "BatchNormalization") continue;
    const [node, ...others] = layer.outboundNodes as unknown as LayerNode[];
    const [own, ...calls] = layer.inboundNodes as unknown as LayerNode[];
    if (
      !node ||
      !own ||
      others.length > 0 ||
      calls.length > 0 ||
      own.outputTensors.some((tensor) => outputs.has(tensor))
    )
      continue;
    const next = node.outboundLayer;
    const activation = normalizesLastAxis(layer as BatchNormLayer) ? activationOf(next) : undefined;
    if (activation === undefined || !inside.has(next) || next.inboundNodes.length !== 1) continue;
    fusedInto.set(layer, activation);
    doneBefore.add(next);
    pairs++;
  }
  return pairs;
}

function activationOf(layer: Layer): FusedActivation | undefined {
  const config = layer.getConfig() as { maxValue?: number | null; activation?: string };
  switch (layer.getClassName()) {
    case "ReLU":
      return config.maxValue == null ? "relu" : config.maxValue === 6 ? "relu6" : undefined;
    case "Activation":
      return config.activation === "relu" || config.activation === "relu6" ? config.activation : undefined;
    default:
      return undefined;
  }
}
