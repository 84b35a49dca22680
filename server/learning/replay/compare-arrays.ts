/**
 * Compares the arrays of two states of a training after the same step, and says of which layers they differ, in the
 * order of the backward pass: the last layer first. Pure.
 */
import { weightSlots } from "../../../shared/model/architecture.js";
import type { Architecture } from "../../../shared/model/model.js";
import type { StateAfter } from "../../../shared/determinism/probe/state-after-job.js";
import { counted, printable } from "../../../shared/printable.js";
import { answeredHash, type AnsweredState } from "../../../shared/wire/kept-states.js";

export interface ComparedArrays {
  /** All arrays of the state, and those that differ: weights, those of the best epoch, the optimizer's. */
  readonly of: number;
  readonly differing: number;
  /** Layers with weights that differ, or with arrays of the optimizer; the last of the model first. */
  readonly layers: readonly DifferingLayer[];
}

export interface DifferingLayer {
  /** The place in the architecture, as a probe names it: "layer 2 (Dense)". */
  readonly layer: string;
  /** Names of its weights, or of the weights whose arrays of the optimizer differ. */
  readonly weights: readonly string[];
}

/** Layers that are named, and weights of each; of those beyond, the number is told. */
const maxNamed = 4;

/** @returns undefined where the device has not as many arrays as this server, or they are not of this architecture */
export function compareArrays(
  architecture: Architecture,
  { arrays }: Pick<StateAfter, "arrays">,
  { hashes }: Pick<AnsweredState, "hashes">,
): ComparedArrays | undefined {
  if (hashes.length !== arrays.length) return undefined;
  const differing = arrays.filter(({ hash }, at) => answeredHash(hash) !== hashes[at]);
  const paths = new Set(differing.map(({ name }) => pathOf(name)));
  const slots = weightSlots(architecture).filter(({ path }) => paths.has(path));
  if (slots.length !== paths.size) return undefined;
  const layers = [...new Set(slots.map(({ layer }) => layer))].reverse().map((layer) => ({
    layer: `layer ${layer} (${architecture.layers[layer]?.className})`,
    weights: slots.filter((slot) => slot.layer === layer).map(({ name }) => name),
  }));
  return { of: arrays.length, differing: differing.length, layers };
}

/** The path of the weight that an array belongs to: "weight/PATH", "best/PATH", "slot/NAME/PATH". */
function pathOf(name: string): string {
  const parts = name.split("/");
  return parts.slice(parts[0] === "slot" ? 2 : 1).join("/");
}

/** "2 of 12 arrays of weights and optimizer differ, last first: layer 2 (Dense): kernel, bias" */
export function describeArrays({ of, differing, layers }: ComparedArrays): string {
  if (differing === 0)
    return "no array of weights or optimizer differs, but another part of the state, such as the place in the data";
  const names = layers.slice(0, maxNamed).map(({ layer, weights }) => {
    const others = weights.length > maxNamed ? ` and ${weights.length - maxNamed} more` : "";
    return `${layer}: ${weights.slice(0, maxNamed).map(short).join(", ")}${others}`;
  });
  const more =
    layers.length > maxNamed ? `; and ${counted(layers.length - maxNamed, "layer")} before these` : "";
  return `${differing} of ${of} arrays of weights and optimizer differ, last first: ${names.join("; ")}${more}`;
}

const short = (text: string): string => printable(text.slice(0, 60));
