/** A version's layers by their names, with the layers before and after each, as conditions look at them. Pure. */
import type { Architecture } from "../../../shared/model/model.js";

export interface LayerForm {
  readonly className: string;
  readonly config: Readonly<Record<string, unknown>>;
}

export interface NetworkLayer {
  readonly name: string;
  /** The layer itself; after it the one that a wrapper such as TimeDistributed holds. */
  readonly forms: readonly LayerForm[];
  /** Indices of the layers that it feeds, and of those that feed it. */
  readonly next: readonly number[];
  readonly prev: readonly number[];
}

export interface Network {
  readonly layers: readonly NetworkLayer[];
  /** Numbers in all weights. */
  readonly parameters: number;
}

/** @param names of the layers by their index; a layer without one is named by its index */
export function networkOf({ layers }: Architecture, names: readonly string[] = []): Network {
  const next = layers.map(() => new Set<number>());
  for (const [index, { inputs }] of layers.entries()) for (const { layer } of inputs) next[layer]?.add(index);
  let parameters = 0;
  for (const { weights } of layers)
    for (const { shape } of weights) parameters += shape.reduce((product, extent) => product * extent, 1);
  return {
    layers: layers.map(({ className, config, inputs }, index) => ({
      name: names[index] ?? String(index),
      forms: [{ className, config }, ...innerOf(config)],
      next: [...(next[index] ?? [])],
      prev: [...new Set(inputs.map(({ layer }) => layer))],
    })),
    parameters,
  };
}

function innerOf({ layer }: LayerForm["config"]): readonly LayerForm[] {
  const inner = layer as { readonly class_name?: string; readonly config?: LayerForm["config"] } | undefined;
  return inner?.class_name === undefined ? [] : [{ className: inner.class_name, config: inner.config ?? {} }];
}
