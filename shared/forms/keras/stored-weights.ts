/**
 * Weights as files of Keras store them: by a layer's place in the model (`layers/dense_1/vars/0`, in .keras and
 * .weights.h5, keras/src/saving/saving_lib.py), or by lists of names (in .h5, keras/src/legacy/saving).
 */
import { isGroup, type Hdf5Dataset, type Hdf5Group } from "../hdf5/hdf5-file.js";

/** A tensor under the name that its file gives it. */
export interface StoredWeight extends Hdf5Dataset {
  readonly name: string;
}

export interface StoredWeights {
  readonly weights: readonly StoredWeight[];
  /** Tensors of the optimizer, of metrics and of random generators. */
  readonly otherCount: number;
}

/** Every dataset with its path, in the file's order. */
export function* datasetsOf(group: Hdf5Group, prefix = ""): Iterable<StoredWeight> {
  for (const [name, node] of group.children)
    if (isGroup(node)) yield* datasetsOf(node, `${prefix}${name}/`);
    else yield { ...node, name: prefix + name };
}

/** The weights of a file that stores them by place; undefined for another one. */
export function weightsByPlace(root: Hdf5Group): StoredWeights | undefined {
  const all = [...datasetsOf(root)];
  if (!all.some(({ name }) => /(^|\/)vars\/\d+$/.test(name))) return undefined;
  const weights = all.filter(({ name }) => !/^(optimizer|metrics)\/|(^|\/)seed_generator\//.test(name));
  return { weights, otherCount: all.length - weights.length };
}

/**
 * The weights of a file that lists their names; undefined for another one.
 * @param fail throws the caller's error
 */
export function weightsByName(root: Hdf5Group, fail: (reason: string) => never): StoredWeights | undefined {
  const inModel = root.children.get("model_weights");
  const top = isGroup(inModel) ? inModel : root;
  const layers = textsOf(top, "layer_names");
  if (layers === undefined) return undefined;
  const found: (StoredWeight & { readonly layer: string })[] = [];
  // Weights of the model itself, which no layer has, are in a group of this name.
  for (const layer of new Set([...layers, "top_level_model_weights"])) {
    const group = nodeAt(top, layer);
    if (group === undefined && layer === "top_level_model_weights") continue;
    if (!isGroup(group))
      return fail(`the weights of its layer ${JSON.stringify(layer.slice(0, 80))} are missing`);
    for (const name of textsOf(group, "weight_names") ?? []) {
      const weight = nodeAt(group, name);
      if (weight === undefined || isGroup(weight))
        return fail(`its weight ${JSON.stringify(name.slice(0, 80))} is missing`);
      found.push({ ...weight, layer, name: name.replace(/:0$/, "") });
    }
  }
  const isUnique = new Set(found.map(({ name }) => name)).size === found.length;
  const weights = found.map(({ layer, name, ...weight }) => ({
    ...weight,
    // A nested model's weights may have the names of those outside of it.
    name: isUnique || name.startsWith(`${layer}/`) ? name : `${layer}/${name}`,
  }));
  const optimizer = root.children.get("optimizer_weights");
  return { weights, otherCount: isGroup(optimizer) ? [...datasetsOf(optimizer)].length : 0 };
}

/** An attribute that Keras splits where it has more than 64 kB. */
function textsOf({ attributes }: Hdf5Group, name: string): readonly string[] | undefined {
  if (attributes.has(name)) return attributes.get(name);
  const pieces: string[] = [];
  for (let i = 0; attributes.has(`${name}${i}`); i++) pieces.push(...(attributes.get(`${name}${i}`) ?? []));
  return pieces.length === 0 ? undefined : pieces;
}

/** A node by a path, as h5py finds it. */
function nodeAt(group: Hdf5Group, path: string): Hdf5Group | Hdf5Dataset | undefined {
  let node: Hdf5Group | Hdf5Dataset | undefined = group;
  for (const name of path.split("/")) node = isGroup(node) ? node.children.get(name) : undefined;
  return node;
}
