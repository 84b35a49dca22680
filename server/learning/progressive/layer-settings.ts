/**
 * Reads the settings of canonical layers with TensorFlow.js's defaults, and refuses settings that have no
 * bounds.
 */
import type { LeafLayer } from "../../../shared/model/model.js";
import { unsupported } from "./progressive-errors.js";
import type { WindowForm } from "./windows.js";

type Config = LeafLayer["config"];

export function numberOf(config: Config, key: string, fallback: number): number {
  return typeof config[key] === "number" ? config[key] : fallback;
}

/** A number for each axis; a single number counts for both. */
export function pairOf(
  config: Config,
  key: string,
  fallback: readonly [number, number],
  axes: number,
): readonly [number, number] {
  const value = config[key];
  if (value === undefined || value === null) return fallback;
  const list = (Array.isArray(value) ? value : [value]) as readonly number[];
  // A sequence is an image one column wide.
  return axes === 1 ? [list[0]!, 1] : [list[0]!, list[1] ?? list[0]!];
}

export function requireChannelsLast({ className, config }: LeafLayer): void {
  if ((config["data_format"] ?? "channels_last") !== "channels_last")
    throw unsupported(`${className} with channels first`);
}

function paddingOf(config: Config, className: string): WindowForm["padding"] {
  const padding = config["padding"] ?? "valid";
  if (padding !== "valid" && padding !== "same")
    throw unsupported(`${className} with padding ${JSON.stringify(padding)}`);
  return padding;
}

export function convolutionForm(leaf: LeafLayer, axes: number): WindowForm {
  requireChannelsLast(leaf);
  const { className, config } = leaf;
  return {
    size: pairOf(config, "kernel_size", [1, 1], axes),
    strides: pairOf(config, "strides", [1, 1], axes),
    dilation: pairOf(config, "dilation_rate", [1, 1], axes),
    padding: paddingOf(config, className),
  };
}

export function poolingForm(leaf: LeafLayer, axes: number): WindowForm {
  requireChannelsLast(leaf);
  const { className, config } = leaf;
  const size = pairOf(config, "pool_size", axes === 1 ? [2, 1] : [2, 2], axes);
  return {
    size,
    strides: pairOf(config, "strides", size, axes),
    dilation: [1, 1],
    padding: paddingOf(config, className),
  };
}

/** [[top, bottom], [left, right]] of a padding or cropping. */
export function marginsOf(
  leaf: LeafLayer,
  key: "padding" | "cropping",
): readonly [readonly [number, number], readonly [number, number]] {
  requireChannelsLast(leaf);
  const value = leaf.config[key] ?? (key === "padding" ? 1 : 0);
  const both = (each: unknown): readonly [number, number] =>
    Array.isArray(each) ? [each[0] as number, each[1] as number] : [each as number, each as number];
  return Array.isArray(value) ? [both(value[0]), both(value[1])] : [both(value), both(value)];
}

/** The axis setting, which counts the batch dimension, as an axis of the shape without it. */
export function axisOf(config: Config, fallback: number, rank: number): number {
  const axis = numberOf(config, "axis", fallback);
  return axis < 0 ? rank + axis : axis - 1;
}
