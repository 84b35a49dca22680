/**
 * Compiles a canonical architecture and what is known of its weights into a network over bounds. Settings
 * have the meaning that TensorFlow.js's layers give them. A layer without bounds is refused by name. Does not
 * use the store.
 */
import { weightSlots } from "../../../shared/model/architecture.js";
import type { Architecture, LeafLayer } from "../../../shared/model/model.js";
import { SoftmaxLayer } from "./activation-layers.js";
import type { IntervalNetwork, Step } from "./interval-network.js";
import type { CompileLayer, Shape } from "./layer-compiler.js";
import { compilerOf } from "./layer-compilers.js";
import { otherWeightCount, unsupported } from "./progressive-errors.js";
import { weightBounds, type WeightBounds } from "./weight-bounds.js";

/** The bytes of a tensor, and how many of the highest bytes of each element are known. */
export interface KnownWeights {
  readonly bytes: Uint8Array;
  readonly planes: number;
}

/**
 * @param known for each weight of the architecture, in canonical order, its known bytes or its bounds
 * @throws PROGRESSIVE_UNSUPPORTED naming the layer or setting, ARCHITECTURE_MISMATCH, TENSOR_SIZE_MISMATCH
 */
export function compileNetwork(
  architecture: Architecture,
  known: readonly (KnownWeights | WeightBounds)[],
): IntervalNetwork {
  const weights = weightsByLayer(architecture, known);
  const steps: Step[] = [];
  /** Output shape of each step. */
  const shapes: Shape[] = [];
  /** The last step of each layer of the architecture. */
  const lastSteps: number[] = [];
  const addStep = (step: Step, shape: Shape): number => {
    shapes.push(shape);
    return steps.push(step) - 1;
  };
  architecture.layers.forEach((leaf, index) => {
    if (leaf.className === "InputLayer") {
      lastSteps[index] = addStep({ layer: undefined, inputs: [] }, inputShapeOf(leaf));
      return;
    }
    const compile = requireCompiler(leaf, index);
    let sources: readonly number[] = leaf.inputs.map(({ layer }) => lastSteps[layer]!);
    const inputs = sources.map((step) => shapes[step]!);
    const owner = leaf.sharedWith ?? index;
    const ownWeights = weights.get(owner) ?? [];
    for (const layer of compile({ leaf, inputs, shape: inputs[0]!, weights: ownWeights }))
      sources = [addStep({ layer, inputs: sources }, layer.shape)];
    lastSteps[index] = sources[0]!;
  });
  const end = endOf(architecture, steps, lastSteps);
  const outputShape = shapes[end.output]!;
  if (outputShape.length !== 1) throw unsupported(`outputs of shape [${outputShape.join(", ")}]`);
  return { ...end, inputShape: shapes[steps.findIndex(({ layer }) => layer === undefined)]!, steps };
}

/** Bounds of each layer's own weights, by the layer's index. */
function weightsByLayer(
  architecture: Architecture,
  known: readonly (KnownWeights | WeightBounds)[],
): ReadonlyMap<number, readonly WeightBounds[]> {
  const slots = weightSlots(architecture);
  if (slots.length !== known.length) throw otherWeightCount(slots.length, known.length);
  const otherType = slots.find(({ dtype }) => dtype !== "F32");
  if (otherType !== undefined) throw unsupported(`weights of type ${otherType.dtype} (${otherType.path})`);
  const byLayer = new Map<number, WeightBounds[]>();
  slots.forEach(({ layer, shape }, index) => {
    const each = known[index]!;
    const bounds = "mid" in each ? each : weightBounds(shape, each.bytes, each.planes);
    byLayer.set(layer, [...(byLayer.get(layer) ?? []), bounds]);
  });
  return byLayer;
}

function requireCompiler({ className, inputs }: LeafLayer, index: number): CompileLayer {
  const compile = compilerOf(className);
  if (compile === undefined) throw unsupported(`layer ${index} (${className})`);
  if (inputs.some(({ output }) => output > 0))
    throw unsupported(`layer ${index}, which reads a second output of another layer`);
  return compile;
}

function inputShapeOf({ config }: LeafLayer): Shape {
  const shape = (config["batch_input_shape"] as readonly (number | null)[]).slice(1);
  if (!shape.every((extent) => extent !== null))
    throw unsupported(`inputs of any size ([${shape.map((extent) => extent ?? "any").join(", ")}])`);
  return shape;
}

/** Returns the step that gives the model's output, and the step that its classes are ranked by. */
function endOf(
  { layers, outputs }: Architecture,
  steps: readonly Step[],
  lastSteps: readonly number[],
): Pick<IntervalNetwork, "output" | "ranking" | "endsInSoftmax"> {
  if (outputs.length !== 1 || outputs[0]!.output !== 0) throw unsupported("a model of several outputs");
  if (layers.filter(({ className }) => className === "InputLayer").length !== 1)
    throw unsupported("a model of several inputs");
  const output = lastSteps[outputs[0]!.layer]!;
  const { layer, inputs } = steps[output]!;
  return layer instanceof SoftmaxLayer
    ? { output, ranking: inputs[0]!, endsInSoftmax: true }
    : { output, ranking: output, endsInSoftmax: false };
}
