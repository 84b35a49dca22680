/**
 * Reads the settings of canonical layers as TensorFlow.js's defaults have them; refuses what bounds are not
 * known for.
 */
import { StemmaError } from "../../shared/errors.js";
import type { LeafLayer } from "../../shared/model/model.js";
import type { WindowForm } from "./geometry.js";

type Config = LeafLayer["config"];

export function unsupported(what: string): StemmaError<"PROGRESSIVE_UNSUPPORTED"> {
  return new StemmaError(
    "PROGRESSIVE_UNSUPPORTED",
    `Progressive evaluation knows no bounds for ${what}. Evaluate this model with all its bytes (without --progressive).`,
  );
}

export const numberOf = (config: Config, key: string, otherwise: number): number =>
  typeof config[key] === "number" ? config[key] : otherwise;

/** One number an axis: lists as they are, a single one repeated. */
export function pairOf(
  config: Config,
  key: string,
  otherwise: readonly [number, number],
  axes: number,
): readonly [number, number] {
  const value = config[key];
  if (value === undefined || value === null) return otherwise;
  const list = (Array.isArray(value) ? value : [value]) as readonly number[];
  // One axis is stored as the rows of an image of one column.
  return axes === 1 ? [list[0]!, 1] : [list[0]!, list[1] ?? list[0]!];
}

function channelsLast(config: Config, className: string): void {
  if ((config["data_format"] ?? "channels_last") !== "channels_last")
    throw unsupported(`${className} with channels first`);
}

function paddingOf(config: Config, className: string): WindowForm["padding"] {
  const padding = config["padding"] ?? "valid";
  if (padding !== "valid" && padding !== "same")
    throw unsupported(`${className} with padding ${JSON.stringify(padding)}`);
  return padding;
}

export function convolutionForm({ className, config }: LeafLayer, axes: number): WindowForm {
  channelsLast(config, className);
  return {
    size: pairOf(config, "kernel_size", [1, 1], axes),
    strides: pairOf(config, "strides", [1, 1], axes),
    dilation: pairOf(config, "dilation_rate", [1, 1], axes),
    padding: paddingOf(config, className),
  };
}

export function poolingForm({ className, config }: LeafLayer, axes: number): WindowForm {
  channelsLast(config, className);
  const size = pairOf(config, "pool_size", axes === 1 ? [2, 1] : [2, 2], axes);
  return {
    size,
    strides: pairOf(config, "strides", size, axes),
    dilation: [1, 1],
    padding: paddingOf(config, className),
  };
}

/** [[top, bottom], [left, right]] of paddings and croppings. */
export function marginsOf(
  { className, config }: LeafLayer,
  key: string,
): readonly [readonly [number, number], readonly [number, number]] {
  channelsLast(config, className);
  const value = config[key] ?? (key === "padding" ? 1 : 0);
  const both = (each: unknown): readonly [number, number] =>
    Array.isArray(each) ? [each[0] as number, each[1] as number] : [each as number, each as number];
  return Array.isArray(value) ? [both(value[0]), both(value[1])] : [both(value), both(value)];
}

/** Axis of the shape without batch, from one counted with it. */
export function axisOf(config: Config, otherwise: number, rank: number): number {
  const axis = numberOf(config, "axis", otherwise);
  return axis < 0 ? rank + axis : axis - 1;
}
