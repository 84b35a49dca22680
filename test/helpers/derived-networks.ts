/** Random small networks, random mutations of them, and what every derived model has to be: able to run. */
import assert from "node:assert/strict";
import { compileDerivation } from "../../server/learning/query/derive/compile-derivation.js";
import { deriveModels, type DerivedModel } from "../../server/learning/query/derive/derive-models.js";
import { derivedNetwork } from "../../server/learning/query/derive/derived-network.js";
import type { Draft, DraftNode } from "../../server/learning/query/derive/draft.js";
import { initialTensor } from "../../server/learning/query/derive/initial-weights.js";
import { parseQuery } from "../../server/learning/query/parse-query.js";
import { Run } from "../../server/learning/query/query-run.js";
import type { QuerySource } from "../../server/learning/query/query-source.js";
import type { VersionRow } from "../../server/storage/repository/row-keeper.js";
import { weightSlots } from "../../shared/model/architecture.js";
import { layerShapes, type Shape } from "../../shared/model/layer-shapes.js";
import type { Architecture, LeafLayer } from "../../shared/model/model.js";
import { seededNumbers } from "../../shared/random/seeded-numbers.js";
import { Streams } from "../../shared/random/streams.js";
import type { Tensor } from "../../shared/tensor/tensor.js";
import type { TensorFlow, TfTensor } from "../../shared/train/tensorflow.js";
import { buildTrainable } from "../../shared/train/trainable.js";
import type { Draw } from "./query-fleet.js";

export interface PlainNetwork {
  readonly architecture: Architecture;
  readonly names: readonly string[];
  readonly tensors: readonly Tensor[];
}

export function networkOfLayers(layers: Draft["nodes"], outputs: readonly DraftNode[]): PlainNetwork {
  const draft = { nodes: layers, outputs: outputs.map((node) => ({ node, output: 0 })) };
  const none = { architecture: { layers: [], outputs: [] }, names: [] };
  const { architecture, names } = derivedNetwork(draft, none);
  return { architecture, names, tensors: randomTensors(architecture, 1) };
}

export function randomTensors(architecture: Architecture, seed: number): readonly Tensor[] {
  const next = seededNumbers(seed);
  return weightSlots(architecture).map(({ dtype, shape }) => {
    const values = Float32Array.from({ length: sizeOf(shape) }, () => next() - 0.3);
    return { dtype, shape, bytes: new Uint8Array(values.buffer) };
  });
}

const sizeOf = (shape: readonly (number | null)[]): number =>
  shape.reduce<number>((product, extent) => product * (extent ?? 1), 1);

export function plainLayer(
  name: string,
  className: string,
  config: LeafLayer["config"],
  ...from: readonly DraftNode[]
): DraftNode {
  return { name, className, config, inputs: from.map((node) => ({ node, output: 0 })), origin: undefined };
}

export const inputLayer = (name: string, ...shape: readonly (number | null)[]): DraftNode =>
  plainLayer(name, "InputLayer", { batch_input_shape: [null, ...shape], dtype: "float32" });

const pictures: readonly (readonly [string, string, LeafLayer["config"]])[] = [
  ["conv", "Conv2D", { filters: 2, kernel_size: 3, padding: "same" }],
  ["conv", "Conv2D", { filters: 3, kernel_size: 2, padding: "valid" }],
  ["pool", "MaxPooling2D", { pool_size: 2 }],
  ["avg", "AveragePooling2D", { pool_size: 2, strides: 1, padding: "same" }],
  ["relu", "ReLU", {}],
  ["norm", "BatchNormalization", {}],
  ["deep", "DepthwiseConv2D", { kernel_size: 2, depth_multiplier: 2, padding: "same" }],
  ["add", "Add", {}],
  ["join", "Concatenate", {}],
  ["flat", "Flatten", {}],
  ["mean", "GlobalAveragePooling2D", {}],
];
const vectors: typeof pictures = [
  ["fc", "Dense", { units: 3 }],
  ["fc", "Dense", { units: 2, activation: "relu" }],
  ["relu", "ReLU", {}],
  ["soft", "Softmax", {}],
  ["drop", "Dropout", { rate: 0.5 }],
  ["add", "Add", {}],
  ["join", "Concatenate", {}],
];

/** Branches, joins, and one or two inputs of [7, 6, 2] numbers. */
export function randomNetwork(draw: Draw): PlainNetwork {
  const nodes = Array.from({ length: 1 + draw(2) }, (_, at) => inputLayer(`input${at}`, 7, 6, 2));
  const shapeOf = (node: DraftNode): Shape => {
    const indexOf = (from: DraftNode["inputs"][number]) => ({ layer: nodes.indexOf(from.node), output: 0 });
    const layers = nodes.map((each) => ({ ...each, inputs: each.inputs.map(indexOf), weights: [] }));
    return layerShapes({ layers, outputs: [] })[nodes.indexOf(node)] ?? [];
  };
  const counts = new Map<string, number>();
  const size = 4 + draw(8);
  for (let tries = 0; nodes.length < size && tries < 60; tries++) {
    const from = nodes[Math.max(0, nodes.length - 1 - draw(3))] as DraftNode;
    const kinds = shapeOf(from).length === 3 ? pictures : vectors;
    const [kind, className, config] = kinds[draw(kinds.length)] as (typeof kinds)[number];
    const others = ["Add", "Concatenate"].includes(className) ? [nodes[draw(nodes.length)] as DraftNode] : [];
    // TensorFlow.js fails where what a layer gets twice is used elsewhere too.
    if (others.includes(from)) continue;
    const number = (counts.get(kind) ?? 0) + 1;
    const node = plainLayer(`${kind}${number}`, className, config, from, ...others);
    try {
      networkOfLayers([...nodes, node], [node]);
    } catch {
      continue;
    }
    counts.set(kind, number);
    nodes.push(node);
  }
  const used = new Set(nodes.flatMap(({ inputs }) => inputs.map(({ node }) => node)));
  const ends = nodes.filter((node) => !used.has(node) && node.className !== "InputLayer");
  return ends.length === 0 ? randomNetwork(draw) : networkOfLayers(nodes, ends);
}

const templates = [
  'RELU("new_$1")',
  'DENSE("new_$1", units=3)',
  'CONV("new_$1", filters=2, kernel_size=3, padding="same")',
  'CONV("relu1", filters=1, kernel_size=[2, 2], strides=2)',
  'POOL("MAX", "new_$1", pool_size=2)',
  'NORM("BATCH", "new_$1")',
  'LSTM("new_$1", units=2)',
  'FLATTEN("new_$1")',
  'RESHAPE("new_$1", target_shape=[3, 1])',
  'TIMEDISTRIBUTED("new_$1", layer=DENSE(units=2))',
];
const selectors = ["conv*($1)", "*($1)", "pool*($1)", "fc*($1)", "relu?($1)", "*[12]($1)"];
const targets = ["RELU()", "CONV()", 'POOL("MAX")', "ADD()", "FLATTEN()", "NORM()", "FULL()"];

export function randomMutation({ names }: PlainNetwork, draw: Draw): string {
  const one = <Item>(items: readonly Item[]): Item => items[draw(items.length)] as Item;
  if (draw(2) === 0)
    return `slice b from a mutate b.input = a["${one([...names, "conv*"])}"] and b.output = a["${one([...names, "fc*"])}"]`;
  const change = (): string =>
    draw(3) === 0
      ? `a["${one(selectors)}"].delete = ${one(targets)}`
      : `a["${one(selectors)}"]${one(["", "", ".prev"])}.insert = ${one(templates)}`;
  const where = draw(3) === 0 ? ` where a["${one(selectors)}"].next has ${one(targets)}` : "";
  return `construct b from a${where} mutate ${Array.from({ length: 1 + draw(2) }, change).join(" and ")}`;
}

/** The derived model, the reason why there is none, or undefined where the query does not find the network. */
export async function derive(
  { architecture, names }: PlainNetwork,
  text: string,
): Promise<DerivedModel | string | undefined> {
  const leaves = weightSlots(architecture).map(({ layer, name }) => `${names[layer] ?? ""}/${name}`);
  const source = {
    nearest: () => Promise.resolve(undefined),
    storedNetwork: () => Promise.resolve({ architecture, names: { leaves, layers: names } }),
    now: () => 0,
  } as unknown as QuerySource;
  const statement = parseQuery(text);
  assert.ok(statement.kind === "construct" || statement.kind === "slice");
  const row = { versionId: "", name: "net", version: 1, record: {} } as unknown as VersionRow;
  const run = new Run(source, { steps: 1e6, ms: 1000 });
  const [derivation] = await deriveModels([row], compileDerivation(statement, text), run);
  if (derivation === undefined) return undefined;
  return "reason" in derivation.result ? derivation.result.reason : derivation.result;
}

/** The model's tensors: those of the source, and drawn ones. */
export async function tensorsOf(
  model: DerivedModel,
  source: PlainNetwork,
  seed = "1",
): Promise<readonly Tensor[]> {
  const paths = weightSlots(source.architecture).map(({ path }) => path);
  const streams = new Streams(seed, 0);
  return await Promise.all(
    weightSlots(model.architecture).map(async (slot, at) => {
      const draw = model.drawers[at];
      if (draw === undefined) return source.tensors[paths.indexOf(model.inherited[at] ?? "")] as Tensor;
      return await initialTensor(draw, slot, { layerName: model.names[slot.layer] ?? "", streams });
    }),
  );
}

/** A layer that both have, with weights of the same shapes, has the source's; all others are drawn. */
export function checkInheritance(model: DerivedModel, { architecture, names }: PlainNetwork): void {
  const slots = weightSlots(architecture);
  for (const [at, slot] of weightSlots(model.architecture).entries()) {
    const layer = names.indexOf(model.names[slot.layer] ?? "");
    const own = slots.find((each) => each.layer === layer && each.weight === slot.weight);
    const shapesOf = (of: LeafLayer | undefined): string =>
      JSON.stringify(of?.weights.map(({ shape }) => shape));
    const isKept = shapesOf(architecture.layers[layer]) === shapesOf(model.architecture.layers[slot.layer]);
    assert.equal(model.inherited[at], isKept ? own?.path : undefined, model.names[slot.layer]);
  }
}

/** An array of numbers with its shape. */
export interface Numbers {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/** Runs a network on inputs; more outputs than the model's may be asked for. */
export function outputsOf(
  tf: TensorFlow,
  { architecture, tensors }: Pick<PlainNetwork, "architecture" | "tensors">,
  inputs: readonly Numbers[],
  outputs = architecture.outputs,
): readonly Numbers[] {
  const built = buildTrainable(tf, { ...architecture, outputs }, tensors);
  const found: Numbers[] = [];
  tf.tidy(() => {
    const given = inputs.map(({ shape, values }) => tf.tensor(values, [...shape]));
    const [first] = given;
    for (const tensor of built.forward((given.length === 1 ? first : given) as TfTensor, false))
      found.push({ shape: tensor.shape, values: Float32Array.from(tensor.dataSync<"float32">()) });
  });
  built.dispose();
  return found;
}

export function randomInputs({ layers }: Architecture, seed: number): readonly Numbers[] {
  const next = seededNumbers(seed);
  return layers
    .filter(({ className }) => className === "InputLayer")
    .map(({ config }) => {
      const sample = (config["batch_input_shape"] as readonly (number | null)[]).slice(1);
      const shape = [2, ...sample.map((extent) => extent ?? 3)];
      return { shape, values: Float32Array.from({ length: sizeOf(shape) }, () => next() - 0.4) };
    });
}
