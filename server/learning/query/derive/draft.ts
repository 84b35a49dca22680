/** A network while it is changed: layers that refer to those that feed them. */
import { StemmaError } from "../../../../shared/errors.js";
import type { Architecture, LeafLayer } from "../../../../shared/model/model.js";

export interface DraftReference {
  readonly node: DraftNode;
  readonly output: number;
}

/** One call of a layer. */
export interface DraftNode {
  readonly name: string;
  readonly className: string;
  readonly config: LeafLayer["config"];
  inputs: DraftReference[];
  /** The layer's index in the network that it comes from; undefined: it is new. */
  readonly origin: number | undefined;
}

export interface Draft {
  nodes: DraftNode[];
  outputs: DraftReference[];
}

/** A network with the names of its layers. */
export interface NamedNetwork {
  readonly architecture: Architecture;
  readonly names: readonly string[];
}

/** Layers that a network may have from which models are derived, and a derived one. */
const maxLayers = 5000;

/** @throws ARCHITECTURE_INVALID for a network of too many layers */
export function draftOf({ architecture: { layers, outputs }, names }: NamedNetwork): Draft {
  if (layers.length > maxLayers) throw notDerivable(`it has ${layers.length} layers, more than ${maxLayers}`);
  const nodes: DraftNode[] = [];
  const referenceTo = ({ layer, output }: LeafLayer["inputs"][number]): DraftReference => ({
    node: nodes[layer] as DraftNode,
    output,
  });
  for (const [origin, { className, config, inputs }] of layers.entries())
    nodes.push({ name: names[origin] ?? "", className, config, inputs: inputs.map(referenceTo), origin });
  return { nodes, outputs: outputs.map(referenceTo) };
}

/** @throws ARCHITECTURE_INVALID where there are too many */
export function addNode({ nodes }: Draft, node: DraftNode): void {
  if (nodes.length >= maxLayers) throw notDerivable(`it would have more than ${maxLayers} layers`);
  nodes.push(node);
}

/** A model that cannot be derived: the reason is reported, and others are derived all the same. */
export function notDerivable(reason: string): StemmaError<"ARCHITECTURE_INVALID"> {
  return new StemmaError("ARCHITECTURE_INVALID", reason);
}

/** A name of a layer in a reason: short, and of printable characters. */
export function shown(name: string): string {
  const printable = name.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, "?");
  return printable.length > 60 ? `${printable.slice(0, 60)}…` : printable;
}

/** The layers whose outputs carry a mask, which other layers of the catalog cannot pass on or be fed. */
export function maskedLayers({ layers }: Architecture): ReadonlySet<number> {
  const masked = new Set<number>();
  for (const [index, { className, config, inputs }] of layers.entries()) {
    const isSource = className === "Masking" || config["mask_zero"] === true;
    const isLast = recurrentClasses.has(className) && config["return_sequences"] !== true;
    if (isSource || (!isLast && inputs.some(({ layer }) => masked.has(layer)))) masked.add(index);
  }
  return masked;
}

const recurrentClasses = new Set(["SimpleRNN", "GRU", "LSTM"]);
