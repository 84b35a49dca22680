/**
 * The execution footprint of a network (MH14): for each layer the shape that it gives for one sample, what that takes
 * to compute and to keep. Shapes follow Keras's rules for the layers of the catalog; what depends on the data, or on
 * channels that come first, is not known. Pure.
 */
import type { Architecture, LeafLayer } from "../../../shared/model/model.js";

/** The extents of one sample; null: it depends on the data. */
type Shape = readonly (number | null)[];

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

export function footprintOf({ layers }: Architecture): readonly LayerFootprint[] {
  const shapes: (Shape | undefined)[] = [];
  return layers.map((layer) => {
    const own = layer.sharedWith === undefined ? layer : (layers[layer.sharedWith] as LeafLayer);
    const inputs = layer.inputs.map((input) => shapes[input.layer]);
    const shape = shapeOf(own, inputs);
    shapes.push(shape);
    return {
      className: own.className,
      shape,
      parameters: own === layer ? sum(own.weights.map((weight) => product(weight.shape) ?? 0)) : 0,
      operations: operationsOf(own, inputs[0], shape),
      activations: shape === undefined ? null : product(shape),
    };
  });
}

type Config = LeafLayer["config"];

function shapeOf(
  { className, config }: LeafLayer,
  inputs: readonly (Shape | undefined)[],
): Shape | undefined {
  if (className === "InputLayer") return listOf(config["batch_input_shape"])?.slice(1);
  if (inputs.length === 0 || inputs.some((input) => input === undefined)) return undefined;
  if (["channels_first", "channelsFirst"].includes(config["data_format"] as string)) return undefined;
  const [input = []] = inputs as readonly Shape[];
  if (className === "Concatenate")
    return concatenated(inputs as readonly Shape[], numberOf(config["axis"]) ?? -1);
  if (className === "TimeDistributed") return distributed(config, input);
  if (className === "Bidirectional") return bidirectional(config, input);
  const rule = rules[className];
  return rule === undefined ? undefined : rule(config, input);
}

type Rule = (config: Config, input: Shape) => Shape | undefined;

const same: Rule = (_, input) => input;
const channelsOf = (input: Shape): number | null => input.at(-1) ?? null;

/** A window that moves over the axes before the channels. */
const windowed =
  (axes: number, size: string, channels: (config: Config, input: Shape) => number | null): Rule =>
  (config, input) => {
    const sizes = perAxis(config[size] ?? config["pool_size"], axes);
    const strides = perAxis(config["strides"] ?? (size === "pool_size" ? config[size] : 1), axes) ?? sizes;
    const dilations = perAxis(config["dilation_rate"] ?? 1, axes);
    if (sizes === undefined || strides === undefined || dilations === undefined || input.length !== axes + 1)
      return undefined;
    const isPadded = ["same", "causal"].includes(config["padding"] as string);
    const moved = input.slice(0, axes).map((extent, axis) => {
      if (extent === null) return null;
      const reach = ((sizes[axis] ?? 1) - 1) * (dilations[axis] ?? 1) + 1;
      const free = isPadded ? extent : extent - reach + 1;
      return Math.max(0, Math.ceil(free / (strides[axis] ?? 1)));
    });
    return [...moved, channels(config, input)];
  };

const filters = (config: Config): number | null => numberOf(config["filters"]) ?? null;
const depthwise = (config: Config, input: Shape): number | null => {
  const channels = channelsOf(input);
  return channels === null ? null : channels * (numberOf(config["depth_multiplier"]) ?? 1);
};
const keptChannels = (_: Config, input: Shape): number | null => channelsOf(input);
const global: Rule = (config, input) =>
  config["keepdims"] === true ? [...input.slice(0, -1).map(() => 1), channelsOf(input)] : [channelsOf(input)];
const recurrent: Rule = (config, input) => {
  const units = numberOf(config["units"]) ?? null;
  return config["return_sequences"] === true ? [input[0] ?? null, units] : [units];
};

const transposed: Rule = (config, input) => {
  const [sizes, strides] = [perAxis(config["kernel_size"], 2), perAxis(config["strides"] ?? 1, 2)];
  if (sizes === undefined || strides === undefined || input.length !== 3) return undefined;
  const isPadded = config["padding"] === "same";
  const moved = input.slice(0, 2).map((extent, axis) => {
    const [stride, size] = [strides[axis] ?? 1, sizes[axis] ?? 1];
    return extent === null ? null : extent * stride + (isPadded ? 0 : Math.max(size - stride, 0));
  });
  return [...moved, filters(config)];
};

/** Adds to the two axes of a picture what `member` states of each of its sides, or takes it away. */
const sides =
  (member: string, sign: 1 | -1): Rule =>
  (config, input) => {
    const given = config[member];
    const pairs = Array.isArray(given) ? given : [given, given];
    const moved = input.slice(0, 2).map((extent, axis) => {
      const pair = pairs[axis] as unknown;
      const both = Array.isArray(pair) ? pair.map(Number) : [Number(pair), Number(pair)];
      return extent === null ? null : extent + sign * sum(both);
    });
    return [...moved, channelsOf(input)];
  };

const reshaped: Rule = (config, input) => {
  const target = listOf(config["target_shape"]);
  const all = product(input);
  if (target?.includes(-1) !== true) return target;
  const others = product(target.map((extent) => (extent === -1 ? 1 : extent)));
  return target.map((extent) => (extent !== -1 ? extent : all === null || !others ? null : all / others));
};

const rules: Readonly<Record<string, Rule>> = {
  Dense: (config, input) => [...input.slice(0, -1), numberOf(config["units"]) ?? null],
  Conv1D: windowed(1, "kernel_size", filters),
  Conv2D: windowed(2, "kernel_size", filters),
  SeparableConv2D: windowed(2, "kernel_size", filters),
  DepthwiseConv2D: windowed(2, "kernel_size", depthwise),
  Conv2DTranspose: transposed,
  MaxPooling1D: windowed(1, "pool_size", keptChannels),
  AveragePooling1D: windowed(1, "pool_size", keptChannels),
  MaxPooling2D: windowed(2, "pool_size", keptChannels),
  AveragePooling2D: windowed(2, "pool_size", keptChannels),
  ...forAll("GlobalMaxPooling1D GlobalMaxPooling2D GlobalAveragePooling1D GlobalAveragePooling2D", global),
  ...forAll("SimpleRNN GRU LSTM", recurrent),
  Embedding: (config, input) => [...input, numberOf(config["output_dim"]) ?? null],
  Flatten: (_, input) => [product(input)],
  Reshape: reshaped,
  Permute: (config, input) => listOf(config["dims"])?.map((axis) => input[(axis ?? 1) - 1] ?? null),
  RepeatVector: (config, input) => [numberOf(config["n"]) ?? null, ...input],
  ZeroPadding2D: sides("padding", 1),
  Cropping2D: sides("cropping", -1),
  UpSampling2D: (config, [height = null, width = null, channels = null]) => {
    const [rows = 2, columns = 2] = perAxis(config["size"] ?? 2, 2) ?? [];
    return [height && height * rows, width && width * columns, channels];
  },
  ...forAll(
    "BatchNormalization LayerNormalization PReLU Activation ReLU LeakyReLU ELU ThresholdedReLU",
    same,
  ),
  ...forAll(
    "Softmax Dropout SpatialDropout1D GaussianDropout GaussianNoise AlphaDropout Masking Rescaling",
    same,
  ),
  ...forAll("Add Multiply Average Maximum Minimum", same),
};

function forAll(classNames: string, rule: Rule): Readonly<Record<string, Rule>> {
  return Object.fromEntries(classNames.split(" ").map((className) => [className, rule]));
}

function concatenated(inputs: readonly Shape[], axis: number): Shape | undefined {
  const [first] = inputs;
  if (first === undefined) return undefined;
  // Axis 0 is that of samples, which shapes here have not.
  const at = axis < 0 ? first.length + axis : axis - 1;
  const extents = inputs.map((input) => input[at] ?? null);
  const all = extents.includes(null) ? null : sum(extents as number[]);
  return first.map((extent, each) => (each === at ? all : extent));
}

/** The layer inside a wrapper. */
function innerOf(config: Config): { readonly className: string; readonly config: Config } | undefined {
  const inner = config["layer"] as { readonly class_name?: string; readonly config?: Config } | undefined;
  return inner?.class_name === undefined || inner.config === undefined
    ? undefined
    : { className: inner.class_name, config: inner.config };
}

function distributed(config: Config, [steps = null, ...rest]: Shape): Shape | undefined {
  const inner = innerOf(config);
  const shape = inner && rules[inner.className]?.(inner.config, rest);
  return shape && [steps, ...shape];
}

function bidirectional(config: Config, input: Shape): Shape | undefined {
  const inner = innerOf(config);
  const shape = inner && recurrent(inner.config, input);
  const mode = config["merge_mode"] ?? "concat";
  if (shape === undefined || mode === null) return undefined;
  const units = shape.at(-1);
  return mode === "concat" ? [...shape.slice(0, -1), units == null ? null : 2 * units] : shape;
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

function product(shape: Shape): number | null {
  return shape.includes(null) ? null : (shape as readonly number[]).reduce((all, extent) => all * extent, 1);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, each) => all + each, 0);
}

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" || typeof value === "bigint" ? Number(value) : undefined;
}

function listOf(value: unknown): Shape | undefined {
  return Array.isArray(value) ? value.map((each) => numberOf(each) ?? null) : undefined;
}

/** A single number, or a list of one, is for every axis. */
function perAxis(value: unknown, axes: number): readonly number[] | undefined {
  const list = (Array.isArray(value) ? value : [value]).map(numberOf);
  const all = list.length === 1 ? new Array<number | undefined>(axes).fill(list[0]) : list;
  return all.length === axes && !all.includes(undefined) ? (all as number[]) : undefined;
}
