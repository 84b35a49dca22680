/**
 * Folds batch normalisations, and the relu or relu6 after them, into the convolutions before them when a
 * model is evaluated. Where the model's graph allows it, the convolution then applies all three
 * (kernels/normalized-convolution.ts), and the two layers that follow return their input. Training is not
 * affected. Decided for each model once, from its graph alone, so that devices and servers evaluate alike.
 */
import type { LayersModel, Tensor } from "@tensorflow/tfjs";
import type { FusedActivation } from "../kernels/batch-norm.js";
import type { KernelRegistry } from "../kernels/kernel-registry.js";
import { normalizedConvolution } from "../kernels/normalized-convolution.js";
import {
  activationOf,
  normalizesLastAxis,
  onlyReader,
  type BatchNormLayer,
  type ConvolutionLayer,
} from "./layer-graph.js";
import { firstInput, prototypeOf, replaceCall, type Layer, type LayerCall } from "./replace-call.js";

interface Folded {
  readonly normalization: BatchNormLayer;
  readonly activation: FusedActivation;
}

/** The foldings in one model. */
interface FoldingPlan {
  /** The operations that each convolution applies besides itself. */
  readonly convolutions: ReadonlyMap<Layer, Folded>;
  /** Layers whose work the convolution before them does. */
  readonly followers: ReadonlySet<Layer>;
}

const plans = new WeakMap<LayersModel, FoldingPlan>();
/** Outputs of folded convolutions, as they pass through the layers that follow. */
const finished = new WeakSet<Tensor>();

/** Replaces the layers' `call` in evaluation until the registry closes. */
export function registerFoldedLayers(registry: KernelRegistry): void {
  const { tf } = registry;
  // The operation has no gradient. The count of nested gradients is not part of tfjs's types.
  const engine = tf.engine() as unknown as { readonly state: { readonly gradientDepth: number } };
  const isEvaluation = (kwargs: { training?: boolean } | undefined): boolean =>
    kwargs?.training !== true && engine.state.gradientDepth === 0;
  /** The plan of the model that is evaluated now; layers that are called by themselves do only their own work. */
  let plan: FoldingPlan | undefined;
  const convolution = (stock: LayerCall): LayerCall =>
    function (inputs, kwargs) {
      const folded = isEvaluation(kwargs) ? plan?.convolutions.get(this) : undefined;
      return folded === undefined
        ? stock.call(this, inputs, kwargs)
        : convolveFolded(registry, this as ConvolutionLayer, folded, firstInput(inputs));
    };
  const follower = (stock: LayerCall): LayerCall =>
    function (inputs, kwargs) {
      const x = firstInput(inputs);
      if (plan?.followers.has(this) !== true || !finished.has(x)) return stock.call(this, inputs, kwargs);
      // tfjs disposes a layer's inputs in evaluation, so the output is a tensor of its own with the same data.
      const same = tf.clone(x);
      finished.add(same);
      return same;
    };
  for (const name of ["Conv2D", "DepthwiseConv2D"]) replaceCall(registry, prototypeOf(tf, name), convolution);
  for (const name of ["BatchNormalization", "ReLU", "Activation"])
    replaceCall(registry, prototypeOf(tf, name), follower);
  replaceCall(
    registry,
    tf.LayersModel.prototype,
    (stock) =>
      function (inputs, kwargs) {
        const model = this as unknown as LayersModel;
        const outer = plan;
        plan = plans.get(model) ?? planFolding(model);
        plans.set(model, plan);
        try {
          return stock.call(this, inputs, kwargs);
        } finally {
          plan = outer;
        }
      },
  );
}

function convolveFolded(
  { tf }: KernelRegistry,
  layer: ConvolutionLayer,
  { normalization, activation }: Folded,
  x: Tensor,
): Tensor {
  const isDepthwise = layer.getClassName() === "DepthwiseConv2D";
  const y = normalizedConvolution(
    tf,
    {
      x,
      filter: (isDepthwise ? layer.depthwiseKernel : layer.kernel).read(),
      bias: layer.bias?.read() ?? null,
      gamma: normalization.gamma?.read() ?? null,
      beta: normalization.beta?.read() ?? null,
      mean: normalization.movingMean.read(),
      variance: normalization.movingVariance.read(),
    },
    {
      strides: layer.strides,
      pad: layer.padding,
      dataFormat: "NHWC",
      dilations: layer.dilationRate,
      isDepthwise,
      epsilon: normalization.epsilon,
      activation,
    },
  );
  finished.add(y);
  return y;
}

/** Plans what can be folded in a model. */
function planFolding(model: LayersModel): FoldingPlan {
  const convolutions = new Map<Layer, Folded>();
  const followers = new Set<Layer>();
  for (const layer of model.layers) {
    if (!isFoldable(layer)) continue;
    const normalization = onlyReader(model, layer);
    if (normalization?.getClassName() !== "BatchNormalization") continue;
    if (!normalizesLastAxis(normalization as BatchNormLayer)) continue;
    const next = onlyReader(model, normalization);
    const activation = next === undefined ? undefined : activationOf(next);
    convolutions.set(layer, {
      normalization: normalization as BatchNormLayer,
      activation: activation ?? "none",
    });
    followers.add(normalization);
    if (next !== undefined && activation !== undefined) followers.add(next);
  }
  return { convolutions, followers };
}

/** True if a layer is a convolution of images, channels last, without an activation of its own. */
function isFoldable(layer: Layer): boolean {
  const name = layer.getClassName();
  if (name !== "Conv2D" && name !== "DepthwiseConv2D") return false;
  const { dataFormat, activation, dilationRate } = layer as ConvolutionLayer;
  return (
    dataFormat !== "channelsFirst" &&
    (activation == null || activation.getClassName() === "linear") &&
    // tfjs ignores the dilation of a depthwise layer.
    (name === "Conv2D" || dilationRate.every((rate) => rate === 1))
  );
}
