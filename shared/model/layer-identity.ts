/**
 * Computes identities of an architecture's layers, by which two models find the layers that they have in common. Equal
 * identities mean the same configuration after the same layers (EvoStore's longest common prefix, EV1), so that one
 * model may take over the other's weights. Identities are unique inside an architecture, so the common prefix of two is
 * the intersection of their identities. They are kept in caches only; the architecture's hash stays what it is.
 *
 * identity = H("stemma-layer-1\0" ‖ local ‖ inputs ‖ sharing ‖ order among twins):
 * - local: class, settings that decide what the layer computes (inherited-config.ts), names, types and shapes
 *   of the weights;
 * - inputs: identity and output of each predecessor, by input slot;
 * - sharing: a layer that is called several times is named by its first calls, so that shared weights are not
 *   mixed up with separate ones;
 * - order among twins: twins are layers of equal configuration after the same layers. Nothing before them tells
 *   them apart, and their order in the canonical list comes from the outputs, so another head could swap them
 *   and a child would inherit the wrong twin's weights. They are told apart by what is computed from them
 *   (`usesOf`): the nearest uses that differ are part of the identity. Where the head changes these uses, or no
 *   use differs, the order is not certain, and twin and successors stay outside every prefix.
 */
import { objectId, sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { encodeCanonical, type CanonicalValue } from "./canonical-json.js";
import { inheritedConfig } from "./inherited-config.js";
import { layerShapes } from "./layer-shapes.js";
import type { Architecture, LeafLayer } from "./model.js";

/** Number of the rules below: caches of identities that were computed by others are not used. */
export const layerIdentityForm = 3;

/** Uses farther away than this are not looked at. */
const maxUseDistance = 16;
/** Bounds the work for an architecture that consists of twins, or of shared layers, only. */
const maxUseHashes = 100_000;
const maxSharingSteps = 5_000_000;

interface Use {
  readonly consumer: number;
  readonly slot: number;
  readonly output: number;
}

/** An architecture as a graph of calls, with what the identities depend on. */
class LayerGraph {
  readonly layers: readonly LeafLayer[];
  readonly uses: readonly (readonly Use[])[];
  /** The outputs of the model that each layer gives. */
  readonly modelOutputs: readonly (readonly string[])[];
  /** Hash of each layer's class, settings and weights. */
  readonly local: readonly Hash[];
  /** Hash of each layer and everything before it, in which twins are equal. Does not depend on the head. */
  readonly cones: readonly Hash[];
  /** The layer that has the weights of each layer. */
  readonly instances: readonly number[];

  constructor({ layers, outputs }: Architecture) {
    this.layers = layers;
    this.instances = layers.map(({ sharedWith }, i) => sharedWith ?? i);
    const shapes = layerShapes({ layers, outputs });
    this.local = layers.map((layer, i) => {
      const shape = shapes[layer.inputs[0]?.layer ?? -1];
      const owner = layers[this.instances[i] as number] as LeafLayer;
      return localHash(layer, owner, shape && shape.length + 1);
    });
    const uses: Use[][] = layers.map(() => []);
    const cones: Hash[] = [];
    layers.forEach(({ inputs }, consumer) => {
      inputs.forEach(({ layer, output }, slot) => uses[layer]?.push({ consumer, slot, output }));
      cones.push(
        sha256(
          "stemma-layer-cone-1\0",
          this.local[consumer] as Hash,
          ...inputs.map(({ layer, output }) => `${cones[layer] as Hash}.${output}`),
        ),
      );
    });
    this.uses = uses;
    this.cones = cones;
    const modelOutputs: string[][] = layers.map(() => []);
    outputs.forEach(({ layer, output }, i) => modelOutputs[layer]?.push(`${i}.${output}`));
    this.modelOutputs = modelOutputs;
  }
}

function localHash(layer: LeafLayer, owner: LeafLayer, rank: number | undefined): Hash {
  const value: CanonicalValue = {
    className: layer.className,
    config: inheritedConfig(layer, rank),
    weights: owner.weights.map(({ name, dtype, shape }) => ({ name, dtype, shape })),
  };
  return objectId("layer-settings", encodeCanonical(value));
}

const noUses = sha256("stemma-layer-uses-1\0");

/** Hashes of what is computed from a layer, up to a distance. Equal where nothing tells two layers apart. */
class UseHashes {
  readonly #graph: LayerGraph;
  readonly #known = new Map<number, Hash>();
  #budget = maxUseHashes;

  constructor(graph: LayerGraph) {
    this.#graph = graph;
  }

  /** Returns the hash of a layer's use; undefined when the bound on the work is reached. */
  of(layer: number, distance: number): Hash | undefined {
    if (distance === 0) return noUses;
    const key = layer * (maxUseDistance + 1) + distance;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    if (this.#budget-- <= 0) return undefined;
    const { cones, uses, modelOutputs } = this.#graph;
    const texts: string[] = [...(modelOutputs[layer] as readonly string[])];
    for (const { consumer, slot, output } of uses[layer] as readonly Use[]) {
      const farther = this.of(consumer, distance - 1);
      if (farther === undefined) return undefined;
      texts.push(`${cones[consumer] as Hash}.${slot}.${output}.${farther}`);
    }
    const hash = sha256("stemma-layer-uses-1\0", texts.sort().join(" "));
    this.#known.set(key, hash);
    return hash;
  }
}

/** Returns what tells each twin from its siblings; undefined where nothing does. Layers without twins have "". */
function orderAmongTwins(graph: LayerGraph): readonly (string | undefined)[] {
  const groups = new Map<string, number[]>();
  graph.layers.forEach(({ inputs }, layer) => {
    const from = inputs.map((input) => `${input.layer}.${input.output}`);
    const key = `${graph.local[layer] as Hash} ${from.join(" ")}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [layer]);
    else group.push(layer);
  });
  const order: (string | undefined)[] = graph.layers.map(() => "");
  const calls = callCounts(graph);
  const useHashes = new UseHashes(graph);
  for (const twins of groups.values()) {
    if (twins.length === 1) continue;
    const isShared = twins.some((twin) => (calls.get(graph.instances[twin] as number) as number) > 1);
    for (const twin of twins) order[twin] = undefined;
    // Two inputs of one shape: which of them is which is stated by the order of the model's inputs, which a
    // head cannot change, but no use of them needs to differ. The first one is as an only one.
    if (graph.layers[twins[0] as number]?.className === "InputLayer")
      twins.forEach((twin, i) => (order[twin] = i === 0 ? "" : `input ${i}`));
    else if (!isShared) tellApart(twins, useHashes, order);
  }
  return order;
}

/** Sets `order` of each twin at the smallest distance at which its uses differ from those of all siblings. */
function tellApart(twins: readonly number[], useHashes: UseHashes, order: (string | undefined)[]): void {
  let untold = twins;
  for (let distance = 1; distance <= maxUseDistance && untold.length > 0; distance++) {
    const byHash = new Map<Hash, number[]>();
    for (const twin of twins) {
      const hash = useHashes.of(twin, distance);
      if (hash === undefined) return;
      const equal = byHash.get(hash);
      if (equal === undefined) byHash.set(hash, [twin]);
      else equal.push(twin);
    }
    untold = [];
    for (const [hash, equal] of byHash)
      if (equal.length > 1) untold = [...untold, ...equal];
      else for (const twin of equal) order[twin] ??= `${distance}.${hash}`;
  }
}

function callCounts({ instances }: LayerGraph): ReadonlyMap<number, number> {
  const counts = new Map<number, number>();
  for (const instance of instances) counts.set(instance, (counts.get(instance) ?? 0) + 1);
  return counts;
}

/**
 * Returns the first calls of each layer whose weights are called several times: those that no other call of
 * it precedes. Layers that are called once have themselves. Undefined where finding out would take too long.
 */
function firstCalls({ layers, instances }: LayerGraph): readonly (readonly number[] | undefined)[] {
  const calls = new Map<number, number[]>();
  instances.forEach((instance, layer) => {
    const known = calls.get(instance);
    if (known === undefined) calls.set(instance, [layer]);
    else known.push(layer);
  });
  const first: (readonly number[] | undefined)[] = layers.map(() => undefined);
  let steps = 0;
  for (const [instance, called] of calls) {
    if (called.length === 1) first[instance] = called;
    else {
      const start = called[0] as number;
      const end = called.at(-1) as number;
      steps += end - start;
      if (steps > maxSharingSteps) break;
      const isCall = new Set(called);
      const follows = new Uint8Array(end - start + 1);
      const found: number[] = [];
      for (let layer = start; layer <= end; layer++) {
        const { inputs } = layers[layer] as LeafLayer;
        const isAfterCall = inputs.some(
          (input) => input.layer >= start && follows[input.layer - start] === 1,
        );
        if (isCall.has(layer) && !isAfterCall) found.push(layer);
        follows[layer - start] = isAfterCall || isCall.has(layer) ? 1 : 0;
      }
      first[instance] = found;
    }
  }
  return first;
}

/** Identities that were computed, for as long as their architectures are in memory. */
const known = new WeakMap<Architecture, readonly (Hash | undefined)[]>();

/**
 * Identity of each layer of an architecture, by layer index; undefined where the order among twins is not
 * certain, and for every layer after such a one. Identities that are present are unique.
 */
export function layerIdentities(architecture: Architecture): readonly (Hash | undefined)[] {
  let identities = known.get(architecture);
  if (identities === undefined) known.set(architecture, (identities = computeIdentities(architecture)));
  return identities;
}

function computeIdentities(architecture: Architecture): readonly (Hash | undefined)[] {
  const graph = new LayerGraph(architecture);
  const { layers, instances } = graph;
  const order = orderAmongTwins(graph);
  const first = firstCalls(graph);
  const identities: (Hash | undefined)[] = layers.map(() => undefined);
  /** Hash of each layer whose inputs all have identities. */
  const ownHashes: (Hash | undefined)[] = layers.map(() => undefined);
  const openInputs = layers.map(({ inputs }) => new Set(inputs.map(({ layer }) => layer)).size);
  const openFirstCalls = first.map((calls) => calls?.length);
  const waiting = new Map<number, number[]>();
  const ready = layers.flatMap((_, layer) => (openInputs[layer] === 0 ? [layer] : []));

  const identify = (layer: number): void => {
    const calls = first[instances[layer] as number] as readonly number[];
    identities[layer] = sha256(
      "stemma-layer-1\0",
      ownHashes[layer] as Hash,
      ...calls.map((call) => ownHashes[call] as Hash).sort(),
    );
    for (const consumer of new Set((graph.uses[layer] as readonly Use[]).map((use) => use.consumer)))
      if (--(openInputs[consumer] as number) === 0) ready.push(consumer);
  };
  for (let layer = ready.pop(); layer !== undefined; layer = ready.pop()) {
    const instance = instances[layer] as number;
    const calls = first[instance];
    const orderText = order[layer];
    if (orderText === undefined || calls === undefined) continue;
    ownHashes[layer] = ownHash(graph, layer, { order: orderText, identities });
    const isFirstCall = calls.includes(layer);
    if (isFirstCall) openFirstCalls[instance] = (openFirstCalls[instance] as number) - 1;
    const held = waiting.get(instance) ?? [];
    held.push(layer);
    if (openFirstCalls[instance] === 0) {
      waiting.delete(instance);
      held.forEach(identify);
    } else waiting.set(instance, held);
  }
  return identities;
}

function ownHash(
  graph: LayerGraph,
  layer: number,
  known: { readonly order: string; readonly identities: readonly (Hash | undefined)[] },
): Hash {
  const { inputs } = graph.layers[layer] as LeafLayer;
  return sha256(
    "stemma-layer-call-1\0",
    graph.local[layer] as Hash,
    `${known.order} `,
    inputs.map((input) => `${known.identities[input.layer] as Hash}.${input.output}`).join(" "),
  );
}
