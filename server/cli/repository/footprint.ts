/**
 * The execution footprint of a network (MH14): for each layer the shape that it gives for one sample, what that takes
 * to compute and to keep. Pure.
 */
import { innerOf, layerShapes, product, type Shape } from "../../../shared/model/layer-shapes.js";
import type { Architecture, LeafLayer } from "../../../shared/model/model.js";

export interface LayerFootprint {
  readonly className: string;
  /** The shape of what it gives for one sample; undefined: not known. */
  readonly shape: Shape | undefined;
  readonly parameters: number;
  /** Multiplications of one sample with the layer's kernels; null: not known. */
  readonly operations: number | null;
  /** Numbers that the layer gives for one sample; null: not known. */
  readonly activations: number | null;
}

export const bytesOfANumber = 4;

export function footprintOf(architecture: Architecture): readonly LayerFootprint[] {
  const { layers } = architecture;
  const shapes = layerShapes(architecture);
  return layers.map((layer, at) => {
    const own = layer.sharedWith === undefined ? layer : (layers[layer.sharedWith] as LeafLayer);
    const shape = shapes[at];
    const [input] = layer.inputs;
    return {
      className: own.className,
      shape,
      parameters: own === layer ? sum(own.weights.map((weight) => product(weight.shape) ?? 0)) : 0,
      operations: operationsOf(own, input && shapes[input.layer], shape),
      activations: shape === undefined ? null : product(shape),
    };
  });
}

/** Kernels are applied at each position of the output; at each of the input where they spread it, or at each step. */
function operationsOf(
  { className, weights, config }: LeafLayer,
  input: Shape | undefined,
  output: Shape | undefined,
): number | null {
  const kernels = weights.filter(({ name, shape }) => /kernel$/.test(name) && shape.length > 1);
  if (kernels.length === 0) return 0;
  const inner = className === "TimeDistributed" ? innerOf(config)?.className : className;
  const isRecurrent = ["SimpleRNN", "GRU", "LSTM", "Bidirectional"].includes(inner ?? "");
  const positions = isRecurrent
    ? (input?.[0] ?? null)
    : product((className === "Conv2DTranspose" ? input : output)?.slice(0, -1) ?? [null]);
  return positions === null ? null : positions * sum(kernels.map(({ shape }) => product(shape) ?? 0));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, each) => all + each, 0);
}
