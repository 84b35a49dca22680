/**
 * What differs between two models, found from their trees alone, never from tensors: equal subtrees
 * first, then the rest by tensor id, then by name (docs/formats.md, "Trees and models"). MM7 fixes its cost:
 * the last two of 8, 64, 128 leaves changed are found with 7, 13, 15 comparisons.
 */
import type { Hash } from "../tensor/tensor.js";
import { zeroHash } from "../tensor/hash.js";
import { hasSameHeader } from "../tensor/same-header.js";
import type { Leaf, LeafTable } from "./model.js";
import { merkleTree, type TreeNode } from "./tree.js";

export interface ModelSide {
  readonly leaves: LeafTable;
  /** Display name of each leaf; its path where absent. */
  readonly names?: readonly string[];
  /** Architecture hash, or `zeroHash`. */
  readonly architecture: Hash;
}

/**
 * `changed`: same place and shape, other bits. `renamed`: same tensor, other name. `moved`: same tensor,
 * other place. `reshaped`: other shape or dtype.
 */
export type ChangeKind = "changed" | "added" | "removed" | "renamed" | "moved" | "reshaped";

export interface Change {
  readonly kind: ChangeKind;
  /** In `a` (in `b` when added). */
  readonly path: string;
  readonly name: string;
  /** In `b`, where it differs. */
  readonly otherPath?: string;
  readonly otherName?: string;
  readonly a?: Leaf;
  readonly b?: Leaf;
}

export interface TreeDiff {
  readonly sameArchitecture: boolean;
  /** Node hashes compared. */
  readonly comparisons: number;
  /** In the order of `a`'s leaves, then what was added. */
  readonly changes: readonly Change[];
  /**
   * For each leaf of `b` the leaf of `a` that holds the same tensor and that it was matched with, or
   * undefined.
   */
  readonly kept: readonly (number | undefined)[];
}

interface Descent {
  comparisons: number;
  readonly onlyA: number[];
  readonly onlyB: number[];
  readonly same: [from: number, to: number][];
}

function all(node: TreeNode | undefined, into: number[]): void {
  if (node !== undefined) for (let i = node.from; i < node.to; i++) into.push(i);
}

/**
 * Descends where hashes differ. Trees of different size share the subtrees at their left (RFC 6962 splits at
 * powers of two).
 */
function descend(a: TreeNode, b: TreeNode, found: Descent): void {
  found.comparisons++;
  if (a.hash === b.hash) {
    found.same.push([a.from, a.to]);
    return;
  }
  const sizeA = a.to - a.from;
  const sizeB = b.to - b.from;
  if (sizeA === 1 && sizeB === 1) {
    found.onlyA.push(a.from);
    found.onlyB.push(b.from);
    return;
  }
  if (a.left !== undefined && a.left.to - a.left.from >= sizeB) {
    descend(a.left, b, found);
    all(a.right, found.onlyA);
    return;
  }
  if (b.left !== undefined && b.left.to - b.left.from >= sizeA) {
    descend(a, b.left, found);
    all(b.right, found.onlyB);
    return;
  }
  descend(a.left as TreeNode, b.left as TreeNode, found);
  descend(a.right as TreeNode, b.right as TreeNode, found);
}

/** Matches the two rests by key, first come first served; what is matched leaves them. */
function matchBy(
  onlyA: Set<number>,
  onlyB: Set<number>,
  keyA: (i: number) => string | undefined,
  keyB: (i: number) => string | undefined,
  pair: (a: number, b: number) => void,
): void {
  const waiting = new Map<string, number[]>();
  for (const b of onlyB) {
    const key = keyB(b);
    if (key === undefined) continue;
    const queue = waiting.get(key);
    if (queue === undefined) waiting.set(key, [b]);
    else queue.push(b);
  }
  for (const queue of waiting.values()) queue.reverse();
  for (const a of onlyA) {
    const key = keyA(a);
    const b = key === undefined ? undefined : waiting.get(key)?.pop();
    if (b === undefined) continue;
    onlyA.delete(a);
    onlyB.delete(b);
    pair(a, b);
  }
}

/** Which leaves differ and how. Pure; both sides in canonical order. */
export function diffTrees(a: ModelSide, b: ModelSide): TreeDiff {
  const treeA = merkleTree(a.leaves);
  const treeB = merkleTree(b.leaves);
  const found: Descent = { comparisons: 0, onlyA: [], onlyB: [], same: [] };
  if (treeA !== undefined && treeB !== undefined) descend(treeA, treeB, found);
  else {
    all(treeA, found.onlyA);
    all(treeB, found.onlyB);
  }

  const nameA = (i: number): string => a.names?.[i] ?? (a.leaves[i] as Leaf).path;
  const nameB = (i: number): string => b.names?.[i] ?? (b.leaves[i] as Leaf).path;
  const leafA = (i: number): Leaf => a.leaves[i] as Leaf;
  const leafB = (i: number): Leaf => b.leaves[i] as Leaf;
  const partner = new Map<number, number>();
  const kept: (number | undefined)[] = b.leaves.map(() => undefined);
  const keep = (i: number, j: number): void => {
    partner.set(i, j);
    kept[j] = i;
  };
  // Equal subtrees lie at the same place in both trees: the descent walks them in step.
  for (const [from, to] of found.same) for (let i = from; i < to; i++) keep(i, i);

  const onlyA = new Set(found.onlyA);
  const onlyB = new Set(found.onlyB);
  // Tensors that both rests hold: after a full fine-tune none, and three of the matchings need not look at
  // anything.
  const inB = new Set([...onlyB].map((j) => leafB(j).tensor));
  const inA = new Set([...onlyA].map((i) => leafA(i).tensor));
  const twoSided = (tensor: Hash, key: string): string | undefined =>
    inA.has(tensor) && inB.has(tensor) ? key : undefined;
  const byTensor = (keyOf: (leaf: Leaf, name: string) => string): void => {
    matchBy(
      onlyA,
      onlyB,
      (i) => twoSided(leafA(i).tensor, keyOf(leafA(i), nameA(i))),
      (j) => twoSided(leafB(j).tensor, keyOf(leafB(j), nameB(j))),
      keep,
    );
  };
  // A leaf without an architecture that an insertion shifted: same path, same tensor, other index.
  byTensor((leaf) => `${leaf.tensor} ${leaf.path}`);
  byTensor((leaf, name) => `${leaf.tensor} ${name}`);
  byTensor((leaf) => leaf.tensor);
  const sameArchitecture = a.architecture === b.architecture;
  const pair = (i: number, j: number): void => {
    partner.set(i, j);
  };
  // In one architecture a place is a place; names come from a process-wide counter and may lie.
  if (sameArchitecture)
    matchBy(
      onlyA,
      onlyB,
      (i) => leafA(i).path,
      (j) => leafB(j).path,
      pair,
    );
  matchBy(onlyA, onlyB, nameA, nameB, pair);
  matchBy(
    onlyA,
    onlyB,
    (i) => leafA(i).path,
    (j) => leafB(j).path,
    pair,
  );

  const changes: Change[] = [];
  for (let i = 0; i < a.leaves.length; i++) {
    const j = partner.get(i);
    if (j === undefined) changes.push({ kind: "removed", path: leafA(i).path, name: nameA(i), a: leafA(i) });
    else {
      const change = changeOf(
        leafA(i),
        nameA(i),
        leafB(j),
        nameB(j),
        a.architecture !== zeroHash || b.architecture !== zeroHash,
      );
      if (change !== undefined) changes.push(change);
    }
  }
  for (const j of [...onlyB].sort((x, y) => x - y))
    changes.push({ kind: "added", path: leafB(j).path, name: nameB(j), b: leafB(j) });
  return { sameArchitecture, comparisons: found.comparisons, changes, kept };
}

function changeOf(a: Leaf, nameA: string, b: Leaf, nameB: string, positional: boolean): Change | undefined {
  const others = {
    ...(a.path === b.path ? {} : { otherPath: b.path }),
    ...(nameA === nameB ? {} : { otherName: nameB }),
  };
  const change = (kind: ChangeKind): Change => ({ kind, path: a.path, name: nameA, ...others, a, b });
  if (a.tensor !== b.tensor) return change(hasSameHeader(a, b) ? "changed" : "reshaped");
  // Without an architecture the place is the name.
  if (a.path !== b.path) return change(positional ? "moved" : "renamed");
  return nameA === nameB ? undefined : change("renamed");
}
