/**
 * An architecture of a model.json alone: where that has no list of weights, as `to_json` of Keras writes it, their
 * shapes follow from those of the layers. Pure.
 */
import { layerShapes, type Shape } from "../model/layer-shapes.js";
import { weightForms, type WeightForm } from "../model/layer-catalog.js";
import { decodeText } from "../model/canonical-json.js";
import { graphOfTopology, modelJsonMalformed, type GraphCall } from "../model/model-graph.js";
import { maxModelJsonBytes, readModelJson, type DescribedModel } from "../model/model-json.js";
import { isJsonObject, parseStrictJson } from "../tensor/strict-json.js";
import type { TensorHeader } from "../tensor/tensor.js";

/** @throws MODEL_JSON_MALFORMED, LAYER_NOT_ALLOWED, ARCHITECTURE_MISMATCH */
export function readTopology(bytes: Uint8Array): DescribedModel {
  if (bytes.length > maxModelJsonBytes)
    throw modelJsonMalformed(`it has ${bytes.length} bytes, more than ${maxModelJsonBytes}`);
  const fail = (reason: string): never => {
    throw modelJsonMalformed(reason);
  };
  const json = parseStrictJson(decodeText(bytes, fail), { maxDepth: 64, maxValues: 2_000_000 }, fail);
  if (!isJsonObject(json)) return fail("it is not an object");
  if ((json.get("weightsManifest") ?? null) !== null || json.get("format") === "graph-model")
    return readModelJson(bytes);
  const { calls } = graphOfTopology(json.get("modelTopology") ?? json);
  return readModelJson(bytes, weightsOf(calls));
}

/** The weights by the names that a file of theirs has: layer/weight. */
function weightsOf(calls: readonly GraphCall[]): ReadonlyMap<string, TensorHeader> {
  const shapes = layerShapes({
    layers: calls.map(({ className, config, inputs }) => ({ className, config, inputs, weights: [] })),
    outputs: [],
  });
  const found = new Map<string, TensorHeader>();
  const instances = new Set<number>();
  for (const { instance, className, config, inputs, path } of calls) {
    if (instances.has(instance)) continue;
    instances.add(instance);
    const [first] = inputs;
    const input = first === undefined || first.output !== 0 ? undefined : shapes[first.layer];
    for (const form of weightForms(className, config)) {
      const shape = shapeOf(form, { className, config, input });
      if (shape !== undefined) found.set(`${path}/${form.name}`, { dtype: "F32", shape });
    }
  }
  return found;
}

/** The shape of a weight; undefined where it does not follow from the channels that its layer gets. */
function shapeOf(
  { name, shape }: WeightForm,
  {
    className,
    config,
    input,
  }: Pick<GraphCall, "className" | "config"> & { readonly input: Shape | undefined },
): readonly number[] | undefined {
  const channels = input?.at(-1) ?? null;
  if (input === undefined || channels === null) return undefined;
  const isNormalization = className.endsWith("Normalization");
  // The axis of samples, which shapes here have not, is counted too.
  const [axis, ...more] = [config["axis"] ?? -1].flat();
  if (isNormalization && (more.length > 0 || (axis !== -1 && axis !== input.length))) return undefined;
  const multiplied = channels * ((config["depth_multiplier"] ?? 1) as number);
  const isMultiplied =
    (className === "SeparableConv2D" && name === "pointwise_kernel") ||
    (className === "DepthwiseConv2D" && name === "bias");
  const groups = className.startsWith("Conv") ? ((config["groups"] ?? 1) as number) : 1;
  const whole: Shape | undefined = shape ?? (isNormalization ? [null] : undefined);
  const filled = isMultiplied ? multiplied : channels / groups;
  return Number.isInteger(filled) ? whole?.map((extent) => extent ?? filled) : undefined;
}
