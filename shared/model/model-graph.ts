/**
 * Flattens the graph of a tfjs topology to calls of leaf layers. Sequential, Model, Functional and nested
 * models are flattened until only leaf layers are left (EV9), and a layer that is called more than once keeps
 * one identity. Reads JSON from outside; does not depend on weights.
 */
import { StemmaError } from "../errors.js";
import { isJsonArray, isJsonObject, type Json, type JsonObject } from "../tensor/strict-json.js";
import { maxLayers, notAllowed } from "./architecture.js";
import { makesMasks, translateLayer, type Dialect } from "./keras-dialect.js";
import { cleanLayer, type LayerConfig } from "./layer-catalog.js";

export interface GraphReference {
  readonly layer: number;
  readonly output: number;
}

/** One call of one layer. Calls with the same `instance` share weights. */
export interface GraphCall {
  readonly instance: number;
  readonly className: string;
  readonly config: LayerConfig;
  /** The layer's display name. */
  readonly name: string;
  /** The names of the nested models that it is in, from outside, and its own. */
  readonly path: string;
  readonly frozen: boolean;
  readonly inputs: readonly GraphReference[];
}

export interface ModelGraph {
  readonly calls: readonly GraphCall[];
  readonly outputs: readonly GraphReference[];
}

const maxNesting = 16;
const modelClasses = new Set(["Model", "Functional", "Sequential"]);

export function modelJsonMalformed(reason: string): StemmaError<"MODEL_JSON_MALFORMED"> {
  return new StemmaError(
    "MODEL_JSON_MALFORMED",
    `This is not a model.json of a layers model: ${reason}. Write it with tf.LayersModel.save or the tfjs converter (format tfjs_layers_model).`,
  );
}

type LocalReference = readonly [layer: string, node: number, tensor: number];
interface LeafDefinition {
  readonly kind: "leaf";
  readonly instance: number;
  readonly name: string;
  readonly className: string;
  readonly config: LayerConfig;
  readonly frozen: boolean;
  readonly nodes: readonly (readonly LocalReference[])[];
}
interface ModelDefinition {
  readonly kind: "model";
  readonly name: string;
  readonly layers: readonly Definition[];
  readonly inputs: readonly LocalReference[];
  readonly outputs: readonly LocalReference[];
  readonly nodes: readonly (readonly LocalReference[])[];
}
type Definition = LeafDefinition | ModelDefinition;

function text(value: Json | undefined, what: string): string {
  if (typeof value !== "string" || value.length > 1_000) throw modelJsonMalformed(`${what} is not a text`);
  return value;
}
function object(value: Json | undefined, what: string): JsonObject {
  if (!isJsonObject(value)) throw modelJsonMalformed(`${what} is not an object`);
  return value;
}
function list(value: Json | undefined, what: string, max: number): readonly Json[] {
  if (!isJsonArray(value) || value.length > max)
    throw modelJsonMalformed(`${what} is not a list of at most ${max}`);
  return value;
}

function reference(value: Json, what: string): LocalReference {
  const [layer, node, tensor, keywords] = list(value, what, 4);
  if (typeof layer !== "string" || !isIndex(node) || !isIndex(tensor))
    throw modelJsonMalformed(`${what} does not name a layer, a call and an output`);
  if (
    keywords !== undefined &&
    keywords !== null &&
    !(isJsonObject(keywords) && [...keywords.values()].every((argument) => argument === null))
  )
    throw modelJsonMalformed(`${what} passes arguments of its own`);
  return [layer, node, tensor];
}
function isIndex(value: Json | undefined): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < 100_000;
}

/** `input_layers` of a model with one input may lack the outer list. */
function references(value: Json | undefined, what: string): readonly LocalReference[] {
  const items = list(value, what, 1_000);
  return typeof items[0] === "string" ? [reference(items, what)] : items.map((item) => reference(item, what));
}

/** The tensors of a call: a list of references, or as Keras 3 writes it, {args, kwargs}. */
function callInputs(node: Json, what: string): readonly LocalReference[] {
  if (!isJsonObject(node) || !node.has("args")) return references(node, what);
  for (const [name, value] of object(node.get("kwargs") ?? new Map<string, Json>(), `kwargs of ${what}`))
    if (value !== null && !(name === "training" && value === false))
      throw modelJsonMalformed(`${what} passes the argument ${JSON.stringify(name.slice(0, 80))}`);
  return tensorsIn(list(node.get("args"), `args of ${what}`, 1_000), what);
}

/** The tensors in a list of arguments, which may hold lists. */
function tensorsIn(values: readonly Json[], what: string, depth = 0): readonly LocalReference[] {
  const found = values.flatMap((value) => {
    if (isJsonArray(value) && depth < 4) return tensorsIn(value, what, depth + 1);
    const config = isJsonObject(value) ? value.get("config") : undefined;
    if (!isJsonObject(value) || value.get("class_name") !== "__keras_tensor__" || !isJsonObject(config))
      throw modelJsonMalformed(`${what} passes something that is not a tensor`);
    return [reference(config.get("keras_history") ?? null, what)];
  });
  return found.length <= 1_000 ? found : fail(`${what} has more than 1,000 inputs`);
}

/** Reads definitions; gives every layer instance a number. */
class DefinitionReader {
  instances = 0;

  constructor(private readonly dialect: Dialect) {}

  layer(
    value: Json,
    depth: number,
    nodesOf: (entry: JsonObject, name: string) => readonly (readonly LocalReference[])[],
  ): Definition {
    const entry = object(value, "a layer");
    const className = text(entry.get("class_name"), "a layer's class_name");
    const config = entry.get("config");
    if (modelClasses.has(className)) {
      const model = this.model(className, config, depth + 1);
      const name = text(entry.get("name") ?? model.name, "a nested model's name");
      return { ...model, name, nodes: nodesOf(entry, name) };
    }
    if (++this.instances > maxLayers) throw modelJsonMalformed(`it has more than ${maxLayers} layers`);
    const settings = object(config, "a layer's config");
    const name = text(
      settings.get("name") ?? entry.get("name") ?? `${className}_${this.instances}`,
      "a layer's name",
    );
    const refuse = (reason: string): never => {
      throw notAllowed(`The layer ${JSON.stringify(name.slice(0, 80))} (${className.slice(0, 80)})`, reason);
    };
    const { dialect } = this;
    const translated = translateLayer(className, { entry, config: settings, dialect }, refuse);
    const clean = cleanLayer(className, translated.config, refuse);
    const callName = text(entry.get("name") ?? name, "a layer's name");
    return {
      kind: "leaf",
      instance: this.instances,
      name: callName,
      className,
      config: clean,
      frozen: settings.get("trainable") === false,
      nodes: nodesOf(entry, callName),
    };
  }

  model(className: string, config: Json | undefined, depth: number): ModelDefinition {
    if (depth > maxNesting) throw modelJsonMalformed(`models are nested deeper than ${maxNesting}`);
    if (className === "Sequential") return this.sequential(config, depth);
    const settings = object(config, "the model's config");
    const layers = list(settings.get("layers"), "the model's layers", maxLayers).map((layer) =>
      this.layer(layer, depth, (entry, name) =>
        list(entry.get("inbound_nodes"), `inbound_nodes of ${JSON.stringify(name.slice(0, 80))}`, 1_000).map(
          (node) => callInputs(node, `a call of ${JSON.stringify(name.slice(0, 80))}`),
        ),
      ),
    );
    return {
      kind: "model",
      name: text(settings.get("name") ?? "model", "the model's name"),
      layers,
      inputs: references(settings.get("input_layers"), "input_layers"),
      outputs: references(settings.get("output_layers"), "output_layers"),
      nodes: [],
    };
  }

  /**
   * A Sequential as a chain of calls with one input. The input may be implied by the `batch_input_shape` of
   * the first layer.
   */
  sequential(config: Json | undefined, depth: number): ModelDefinition {
    const settings = isJsonArray(config) ? undefined : object(config, "the model's config");
    const entries = list(
      settings === undefined ? config : settings.get("layers"),
      "the model's layers",
      maxLayers,
    );
    const layers: Definition[] = [];
    let before: string | undefined;
    for (const entry of entries) {
      const input: readonly LocalReference[] = before === undefined ? [] : [[before, 0, 0]];
      const definition = this.layer(entry, depth, () => (before === undefined ? [] : [input]));
      if (before === undefined && !(definition.kind === "leaf" && definition.className === "InputLayer")) {
        const implied = this.impliedInput(entry, definition, depth > 0);
        layers.push(implied, { ...definition, nodes: [[[implied.name, 0, 0]]] });
      } else layers.push(definition);
      // A nested model's own node comes before those of its calls.
      before = definition.name;
    }
    const first = layers[0];
    if (first === undefined || before === undefined) throw modelJsonMalformed("a Sequential has no layers");
    return {
      kind: "model",
      name: text(settings?.get("name") ?? "sequential", "the model's name"),
      layers,
      inputs: [[first.name, 0, 0]],
      outputs: [[before, 0, 0]],
      nodes: [],
    };
  }

  /**
   * @param isReplaced whether what the nested model is called with replaces the input, so that its shape may
   * be unknown
   */
  impliedInput(entry: Json, definition: Definition, isReplaced: boolean): LeafDefinition {
    const config = isJsonObject(entry) ? entry.get("config") : undefined;
    const shape = isJsonObject(config) ? config.get("batch_input_shape") : undefined;
    const dtype = isJsonObject(config) ? config.get("dtype") : undefined;
    const input = definition.kind === "model" ? firstInput(definition) : undefined;
    const settings =
      input?.config ??
      cleanLayer(
        "InputLayer",
        new Map<string, Json>([
          ["batch_input_shape", shape ?? (isReplaced ? [null] : null)],
          ["dtype", dtype ?? "float32"],
        ]),
        () => {
          throw modelJsonMalformed("the first layer of a Sequential has no batch_input_shape");
        },
      );
    return {
      kind: "leaf",
      instance: ++this.instances,
      name: `${definition.name}_input`,
      className: "InputLayer",
      config: settings,
      frozen: false,
      nodes: [],
    };
  }
}

function firstInput(model: ModelDefinition): LeafDefinition | undefined {
  const name = model.inputs[0]?.[0];
  const layer = model.layers.find((definition) => definition.name === name);
  return layer?.kind === "leaf" ? layer : layer === undefined ? undefined : firstInput(layer);
}

/** Flattens a model: every call of every layer, in nested models as often as those are called. */
class Expansion {
  readonly calls: GraphCall[] = [];
  #attempts = 0;

  /**
   * @param given the model's inputs; undefined for the outermost model, whose inputs are calls themselves
   */
  open(
    model: ModelDefinition,
    given: readonly GraphReference[] | undefined,
    prefix = "",
  ): readonly GraphReference[] {
    if (given !== undefined && given.length !== model.inputs.length)
      throw modelJsonMalformed(
        `the model ${JSON.stringify(model.name.slice(0, 80))} is called with ${given.length} inputs, it has ${model.inputs.length}`,
      );
    const results = new Map<string, readonly GraphReference[]>();
    const key = (layer: string, node: number): string => `${node} ${layer}`;
    this.#openInputs(model, { given, prefix }, (name, outputs) => results.set(key(name, 0), outputs));
    if (new Set(model.layers.map(({ name }) => name)).size !== model.layers.length)
      throw modelJsonMalformed(`two layers of ${JSON.stringify(model.name.slice(0, 80))} have one name`);
    const ahead = nodesAhead(model);
    const resolve = ([layer, node, tensor]: LocalReference): GraphReference | undefined => {
      const outputs = results.get(key(layer, node - (ahead.get(layer) ?? 0)));
      if (outputs === undefined) return undefined;
      return outputs[tensor] ?? this.#furtherOutput(outputs, tensor, layer);
    };
    let waiting = model.layers.flatMap((layer) =>
      layer.nodes.map((inputs, node) => ({ layer, inputs, node })),
    );
    while (waiting.length > 0) {
      const stillWaiting = waiting.filter(({ layer, inputs, node }) => {
        if (++this.#attempts > 50_000_000)
          throw modelJsonMalformed("its layers are listed in an order that takes too long to follow");
        const sources = inputs.map(resolve);
        if (!sources.every((source) => source !== undefined)) return true;
        results.set(
          key(layer.name, node),
          layer.kind === "model"
            ? this.open(layer, sources, `${prefix}${layer.name}/`)
            : [this.#call(layer, sources, prefix)],
        );
        return false;
      });
      if (stillWaiting.length === waiting.length)
        throw modelJsonMalformed(
          `the inputs of the layer ${JSON.stringify(stillWaiting[0]?.layer.name.slice(0, 80))} are never computed`,
        );
      waiting = stillWaiting;
    }
    return model.outputs.map(
      (output) =>
        resolve(output) ??
        fail(`the output ${JSON.stringify(output[0].slice(0, 80))} does not come from a layer`),
    );
  }

  #openInputs(
    model: ModelDefinition,
    { given, prefix }: { readonly given: readonly GraphReference[] | undefined; readonly prefix: string },
    bind: (name: string, outputs: readonly GraphReference[]) => void,
  ): void {
    model.inputs.forEach(([name], slot) => {
      const layer = model.layers.find((definition) => definition.name === name);
      if (layer?.kind !== "leaf" || layer.className !== "InputLayer" || layer.nodes.length > 0)
        throw modelJsonMalformed(`the input ${JSON.stringify(name.slice(0, 80))} is not an InputLayer`);
      bind(name, [given?.[slot] ?? this.#call(layer, [], prefix)]);
    });
    const bound = new Set(model.inputs.map(([name]) => name));
    if (bound.size !== model.inputs.length) throw modelJsonMalformed("an input is named twice");
    for (const layer of model.layers)
      if (layer.kind === "leaf" && layer.className === "InputLayer" && !bound.has(layer.name))
        throw modelJsonMalformed(
          `the input ${JSON.stringify(layer.name.slice(0, 80))} is not among input_layers`,
        );
  }

  #call(layer: LeafDefinition, inputs: readonly GraphReference[], prefix: string): GraphReference {
    if (this.calls.length >= maxLayers)
      throw modelJsonMalformed(`flattened, it has more than ${maxLayers} layers`);
    const { instance, className, config, name, frozen } = layer;
    if (inputs.length === 0 && className !== "InputLayer")
      throw modelJsonMalformed(`the layer ${JSON.stringify(name.slice(0, 80))} is called without inputs`);
    const path = prefix + name;
    return {
      layer: this.calls.push({ instance, className, config, name, path, frozen, inputs }) - 1,
      output: 0,
    };
  }

  /** Recurrent layers that return their state, and no others, have more than one output. */
  #furtherOutput(outputs: readonly GraphReference[], tensor: number, layer: string): GraphReference {
    const only = outputs.length === 1 ? outputs[0] : undefined;
    const call = only === undefined ? undefined : this.calls[only.layer];
    const inner = call?.config["layer"] as { readonly config?: LayerConfig } | undefined;
    if (
      only === undefined ||
      only.output !== 0 ||
      tensor > 4 ||
      (call?.config["return_state"] !== true && inner?.config?.["return_state"] !== true)
    )
      return fail(`the layer ${JSON.stringify(layer.slice(0, 80))} has no output ${tensor}`);
    return { layer: only.layer, output: tensor };
  }
}

function fail(reason: string): never {
  throw modelJsonMalformed(reason);
}

/**
 * A nested model has a node of its own before the nodes of its calls, and most files count it (Keras'
 * `kept_nodes`). Some files do not count it, and our reading of a Sequential does not either.
 */
function nodesAhead(model: ModelDefinition): ReadonlyMap<string, number> {
  const ahead = new Map<string, number>();
  for (const layer of model.layers) if (layer.kind === "model") ahead.set(layer.name, 1);
  const references = [...model.outputs, ...model.layers.flatMap(({ nodes }) => nodes.flat())];
  for (const [name, node] of references) if (node === 0) ahead.delete(name);
  return ahead;
}

/** The calls of a topology {class_name, config}. @throws MODEL_JSON_MALFORMED, LAYER_NOT_ALLOWED */
export function graphOfTopology(topology: Json | undefined): ModelGraph {
  const root = object(topology, "modelTopology");
  const model = object(root.get("model_config") ?? root, "model_config");
  const className = text(model.get("class_name"), "class_name");
  if (!modelClasses.has(className))
    throw modelJsonMalformed(`it describes a ${JSON.stringify(className.slice(0, 80))}`);
  const expansion = new Expansion();
  const version = root.get("keras_version") ?? model.get("keras_version");
  const reader = new DefinitionReader({
    // TensorFlow.js writes "tfjs-layers 4.22.0".
    keras: typeof version !== "string" || !/^\d/.test(version) ? undefined : version.startsWith("3") ? 3 : 2,
    isMasked: makesMasks(model),
  });
  const outputs = expansion.open(reader.model(className, model.get("config"), 0), undefined);
  return { calls: expansion.calls, outputs };
}
