/**
 * Finds what weights a model's layers have in a file that stores them by place: Keras numbers the layers of a model by
 * their class, in the order of its configuration, and each layer's weights in the order of the catalog
 * (keras/src/saving/saving_lib.py, "_save_container_state").
 */
import { weightForms } from "../../model/layer-catalog.js";
import { graphOfTopology } from "../../model/model-graph.js";
import { isJsonArray, isJsonObject, type Json, type JsonObject } from "../../tensor/strict-json.js";
import { isGroup, type Hdf5Dataset, type Hdf5Group } from "../hdf5/hdf5-file.js";
import type { StoredWeight } from "./stored-weights.js";

/** Continues "the layers are not understood: …". */
type Fail = (reason: string) => never;

/**
 * The weights, named by layer and weight, in the order of the layers.
 * @param topology with model_config
 * @throws MODEL_JSON_MALFORMED, LAYER_NOT_ALLOWED, what `fail` throws where weights and layers do not fit
 */
export function weightsOfLayers(
  topology: JsonObject,
  { root, weights }: { readonly root: Hdf5Group; readonly weights: readonly StoredWeight[] },
  fail: Fail,
): readonly StoredWeight[] {
  const { calls } = graphOfTopology(topology);
  const formsByPath = new Map(
    calls.map(({ path, className, config }) => [path, weightForms(className, config)]),
  );
  const found: StoredWeight[] = [];
  for (const { path, place, groups } of placesOf(topology.get("model_config"), "", "")) {
    const stored = groups.flatMap((group) => variablesAt(root, `${place}${group}`, path, fail));
    const forms = formsByPath.get(path) ?? [];
    if (stored.length !== forms.length)
      return fail(`the layer ${JSON.stringify(path)} has ${stored.length} weights and needs ${forms.length}`);
    stored.forEach((weight, i) => found.push({ ...weight, name: `${path}/${forms[i]?.name}` }));
  }
  const places = new Set(found.map(({ start, shape }) => `${start} ${shape.join()}`));
  const other = weights.find(({ start, shape }) => !places.has(`${start} ${shape.join()}`));
  return other === undefined ? found : fail(`no layer has the weight ${JSON.stringify(other.name)}`);
}

interface LayerPlace {
  /** Names of the nested models that it is in, and its own. */
  readonly path: string;
  /** The path of its group in the file. */
  readonly place: string;
  /** Paths below, of the parts that have weights. */
  readonly groups: readonly string[];
}

function* placesOf(model: Json | undefined, path: string, place: string): Iterable<LayerPlace> {
  const config = isJsonObject(model) ? model.get("config") : undefined;
  const layers = isJsonObject(config) ? config.get("layers") : config;
  const counts = new Map<string, number>();
  for (const layer of isJsonArray(layers) ? layers : []) {
    const className = textOf(layer, "class_name") ?? "";
    const key = snakeCase(className);
    const count = counts.get(key) ?? 0;
    counts.set(key, count + 1);
    const settings = isJsonObject(layer) ? layer.get("config") : undefined;
    const name = textOf(layer, "name") ?? textOf(settings, "name") ?? "";
    const inside = `${place}layers/${key}${count === 0 ? "" : `_${count}`}/`;
    if (isJsonObject(settings) && isJsonArray(settings.get("layers")))
      yield* placesOf(layer, `${path}${name}/`, inside);
    else yield { path: path + name, place: inside, groups: groupsOf(className, settings) };
  }
}

function groupsOf(className: string, settings: Json | undefined): readonly string[] {
  const inner = textOf(isJsonObject(settings) ? settings.get("layer") : undefined, "class_name") ?? "";
  const cell = (name: string): string => (["LSTM", "GRU", "SimpleRNN"].includes(name) ? "cell/" : "");
  if (className === "TimeDistributed") return [`layer/${cell(inner)}vars`];
  if (className === "Bidirectional")
    return ["forward_layer/", "backward_layer/"].map((direction) => `${direction}${cell(inner)}vars`);
  return [`${cell(className)}vars`];
}

function variablesAt(root: Hdf5Group, place: string, path: string, fail: Fail): readonly Hdf5Dataset[] {
  const parts = place.split("/");
  let node: Hdf5Group | Hdf5Dataset | undefined = root;
  for (const part of parts) node = isGroup(node) ? node.children.get(part) : undefined;
  if (!isGroup(node)) return [];
  // Newer versions state the layer's name; that of a part is not the layer's.
  const [name] = node.attributes.get("name") ?? [];
  if (name !== undefined && parts.at(-3) === "layers" && name !== path.slice(path.lastIndexOf("/") + 1))
    return fail(`the weights of ${JSON.stringify(path)} are those of ${JSON.stringify(name)}`);
  return Array.from({ length: node.children.size }, (_, i) => {
    const variable = node.children.get(String(i));
    return variable === undefined || isGroup(variable)
      ? fail(`the layer ${JSON.stringify(path)} has no weight ${i}`)
      : variable;
  });
}

function textOf(value: Json | undefined, key: string): string | undefined {
  const text = isJsonObject(value) ? value.get(key) : undefined;
  return typeof text === "string" ? text : undefined;
}

/** The function of this name in keras/src/utils/naming.py. */
function snakeCase(name: string): string {
  return name
    .replace(/\W+/g, "")
    .replace(/(.)([A-Z][a-z]+)/g, "$1_$2")
    .replace(/([a-z])([A-Z])/g, "$1_$2")
    .toLowerCase();
}
