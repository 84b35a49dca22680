/** Finds layers in the graph of a tfjs-layers model that one operation can compute together. */
import type { LayersModel, Tensor } from "@tensorflow/tfjs";
import type { FusedActivation } from "../kernels/batch-norm.js";
import type { Layer, Variable } from "./replace-call.js";

export interface BatchNormLayer extends Layer {
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
export interface ConvolutionLayer extends Layer {
  readonly dilationRate: [number, number];
  readonly strides: [number, number];
  readonly padding: "same" | "valid";
  readonly dataFormat: string;
  readonly kernel: Variable;
  /** The kernel of DepthwiseConv2D alone, in place of `kernel`. */
  readonly depthwiseKernel: Variable;
  readonly bias: Variable | null;
  readonly activation: { apply(x: Tensor): Tensor; getClassName(): string } | null;
}
interface LayerNode {
  readonly outboundLayer: Layer;
  readonly inboundLayers: Layer[];
  readonly outputTensors: readonly object[];
}

/** True if the layer normalises along the last axis, which the fused operation needs. A built layer knows its rank. */
export function normalizesLastAxis(layer: BatchNormLayer): boolean {
  const rank = layer.inputSpec?.[0]?.ndim;
  return layer.axis === -1 || (rank != null && layer.axis === rank - 1);
}

/**
 * The layer that alone reads a layer's output, where both belong to the model, each is called once, and the output is
 * not one of the model's; else undefined.
 */
export function onlyReader(model: LayersModel, layer: Layer): Layer | undefined {
  const [node, ...others] = layer.outboundNodes as unknown as LayerNode[];
  const [own, ...calls] = layer.inboundNodes as unknown as LayerNode[];
  const outputs: readonly object[] = model.outputs;
  if (!node || !own || others.length > 0 || calls.length > 0) return undefined;
  if (own.outputTensors.some((tensor) => outputs.includes(tensor))) return undefined;
  const next = node.outboundLayer;
  return next.inboundNodes.length === 1 && model.layers.includes(next) ? next : undefined;
}

/** The activation of a layer that the fused operation can apply. */
export function activationOf(layer: Layer): FusedActivation | undefined {
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
