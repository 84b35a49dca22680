/**
 * Architecture → a model.json that tf.loadLayersModel accepts: one flat functional model, names from the
 * names object, made unique.
 */
import { defined } from "../defined.js";
import { StemmaError } from "../errors.js";
import type { DType } from "../tensor/dtype.js";
import { memberRuns } from "./member-runs.js";
import type { Architecture, LeafLayer, Names } from "./model.js";
import { tfjsRegularizer } from "./tfjs-regularizer.js";

export interface ManifestWeight {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: string;
}

export interface ExportedModelJson {
  readonly format: "layers-model";
  readonly generatedBy: string;
  readonly convertedBy: null;
  readonly modelTopology: Readonly<Record<string, unknown>>;
  /** One group; its file holds the leaves' bytes one after the other, in canonical order. */
  readonly weightsManifest: readonly {
    readonly paths: readonly string[];
    readonly weights: readonly ManifestWeight[];
  }[];
}

const manifestDtypes: Readonly<Partial<Record<DType, string>>> = {
  F32: "float32",
  I32: "int32",
  BOOL: "bool",
  C64: "complex64",
};

/**
 * Names of layers for a model that has no names: `conv2d_3`, with the layer's index as the number; in an ensemble
 * `member_0_conv2d_3`.
 */
export function defaultLayerNames(architecture: Architecture): readonly string[] {
  const runs = memberRuns(architecture) ?? [];
  return architecture.layers.map(({ className }, i) => {
    const member = runs.findIndex(({ first, end }) => i >= first && i <= end);
    const name = `${className.replace(/([a-z])([A-Z])/g, "$1_$2").toLowerCase()}_${i}`;
    return member < 0 ? name : `member_${member}_${name}`;
  });
}

/** Names of an architecture's leaves as tfjs would call them: `layer/weight`. */
export function defaultNames(
  architecture: Architecture,
  layerNames: readonly string[] = defaultLayerNames(architecture),
): Names {
  const layers = uniqueNames(architecture, layerNames);
  return {
    leaves: architecture.layers.flatMap((layer, i) => weightNames(layer, layers[i] as string, undefined)),
    layers,
  };
}

/** A shared layer keeps its owner's name in all its calls; names that would occur twice get a number. */
function uniqueNames(architecture: Architecture, wanted: readonly string[]): readonly string[] {
  const taken = new Set<string>();
  const names: string[] = [];
  architecture.layers.forEach(({ sharedWith }, i) => {
    if (sharedWith !== undefined) {
      names.push(names[sharedWith] as string);
      return;
    }
    const base: string = wanted[i] ?? defaultLayerNames(architecture)[i]!;
    let name = base;
    for (let n = 1; taken.has(name); n++) name = `${base}_${n}`;
    taken.add(name);
    names.push(name);
  });
  return names;
}

/** The name of a wrapper's inner layer, taken from a weight's name `outer/forward_inner/kernel`. */
function innerName(layerName: string, firstLeaf: string | undefined): string {
  const found =
    firstLeaf?.startsWith(`${layerName}/forward_`) === true
      ? firstLeaf.slice(layerName.length + "/forward_".length).split("/")[0]
      : undefined;
  return found !== undefined && found !== "" ? found : `${layerName}_inner`;
}

function weightNames(layer: LeafLayer, name: string, firstLeaf: string | undefined): readonly string[] {
  const inner = layer.className === "Bidirectional" ? innerName(name, firstLeaf) : "";
  return layer.weights.map(
    (weight) =>
      `${name}/${layer.className === "Bidirectional" ? weight.name.replace(/^(forward|backward)\//, `$1_${inner}/`) : weight.name}`,
  );
}

/** The settings of a layer, and of one inside it, as tfjs reads them. */
function toTfjsConfig(value: unknown): unknown {
  if (Array.isArray(value) || typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [
      key,
      key.endsWith("_regularizer") ? tfjsRegularizer(member) : toTfjsConfig(member),
    ]),
  );
}

function namedConfig(
  layer: LeafLayer,
  name: string,
  frozen: boolean,
  inner: string,
): Readonly<Record<string, unknown>> {
  if (layer.className === "InputLayer") return { ...layer.config, sparse: false, name };
  const config = toTfjsConfig(layer.config) as LeafLayer["config"];
  const wrapped = config["layer"] as
    { readonly class_name: string; readonly config: Readonly<Record<string, unknown>> } | undefined;
  return {
    ...config,
    ...defined({
      layer: wrapped && {
        class_name: wrapped.class_name,
        config: { ...wrapped.config, name: inner, trainable: !frozen },
      },
    }),
    name,
    trainable: !frozen,
  };
}

/**
 * @param weightsFile name of the file that will hold the leaves' bytes
 * @throws ARCHITECTURE_INVALID for a weight whose dtype tfjs does not have
 */
export function writeModelJson(
  architecture: Architecture,
  names: Names,
  weightsFile = "weights.bin",
): ExportedModelJson {
  const { layers, outputs } = architecture;
  const layerNames = uniqueNames(architecture, names.layers ?? []);
  const frozen = new Set(names.frozenLayers ?? []);
  const nodes = nodesInOrderOfCreation(layers);
  const nodeIndex = new Map(
    [...nodes.values()].flatMap((calls) => calls.map((call, node) => [call, node] as const)),
  );
  const reference = ({
    layer,
    output,
  }: {
    readonly layer: number;
    readonly output: number;
  }): readonly unknown[] => [layerNames[layer], nodeIndex.get(layer), output];
  let leaf = 0;
  const weights: ManifestWeight[] = [];
  const written = layers.flatMap((layer, i) => {
    if (layer.sharedWith !== undefined) return [];
    const name = layerNames[i] as string;
    const firstLeaf = names.leaves[leaf];
    weightNames(layer, name, firstLeaf).forEach((weightName, w) => {
      weights.push(manifestWeight(layer, w, weightName));
    });
    leaf += layer.weights.length;
    const calls = nodes.get(i) ?? [];
    return [
      {
        name,
        class_name: layer.className,
        config: namedConfig(layer, name, frozen.has(i), innerName(name, firstLeaf)),
        inbound_nodes:
          layer.className === "InputLayer"
            ? []
            : calls.map((call) =>
                (layers[call] as LeafLayer).inputs.map((input) => [...reference(input), {}]),
              ),
      },
    ];
  });
  const inputs = layers.flatMap((layer, i) =>
    layer.className === "InputLayer" ? [reference({ layer: i, output: 0 })] : [],
  );
  return {
    format: "layers-model",
    generatedBy: "stemma",
    convertedBy: null,
    modelTopology: {
      class_name: "Model",
      config: { name: "model", layers: written, input_layers: inputs, output_layers: outputs.map(reference) },
      keras_version: "tfjs-layers 4.22.0",
      backend: "tensor_flow.js",
    },
    weightsManifest: [{ paths: [weightsFile], weights }],
  };
}

function manifestWeight(layer: LeafLayer, index: number, name: string): ManifestWeight {
  const { dtype, shape } = layer.weights[index] as LeafLayer["weights"][number];
  const known = manifestDtypes[dtype];
  if (known === undefined)
    throw new StemmaError(
      "ARCHITECTURE_INVALID",
      `The weight ${name} has the element type ${dtype}, which TensorFlow.js does not have. Export the model as safetensors.`,
    );
  return { name, shape, dtype: known };
}

/**
 * Returns for each layer its calls in the order in which tfjs makes them when it loads the model. It goes through the
 * layers repeatedly, makes every call whose inputs exist, and numbers the calls as it goes: a later call may overtake
 * an earlier one, and references by the file's own numbers would then lead to the wrong call without an error.
 */
function nodesInOrderOfCreation(layers: readonly LeafLayer[]): ReadonlyMap<number, readonly number[]> {
  const nodes = new Map<number, number[]>();
  const waiting = new Map<number, readonly number[]>();
  layers.forEach(({ sharedWith }, i) => {
    const owner = sharedWith ?? i;
    waiting.set(owner, [...(waiting.get(owner) ?? []), i]);
  });
  const created = new Set<number>();
  while (waiting.size > 0) {
    for (const [owner, calls] of [...waiting]) {
      const stillWaiting = calls.filter((call) => {
        if (!(layers[call] as LeafLayer).inputs.every(({ layer }) => created.has(layer))) return true;
        created.add(call);
        nodes.set(owner, [...(nodes.get(owner) ?? []), call]);
        return false;
      });
      if (stillWaiting.length === 0) waiting.delete(owner);
      else waiting.set(owner, stillWaiting);
    }
  }
  return nodes;
}
