/**
 * The shapes that layers give for one sample, by Keras's rules for the layers of the catalog. A shape that depends on
 * the data, or on channels that come first, is not known. Pure.
 */
import type { Architecture, LeafLayer } from "./model.js";

/** The extents of one sample; null: it depends on the data. */
export type Shape = readonly (number | null)[];

/** The shape of each layer's first output; undefined: not known. */
export function layerShapes({ layers }: Architecture): readonly (Shape | undefined)[] {
  const shapes: (Shape | undefined)[] = [];
  for (const { className, config, inputs } of layers)
    shapes.push(
      outputShape(
        { className, config },
        inputs.map(({ layer, output }) => (output === 0 ? shapes[layer] : undefined)),
      ),
    );
  return shapes;
}

type Config = LeafLayer["config"];

/** @param inputs the shapes of what the layer gets; undefined: not known */
export function outputShape(
  { className, config }: Pick<LeafLayer, "className" | "config">,
  inputs: readonly (Shape | undefined)[],
): Shape | undefined {
  if (className === "InputLayer") return listOf(config["batch_input_shape"])?.slice(1);
  if (inputs.length === 0 || inputs.some((input) => input === undefined)) return undefined;
  if (["channels_first", "channelsFirst"].includes(config["data_format"] as string)) return undefined;
  const [input = []] = inputs as readonly Shape[];
  if (className === "Concatenate")
    return concatenated(inputs as readonly Shape[], numberOf(config["axis"]) ?? -1);
  if (mergeLayers.has(className)) return (inputs as readonly Shape[]).reduce(broadcast);
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
};

function forAll(classNames: string, rule: Rule): Readonly<Record<string, Rule>> {
  return Object.fromEntries(classNames.split(" ").map((className) => [className, rule]));
}

const mergeLayers = new Set(["Add", "Multiply", "Average", "Maximum", "Minimum"]);

/** The shape of two tensors that are joined number by number; the shorter one lacks axes in front. */
function broadcast(one: Shape, other: Shape): Shape {
  const [long, short] = one.length >= other.length ? [one, other] : [other, one];
  const ahead = long.length - short.length;
  return long.map((extent, axis) => {
    const second = axis < ahead ? 1 : (short[axis - ahead] ?? null);
    return extent === 1 ? second : second === 1 ? extent : (extent ?? second);
  });
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
export function innerOf(config: Config): { readonly className: string; readonly config: Config } | undefined {
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

export function product(shape: Shape): number | null {
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
