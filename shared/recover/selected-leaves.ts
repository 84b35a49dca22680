/**
 * Selects the leaves of a model's layers that a caller names, by patterns in which `*` stands for any
 * characters and `?` for one. Pure.
 */
import { defined } from "../defined.js";
import { StemmaError } from "../errors.js";
import type { LeafTable, Names } from "../model/model.js";
import { positionOf } from "../model/tree.js";

/** The largest number of layers that an error names. */
const maxNamedLayers = 20;

/**
 * Indices of the leaves, ascending. A pattern selects a leaf if it matches the leaf's name, its path, or the name
 * of its layer: in a model with an architecture what the layer is called, else the tensor's name up to its last
 * dot or slash (`encoder.0` of `encoder.0.weight`).
 * @throws LAYER_NOT_FOUND for a pattern that selects nothing, naming layers that the model has
 */
export function selectLeaves(
  model: { readonly leaves: LeafTable; readonly names: Names },
  patterns: readonly string[],
): readonly number[] {
  const named = model.leaves.map(({ path }, leaf) => {
    const name = model.names.leaves[leaf] ?? path;
    return { layer: layerOf(path, name, model.names), texts: [name, path] };
  });
  const selected = new Set<number>();
  for (const pattern of patterns) {
    let found = 0;
    named.forEach(({ layer, texts }, leaf) => {
      if (![layer, ...texts].some((text) => matchesPattern(pattern, text))) return;
      selected.add(leaf);
      found++;
    });
    if (found > 0) continue;
    const layers = [...new Set(named.map(({ layer }) => layer))];
    const more = layers.length > maxNamedLayers ? `, and ${layers.length - maxNamedLayers} more` : "";
    throw new StemmaError(
      "LAYER_NOT_FOUND",
      `No layer or tensor is called ${JSON.stringify(pattern)}. The layers with tensors are ` +
        `${layers.slice(0, maxNamedLayers).join(", ")}${more}; * stands for any characters, ? for one.`,
      { pattern },
    );
  }
  return [...selected].sort((a, b) => a - b);
}

/** The names of some leaves of a model, in the model's file order; for a file of these tensors alone. */
export function namesOfSelected(names: Names, selected: readonly number[]): Names {
  const { fileHeader: _, fileOrder, fileMetadata, ...others } = names;
  const positions = new Map(selected.map((leaf, position) => [leaf, position]));
  return {
    ...others,
    leaves: selected.map((leaf) => names.leaves[leaf] as string),
    ...defined({ fileOrder: fileOrder?.flatMap((leaf) => positions.get(leaf) ?? []) }),
    // Whoever opens the file later sees that it is not the model.
    fileMetadata: { ...fileMetadata, "stemma.part": `${selected.length} of ${names.leaves.length} tensors` },
  };
}

function layerOf(path: string, name: string, { layers }: Names): string {
  const position = positionOf(path);
  const layer = position === undefined ? undefined : layers?.[position.layer];
  if (layer !== undefined) return layer;
  const end = Math.max(name.lastIndexOf("."), name.lastIndexOf("/"));
  return end > 0 ? name.slice(0, end) : name;
}

/** Takes time in proportion to both lengths at most, whatever the pattern: it comes from a client. */
function matchesPattern(pattern: string, text: string): boolean {
  let inPattern = 0;
  let inText = 0;
  let lastStar = -1;
  let afterStar = 0;
  while (inText < text.length) {
    const symbol = pattern[inPattern];
    if (symbol === "*") {
      lastStar = inPattern++;
      afterStar = inText;
    } else if (symbol === "?" || (symbol !== undefined && symbol === text[inText])) {
      inPattern++;
      inText++;
    } else if (lastStar >= 0) {
      // The last star takes one character more.
      inPattern = lastStar + 1;
      inText = ++afterStar;
    } else return false;
  }
  while (pattern[inPattern] === "*") inPattern++;
  return inPattern === pattern.length;
}
