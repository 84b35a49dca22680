/**
 * The tensors of a fleet's trees with their positions. A fleet has many trees, and most have the positions of another
 * one and most of its tensors; what they have in common is kept once. Pure.
 */
import { sha256 } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";

export interface ArchiveLeaf {
  readonly path: string;
  readonly name: string;
  readonly tensor: Hash;
}

/** The way to recognise a position in another tree: by path where the architectures agree, else by name. */
export type PositionKey = "path" | "name";

/** The positions of a tree, in its order. */
class Positions {
  readonly #indices = new Map<PositionKey, ReadonlyMap<string, number>>();
  constructor(
    readonly paths: readonly string[],
    readonly names: readonly string[],
  ) {}

  indexOf(text: string, key: PositionKey): number | undefined {
    let index = this.#indices.get(key);
    if (index === undefined) {
      const texts = key === "path" ? this.paths : this.names;
      index = new Map(texts.map((own, i) => [own, i]));
      this.#indices.set(key, index);
    }
    return index.get(text);
  }
}

/** The leaves of one tree. */
export class TreeLeaves implements Iterable<ArchiveLeaf> {
  constructor(
    private readonly positions: Positions,
    readonly tensors: readonly Hash[],
  ) {}

  *[Symbol.iterator](): Iterator<ArchiveLeaf> {
    const { paths, names } = this.positions;
    for (const [i, tensor] of this.tensors.entries()) yield { path: paths[i]!, name: names[i]!, tensor };
  }

  /** The tensor at the position that a leaf has in another tree. */
  at(leaf: ArchiveLeaf, key: PositionKey): Hash | undefined {
    const index = this.positions.indexOf(leaf[key], key);
    return index === undefined ? undefined : this.tensors[index];
  }
}

/** Makes the leaves of many trees, with one copy of equal positions and of equal tensor ids. */
export class TreeTable {
  readonly #positions = new Map<Hash, Positions>();
  readonly #tensors = new Map<Hash, Hash>();

  leavesOf(leaves: readonly ArchiveLeaf[]): TreeLeaves {
    const paths = leaves.map(({ path }) => path);
    const names = leaves.map(({ name }) => name);
    const key = sha256(JSON.stringify([paths, names]));
    let positions = this.#positions.get(key);
    if (positions === undefined) this.#positions.set(key, (positions = new Positions(paths, names)));
    return new TreeLeaves(
      positions,
      leaves.map(({ tensor }) => this.#one(tensor)),
    );
  }

  /** The first string with these digits: a string takes 80 bytes, a reference to one 8. */
  #one(tensor: Hash): Hash {
    const known = this.#tensors.get(tensor);
    if (known !== undefined) return known;
    this.#tensors.set(tensor, tensor);
    return tensor;
  }
}
