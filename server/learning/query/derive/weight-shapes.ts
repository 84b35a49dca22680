/** The shapes of a layer's weights behind an input of a known shape. Pure. */
import { weightForms, type LayerConfig, type WeightForm } from "../../../../shared/model/layer-catalog.js";
import { innerOf, type Shape } from "../../../../shared/model/layer-shapes.js";
import type { LeafLayer } from "../../../../shared/model/model.js";

export type WeightShape = LeafLayer["weights"][number];

/** @returns undefined where an extent is not known that decides one of them */
export function weightShapes(
  { className, config }: Pick<LeafLayer, "className" | "config">,
  input: Shape,
): readonly WeightShape[] | undefined {
  const inner = innerOf(config);
  if (className === "TimeDistributed" && inner !== undefined) return weightShapes(inner, input.slice(1));
  const own = inner ?? { className, config };
  const shapes: WeightShape[] = [];
  for (const form of weightForms(className, config as LayerConfig)) {
    const shape = shapeOf(own, form, input);
    if (shape === undefined || shape.includes(null)) return undefined;
    shapes.push({
      name: form.name,
      dtype: "F32",
      shape: shape as readonly number[],
      trainable: form.trainable,
    });
  }
  return shapes;
}

type Layer = Pick<LeafLayer, "className" | "config">;

function shapeOf({ className, config }: Layer, form: WeightForm, input: Shape): Shape | undefined {
  const channels = input.at(-1) ?? null;
  const multiplier = Number(config["depth_multiplier"] ?? 1);
  const multiplied = channels === null ? null : channels * multiplier;
  if (className === "PReLU") {
    const shared = axesOf(config["shared_axes"] ?? [], input);
    return input.map((extent, axis) => (shared.includes(axis) ? 1 : extent));
  }
  if (className === "LayerNormalization" || className === "BatchNormalization")
    return axesOf(config["axis"] ?? -1, input).map((axis) => input[axis] ?? null);
  const isMultiplied =
    (className === "SeparableConv2D" && form.name === "pointwise_kernel") ||
    (className === "DepthwiseConv2D" && form.name === "bias");
  return form.shape?.map((extent) => extent ?? (isMultiplied ? multiplied : channels));
}

/** Axes of a sample; those of a configuration count the samples as axis 0. */
function axesOf(value: unknown, input: Shape): readonly number[] {
  const axes = (Array.isArray(value) ? value : [value]).map(Number);
  return axes.map((axis) => (axis < 0 ? input.length + axis : axis - 1));
}
