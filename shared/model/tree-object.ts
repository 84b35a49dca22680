/**
 * Encodes a leaf table as a stored object (object kind "tree"). It is format u8 = 1 ‖ kind u8 ‖ count u32 ‖ leaves,
 * each path length u32 ‖ path ‖ dtype u8 ‖ rank u8 ‖ dimensions u64 ‖ tensor id. One table has one form.
 */
import { isUtf8 } from "node:buffer";
import { StemmaError } from "../errors.js";
import { dtypeCode, dtypeOfCode, maxRank, tensorByteLength } from "../tensor/dtype.js";
import type { Hash } from "../tensor/tensor.js";
import type { Leaf, LeafTable } from "./model.js";
import { checkLeafOrder, treeMalformed, maxLeaves, maxPathBytes, type ModelKind } from "./tree.js";

const headBytes = 6;
/** A leaf with an empty path and no dimensions. */
const smallestLeaf = 4 + 1 + 1 + 32;
const kinds: readonly ModelKind[] = ["opaque", "architecture"];

/** @throws TREE_MALFORMED for leaves out of canonical order, SHAPE_INVALID */
export function encodeTree(kind: ModelKind, leaves: LeafTable): Uint8Array {
  checkLeafOrder(kind, leaves);
  const head = Buffer.alloc(headBytes);
  head[0] = 1;
  head[1] = kinds.indexOf(kind);
  head.writeUInt32LE(leaves.length, 2);
  return new Uint8Array(Buffer.concat([head, ...leaves.map(encodeLeaf)]));
}

function encodeLeaf(leaf: Leaf): Buffer {
  tensorByteLength(leaf.dtype, leaf.shape);
  const path = Buffer.from(leaf.path, "utf8");
  const bytes = Buffer.alloc(4 + path.length + 2 + 8 * leaf.shape.length + 32);
  bytes.writeUInt32LE(path.length, 0);
  path.copy(bytes, 4);
  let at = 4 + path.length;
  bytes[at++] = dtypeCode(leaf.dtype);
  bytes[at++] = leaf.shape.length;
  for (const dimension of leaf.shape) {
    bytes.writeBigUInt64LE(BigInt(dimension), at);
    at += 8;
  }
  bytes.write(leaf.tensor, at, "hex");
  return bytes;
}

/** Returns how many leaves stored bytes declare, without reading them; 0 where they cannot be so many. */
export function declaredLeaves(bytes: Uint8Array): number {
  const count = bytes.length < headBytes ? 0 : Buffer.from(bytes.subarray(0, headBytes)).readUInt32LE(2);
  return count * smallestLeaf > bytes.length - headBytes ? 0 : count;
}

/**
 * Reads a stored leaf table; counts and lengths are checked before anything is allocated. @throws
 * TREE_MALFORMED, DTYPE_UNKNOWN, SHAPE_INVALID
 */
export function decodeTree(bytes: Uint8Array): { readonly kind: ModelKind; readonly leaves: LeafTable } {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  if (buffer.length < headBytes) throw treeMalformed("it ends inside its head");
  if (buffer[0] !== 1) throw treeMalformed(`its format is ${buffer[0]}, this Stemma knows 1`);
  const kind = kinds[buffer[1] as number];
  if (kind === undefined) throw treeMalformed(`its kind is ${buffer[1]}`);
  const count = buffer.readUInt32LE(2);
  if (count > maxLeaves || count * smallestLeaf > buffer.length - headBytes)
    throw treeMalformed(`it claims ${count} leaves in ${buffer.length} bytes`);
  const leaves: Leaf[] = [];
  let at = headBytes;
  for (let i = 0; i < count; i++) {
    const { leaf, next } = decodeLeaf(buffer, at, i);
    leaves.push(leaf);
    at = next;
  }
  if (at !== buffer.length) throw treeMalformed(`${buffer.length - at} bytes follow its last leaf`);
  checkLeafOrder(kind, leaves);
  return { kind, leaves };
}

function decodeLeaf(
  buffer: Buffer,
  start: number,
  index: number,
): { readonly leaf: Leaf; readonly next: number } {
  const need = (at: number, count: number): void => {
    if (at + count > buffer.length) throw treeMalformed(`it ends inside leaf ${index}`);
  };
  need(start, 4);
  const pathBytes = buffer.readUInt32LE(start);
  if (pathBytes > maxPathBytes) throw treeMalformed(`the path of leaf ${index} claims ${pathBytes} bytes`);
  let at = start + 4;
  need(at, pathBytes + 2);
  if (!isUtf8(buffer.subarray(at, at + pathBytes)))
    throw treeMalformed(`the path of leaf ${index} is not UTF-8`);
  const path = buffer.toString("utf8", at, at + pathBytes);
  at += pathBytes;
  const dtype = dtypeOfCode(buffer[at] as number);
  const rank = buffer[at + 1] as number;
  if (rank > maxRank) throw treeMalformed(`leaf ${index} claims ${rank} dimensions`);
  at += 2;
  need(at, 8 * rank + 32);
  const shape: number[] = [];
  for (let d = 0; d < rank; d++, at += 8) {
    const dimension = buffer.readBigUInt64LE(at);
    if (dimension > BigInt(Number.MAX_SAFE_INTEGER))
      throw new StemmaError(
        "SHAPE_INVALID",
        `Leaf ${index} claims a dimension of ${dimension}. Fetch the table again from where it was saved.`,
      );
    shape.push(Number(dimension));
  }
  tensorByteLength(dtype, shape);
  return { leaf: { path, dtype, shape, tensor: buffer.toString("hex", at, at + 32) as Hash }, next: at + 32 };
}
