/** Finds why a layer cannot take what it is given: other numbers of inputs, axes or extents. Pure. */
import { product, type Shape } from "../../../../shared/model/layer-shapes.js";
import type { LeafLayer } from "../../../../shared/model/model.js";

const elementwise = new Set(["Add", "Multiply", "Average", "Maximum", "Minimum"]);
/** Layers that join several inputs. */
export const joiningLayers: ReadonlySet<string> = new Set([...elementwise, "Concatenate", "Dot"]);

/** Axes of one sample that a class needs. */
const axes: Readonly<Record<string, number>> = {
  ...sameAxes(1, "RepeatVector"),
  ...sameAxes(2, "Conv1D MaxPooling1D AveragePooling1D GlobalMaxPooling1D GlobalAveragePooling1D"),
  ...sameAxes(2, "SimpleRNN GRU LSTM Bidirectional SpatialDropout1D"),
  ...sameAxes(3, "Conv2D Conv2DTranspose SeparableConv2D DepthwiseConv2D MaxPooling2D AveragePooling2D"),
  ...sameAxes(3, "GlobalMaxPooling2D GlobalAveragePooling2D ZeroPadding2D Cropping2D UpSampling2D"),
};

function sameAxes(count: number, classNames: string): Readonly<Record<string, number>> {
  return Object.fromEntries(classNames.split(" ").map((className) => [className, count]));
}

/** @returns the reason; undefined where the layer can take them, as far as shapes tell */
export function refusalOf(
  { className, config }: Pick<LeafLayer, "className" | "config">,
  inputs: readonly Shape[],
): string | undefined {
  const [input = []] = inputs;
  if (!joiningLayers.has(className) && inputs.length !== 1)
    return `${className} has one input, not ${inputs.length}`;
  const wanted = axes[className];
  if (wanted !== undefined && input.length !== wanted)
    return `${className} needs ${wanted} axes, and gets ${shapeText(input)}`;
  const perAxis = ["kernel_size", "pool_size", "strides", "dilation_rate", "size"].map((key) => config[key]);
  if (wanted !== undefined && perAxis.some((value) => Array.isArray(value) && value.length !== wanted - 1))
    return `${className} needs ${wanted - 1} numbers in each of its lists`;
  if (isMoreThanOne(config["strides"]) && isMoreThanOne(config["dilation_rate"]))
    return `${className} cannot have strides and a dilation`;
  if (joiningLayers.has(className)) return joinRefusal({ className, config }, inputs);
  // TensorFlow.js refuses to flatten what has one axis.
  const least =
    className === "Flatten" || className === "TimeDistributed" ? 2 : className === "Dense" ? 1 : 0;
  if (input.length < least) return `${className} needs at least ${least} axes, and gets ${shapeText(input)}`;
  if (className === "Flatten" && input.includes(null))
    return `Flatten needs known extents, and gets ${shapeText(input)}`;
  if (className === "Softmax" && ![-1, input.length].includes(Number(config["axis"] ?? 1)))
    return `Softmax is computed along the last axis alone, and gets ${shapeText(input)}`;
  if (className === "Permute") return permuteRefusal(config["dims"], input);
  if (className === "Reshape") return reshapeRefusal(config["target_shape"], input);
  const needed = [config["axis"] ?? config["shared_axes"] ?? -1].flat().map(Number);
  if (needed.some((axis) => axis === 0 || axis > input.length || axis < -input.length))
    return `${className} has no axis ${needed.join(", ")} in ${shapeText(input)}`;
  return undefined;
}

function isMoreThanOne(value: unknown): boolean {
  return [value ?? 1].flat().some((each) => Number(each) > 1);
}

function joinRefusal(
  { className, config }: Pick<LeafLayer, "className" | "config">,
  inputs: readonly Shape[],
): string | undefined {
  const [first = [], ...others] = inputs;
  if (others.length === 0) return `${className} joins several layers, and gets one`;
  const texts = inputs.map(shapeText).join(" and ");
  if (className === "Concatenate") {
    const axis = Number(config["axis"] ?? -1);
    const at = axis < 0 ? first.length + axis : axis - 1;
    const fits = others.every(
      (other) =>
        other.length === first.length && other.every((extent, i) => i === at || areEqual(extent, first[i])),
    );
    return fits && at >= 0 && at < first.length ? undefined : `${className} cannot join ${texts}`;
  }
  if (!elementwise.has(className)) return undefined;
  const long = inputs.reduce((longest, each) => (each.length > longest.length ? each : longest), []);
  const fits = long.every((_, fromEnd) => {
    const extents = inputs.map((each) => each.at(-1 - fromEnd) ?? 1).filter((extent) => extent !== 1);
    return extents.every((extent) => areEqual(extent, extents[0]));
  });
  return fits ? undefined : `${className} cannot join ${texts}`;
}

function areEqual(one: number | null | undefined, other: number | null | undefined): boolean {
  return one == null || other == null || one === other;
}

function permuteRefusal(dims: unknown, input: Shape): string | undefined {
  const listed = (Array.isArray(dims) ? dims : []).map(Number).sort((a, b) => a - b);
  const isComplete = listed.length === input.length && listed.every((dim, i) => dim === i + 1);
  return isComplete ? undefined : `Permute does not name each axis of ${shapeText(input)} once`;
}

function reshapeRefusal(target: unknown, input: Shape): string | undefined {
  const extents = (Array.isArray(target) ? target : []) as readonly (number | null)[];
  const free = extents.filter((extent) => extent === -1 || extent === null).length;
  const [all, others] = [
    product(input),
    product(extents.filter((extent) => extent !== -1 && extent !== null)),
  ];
  const fits =
    all === null ||
    others === null ||
    (free === 0 ? all === others : free === 1 && others > 0 && all % others === 0);
  return fits ? undefined : `Reshape cannot make ${shapeText(extents)} of ${shapeText(input)}`;
}

export function shapeText(shape: Shape): string {
  return `[${shape.map((extent) => extent ?? "?").join(", ")}]`;
}
