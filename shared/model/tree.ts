/**
 * The Merkle tree over a model's leaves (RFC 6962, section 2.1, with Stemma's own leaf): hashes, order
 * of leaves, root. tree-diff.ts compares two trees; tree-object.ts has the stored form.
 */
import { StemmaError } from "../errors.js";
import { hashBytes, sha256, sha256OfSmall } from "../tensor/hash.js";
import { isWellFormedText } from "../tensor/strict-json.js";
import type { Hash } from "../tensor/tensor.js";
import type { LeafTable } from "./model.js";

export type ModelKind = "architecture" | "opaque";

/** Limits that hold wherever leaves come from outside. */
export const maxLeaves = 1_000_000;
export const maxPathBytes = 65_535;

const positional = /^(0|[1-9][0-9]{0,7})\/(0|[1-9][0-9]{0,7})$/;

export function leafPath(layer: number, weight: number): string {
  return `${layer}/${weight}`;
}

/** Indices of a positional path "layer/weight"; undefined for any other text. */
export function positionOf(path: string): { readonly layer: number; readonly weight: number } | undefined {
  const found = positional.exec(path);
  return found === null ? undefined : { layer: Number(found[1]), weight: Number(found[2]) };
}

/** A code unit's rank among code points: surrogates represent code points beyond U+FFFF. */
function rank(unit: number): number {
  return unit < 0xd800 ? unit : unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

/** Order of UTF-8 bytes, which is that of code points, not of JavaScript's code units. */
export function compareNames(a: string, b: string): number {
  if (a === b) return 0;
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i++) {
    const left = a.charCodeAt(i);
    const right = b.charCodeAt(i);
    if (left !== right) return rank(left) - rank(right);
  }
  return a.length - b.length;
}

/**
 * Canonical order of leaves: by layer and weight index; for kind `opaque` by the UTF-8 bytes of the names.
 */
export function comparePaths(kind: ModelKind, a: string, b: string): number {
  if (kind === "opaque") return compareNames(a, b);
  const left = positionOf(a);
  const right = positionOf(b);
  if (left === undefined || right === undefined)
    throw treeMalformed(
      `the path ${JSON.stringify(left === undefined ? a : b)} is not of the form "layer/weight"`,
    );
  return left.layer - right.layer || left.weight - right.weight;
}

export function treeMalformed(reason: string): StemmaError {
  return new StemmaError(
    "TREE_MALFORMED",
    `This is not a table of a model's leaves: ${reason}. Fetch it again from where it was saved.`,
  );
}

/**
 * Refuses leaves that are not in canonical order, occur twice, or have paths not of this kind.
 * @throws TREE_MALFORMED
 */
export function checkLeafOrder(kind: ModelKind, leaves: LeafTable): void {
  if (leaves.length > maxLeaves)
    throw treeMalformed(`it has ${leaves.length} leaves, more than ${maxLeaves}`);
  leaves.forEach((leaf, i) => {
    if (!isWellFormedText(leaf.path) || Buffer.byteLength(leaf.path) > maxPathBytes)
      throw treeMalformed(`the path of leaf ${i} is not a text of at most ${maxPathBytes} bytes`);
    if (kind === "architecture" && positionOf(leaf.path) === undefined)
      throw treeMalformed(`the path ${JSON.stringify(leaf.path)} is not of the form "layer/weight"`);
    const before = leaves[i - 1];
    if (before !== undefined && comparePaths(kind, before.path, leaf.path) >= 0)
      throw treeMalformed(`the leaf ${JSON.stringify(leaf.path)} occurs twice or is out of order`);
  });
}

/** One buffer for all small hashes, as each is finished before the next starts. */
const scratch = Buffer.alloc(4096);

/** H(0x00 ‖ path length ‖ path ‖ tensor id), the length as u32 little-endian. */
export function leafHash(path: string, tensor: Hash): Hash {
  const length = Buffer.byteLength(path);
  const bytes = length + 37 <= scratch.length ? scratch.subarray(0, length + 37) : Buffer.alloc(length + 37);
  bytes[0] = 0;
  bytes.writeUInt32LE(length, 1);
  bytes.write(path, 5, "utf8");
  bytes.write(tensor, 5 + length, "hex");
  return sha256OfSmall(bytes);
}

const nodeScratch = scratch.subarray(0, 65);
/** H(0x01 ‖ left ‖ right). */
export function nodeHash(left: Hash, right: Hash): Hash {
  nodeScratch[0] = 1;
  nodeScratch.write(left, 1, "hex");
  nodeScratch.write(right, 33, "hex");
  return sha256OfSmall(nodeScratch);
}

/** A node over the leaves `from` to before `to`; a leaf has no children. */
export interface TreeNode {
  readonly hash: Hash;
  readonly from: number;
  readonly to: number;
  readonly left?: TreeNode;
  readonly right?: TreeNode;
}

/** Largest power of two below `count` (RFC 6962: where n leaves are split). */
export function splitPoint(count: number): number {
  let k = 1;
  while (k * 2 < count) k *= 2;
  return k;
}

function nodeOver(hashes: readonly Hash[], from: number, to: number): TreeNode {
  if (to - from === 1) return { hash: hashes[from] as Hash, from, to };
  const middle = from + splitPoint(to - from);
  const left = nodeOver(hashes, from, middle);
  const right = nodeOver(hashes, middle, to);
  return { hash: nodeHash(left.hash, right.hash), from, to, left, right };
}

/**
 * Trees already built, because a save and a recovery need the tree of a table several times. Tables never
 * change.
 */
const knownTrees = new WeakMap<LeafTable, TreeNode>();

/** The tree over leaves in canonical order; undefined for a model without tensors, whose root is H(""). */
export function merkleTree(leaves: LeafTable): TreeNode | undefined {
  if (leaves.length === 0) return undefined;
  const tree =
    knownTrees.get(leaves) ??
    nodeOver(
      leaves.map((leaf) => leafHash(leaf.path, leaf.tensor)),
      0,
      leaves.length,
    );
  knownTrees.set(leaves, tree);
  return tree;
}

export const emptyRoot = sha256();
export function treeRoot(leaves: LeafTable): Hash {
  return merkleTree(leaves)?.hash ?? emptyRoot;
}

/** Content id: H("stemma-content-1\0" ‖ architecture hash ‖ root); `zeroHash` for kind `opaque` (MM8). */
export function contentId(architecture: Hash, root: Hash): Hash {
  return sha256("stemma-content-1\0", hashBytes(architecture), hashBytes(root));
}
