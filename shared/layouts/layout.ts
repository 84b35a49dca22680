/**
 * A layout: how the tensors of another tool's file and the weights of an architecture are made of each other. Each
 * weight is one of the file's tensors, with its axes in another order, or several after each other, or the sum of two;
 * what the architecture has no weight for is kept beside. Pure.
 */
import { errorOf } from "../errors.js";
import { decodeCanonical, encodeCanonical, type CanonicalValue } from "../model/canonical-json.js";
import { maxLeaves } from "../model/tree.js";
import { dtypeBits, isDType, tensorByteLength } from "../tensor/dtype.js";
import { isHash } from "../tensor/hash.js";
import type { Hash, TensorHeader } from "../tensor/tensor.js";
import { isAxisOrder, keepsOrder, type AxisOrder } from "./axis-order.js";

/** Name of the attachment that it is. */
export const layoutName = "stemma.layout";
/** The most bytes of it, with the tensors that are kept beside. */
export const maxLayoutBytes = 16 * 1024 * 1024;
/** A tensor whose axes are put in another order is in memory meanwhile. */
export const maxReorderedBytes = 256 * 1024 * 1024;
/** The most axes, blocks and parts. */
const maxAxes = 16;
const limits = { maxBytes: maxLayoutBytes, maxDepth: 6 };

/** A tensor of the file that is a weight of the architecture. */
export interface WeightTensor extends TensorHeader {
  readonly name: string;
  /** Index of the weight in canonical order. */
  readonly leaf: number;
  /** The order of axes that makes the weight of the tensor; absent: its elements stay where they are. */
  readonly order?: AxisOrder | undefined;
  /** The place of the tensor among several that are the weight after each other; absent: it is the whole. */
  readonly part?: WeightPart | undefined;
}

/** One of equal parts of a weight's bytes, such as each of the two biases of a GRU. */
export interface WeightPart {
  readonly at: number;
  readonly of: number;
}

/** A tensor of the file that the architecture has no weight for. */
export interface TensorBeside extends TensorHeader {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/**
 * One of two F32 tensors of the file whose sum is a weight, such as the two biases of PyTorch's LSTM. Both are kept as
 * the file has them. Where the weight was trained since, the one that is not `kept` is the difference (addends.ts).
 */
export interface Addend extends TensorBeside {
  readonly leaf: number;
  readonly addend: "kept" | "difference";
}

export type LayoutTensor = WeightTensor | Addend | TensorBeside;

export interface Layout {
  /** The tensors of the file, in its order. */
  readonly tensors: readonly LayoutTensor[];
  /** The file's own metadata. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** The root of the file's tensors, as of a model without an architecture. */
  readonly root: Hash;
}

const malformed = errorOf("MODEL_FILE_MALFORMED");

function invalid(reason: string): never {
  throw malformed(
    `The layout of the file that the model came from cannot be used: ${reason}. Recover the model as safetensors.`,
  );
}

export function isWeight(tensor: LayoutTensor): tensor is WeightTensor {
  return !("bytes" in tensor);
}

export function isAddend(tensor: LayoutTensor): tensor is Addend {
  return "addend" in tensor;
}

/**
 * The attachment's bytes: canonical JSON, of format 2 where it has blocks or parts.
 * @throws MODEL_FILE_MALFORMED where it is longer than is kept
 */
export function encodeLayout({ tensors, metadata, root }: Layout): Uint8Array {
  const value = {
    format: tensors.some(needsFormat2) ? 2 : 1,
    root,
    tensors: tensors.map((tensor) => {
      const { name, dtype, shape } = tensor;
      if (!isWeight(tensor))
        return {
          ...{ name, dtype, shape: [...shape], bytes: Buffer.from(tensor.bytes).toString("base64") },
          ...(isAddend(tensor) ? { leaf: tensor.leaf, addend: tensor.addend } : {}),
        };
      const { leaf, order, part } = tensor;
      const moved = order === undefined ? {} : { as: [...order.as], axes: [...order.axes] };
      return {
        ...{ name, dtype, shape: [...shape], leaf, ...moved },
        ...(order?.blocks === undefined ? {} : { blocks: [...order.blocks] }),
        ...(part === undefined ? {} : { part: [part.at, part.of] }),
      };
    }),
    ...(metadata === undefined ? {} : { metadata }),
  };
  const bytes = encodeCanonical(value, { ...limits, maxBytes: 2 ** 28 });
  return bytes.length <= maxLayoutBytes
    ? bytes
    : invalid(
        `it has ${bytes.length} bytes with the tensors beside the weights, more than ${maxLayoutBytes}`,
      );
}

/**
 * Reads a layout that may be hostile.
 * @param leaves the weights of the model that it is of
 * @throws MODEL_FILE_MALFORMED where it does not make each of them of one tensor, of the same size
 */
export function decodeLayout(given: Uint8Array, leaves: readonly TensorHeader[]): Layout {
  const { format, root, tensors, metadata, ...others } = objectOf(valueOf(given), "it");
  if ((format !== 1 && format !== 2) || Object.keys(others).length > 0)
    return invalid("its format is not 1 or 2");
  if (!isHash(root) || !Array.isArray(tensors) || tensors.length > maxLeaves)
    return invalid("it has no root, or no list of tensors");
  const read = tensors.map(tensorOf);
  if (format === 1 && read.some(needsFormat2)) return invalid("it has members that its format does not");
  checkLayout(read, leaves);
  return metadata === undefined
    ? { root, tensors: read }
    : { root, tensors: read, metadata: texts(metadata) };
}

/** True for a tensor with blocks or parts. */
function needsFormat2(tensor: LayoutTensor): boolean {
  return isWeight(tensor) && (tensor.part !== undefined || tensor.order?.blocks !== undefined);
}

/**
 * @throws MODEL_FILE_MALFORMED where the tensors are not the weights, each once
 * @internal Also what is derived here is checked.
 */
export function checkLayout(tensors: readonly LayoutTensor[], leaves: readonly TensorHeader[]): void {
  const names = new Set<string>();
  const made = new MadeWeights();
  for (const tensor of tensors) {
    if (names.has(tensor.name)) invalid(`it has the tensor ${shown(tensor.name)} twice`);
    names.add(tensor.name);
    if (!isWeight(tensor) && !isAddend(tensor)) continue;
    const leaf = leaves[tensor.leaf];
    if (leaf === undefined || !made.add(tensor))
      return invalid(`${shown(tensor.name)} is a weight that is not there, or is made of another tensor too`);
    checkWeight(tensor, leaf);
  }
  if (made.whole !== leaves.length)
    invalid(`it makes ${made.whole} of the architecture's ${leaves.length} weights`);
}

/** Counts the weights of which all tensors were seen: one, each of several parts, or both addends. */
class MadeWeights {
  whole = 0;
  /** The places of the tensors that were seen of each leaf, and how many it has. */
  readonly #seen = new Map<
    number,
    { readonly areAdded: boolean; readonly of: number; readonly places: Set<unknown> }
  >();

  /** @returns false for a tensor that its weight does not need beside those before it */
  add(tensor: WeightTensor | Addend): boolean {
    const areAdded = isAddend(tensor);
    const { at, of } = areAdded ? { at: tensor.addend, of: 2 } : (tensor.part ?? { at: 0, of: 1 });
    const seen = this.#seen.get(tensor.leaf) ?? { areAdded, of, places: new Set() };
    this.#seen.set(tensor.leaf, seen);
    if (seen.areAdded !== areAdded || seen.of !== of || seen.places.has(at)) return false;
    seen.places.add(at);
    if (seen.places.size === of) this.whole++;
    return true;
  }
}

function checkWeight(tensor: WeightTensor | Addend, leaf: TensorHeader): void {
  const { name, dtype, shape } = tensor;
  const byteLength = lengthOf({ name, dtype, shape });
  const part = isWeight(tensor) ? tensor.part : undefined;
  if (part !== undefined && !isPart(part)) invalid(`${shown(name)} is not a part of a weight`);
  const weightLength = tensorByteLength(leaf.dtype, leaf.shape);
  if (dtype !== leaf.dtype || byteLength * (part?.of ?? 1) !== weightLength)
    invalid(
      `${shown(name)} is ${dtype} [${shape.join(", ")}], its weight ${leaf.dtype} [${leaf.shape.join(", ")}]`,
    );
  if (!isWeight(tensor)) {
    if (dtype !== "F32") invalid(`${shown(name)} is ${dtype}, and only F32 tensors are added`);
    return;
  }
  const { order } = tensor;
  if (part !== undefined && weightLength > maxReorderedBytes)
    invalid(`${shown(name)} is a part of a weight of more than ${maxReorderedBytes} bytes`);
  if (order === undefined) return;
  if (!isAxisOrder(order) || lengthOf({ name, dtype, shape: order.as }) !== byteLength)
    invalid(`the axes of ${shown(name)} are not its own, each once`);
  if (dtypeBits(dtype) % 8 !== 0 || (byteLength > maxReorderedBytes && !keepsOrder(order)))
    invalid(`${shown(name)} has more than ${maxReorderedBytes} bytes to be put in another order`);
}

function isPart({ at, of }: WeightPart): boolean {
  return Number.isSafeInteger(of) && of >= 2 && of <= maxAxes && Number.isSafeInteger(at) && at < of;
}

function valueOf(given: Uint8Array): CanonicalValue {
  try {
    return decodeCanonical(given, limits);
  } catch {
    return invalid("it is not canonical JSON, or too long");
  }
}

type Members = Readonly<Record<string, unknown>>;

function objectOf(value: unknown, what: string): Members {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Members)
    : invalid(`${what} is not an object`);
}

function tensorOf(value: unknown): LayoutTensor {
  const { name, dtype, shape, leaf, as, axes, blocks, part, bytes, addend, ...others } = objectOf(
    value,
    "a tensor",
  );
  if (typeof name !== "string" || Object.keys(others).length > 0)
    return invalid("a tensor has no name, or unknown members");
  if (typeof dtype !== "string" || !isDType(dtype)) return invalid(`${shown(name)} has no type`);
  const header = { name, dtype, shape: counts(shape, name) };
  if (typeof bytes === "string") {
    const isOfWeight = [as, axes, blocks, part].some((member) => member !== undefined);
    if (isOfWeight || (leaf === undefined) !== (addend === undefined))
      return invalid(`${shown(name)} is a weight and beside them`);
    const beside = besideOf(header, bytes);
    if (leaf === undefined) return beside;
    if (!Number.isSafeInteger(leaf) || (addend !== "kept" && addend !== "difference"))
      return invalid(`${shown(name)} is not a part of a sum`);
    return { ...beside, leaf: leaf as number, addend };
  }
  if (bytes !== undefined || addend !== undefined || !Number.isSafeInteger(leaf))
    return invalid(`${shown(name)} is not a weight`);
  const weight = {
    ...header,
    leaf: leaf as number,
    ...(part === undefined ? {} : { part: partOf(part, name) }),
  };
  if (as === undefined && axes === undefined && blocks === undefined) return weight;
  const order = { as: counts(as, name), axes: counts(axes, name) };
  return {
    ...weight,
    order: blocks === undefined ? order : { ...order, blocks: counts(blocks, name) },
  };
}

function besideOf(header: TensorHeader & { readonly name: string }, text: string): TensorBeside {
  const bytes = new Uint8Array(Buffer.from(text, "base64"));
  if (Buffer.from(bytes).toString("base64") !== text || bytes.length !== lengthOf(header))
    return invalid(`${shown(header.name)} has not the bytes of its shape`);
  return { ...header, bytes };
}

/** @throws MODEL_FILE_MALFORMED for a shape that no tensor has */
function lengthOf({ name, dtype, shape }: TensorHeader & { readonly name: string }): number {
  try {
    return tensorByteLength(dtype, shape);
  } catch {
    return invalid(`${shown(name)} has a shape that no tensor has`);
  }
}

function partOf(value: unknown, name: string): WeightPart {
  const [at = 0, of = 0, ...more] = counts(value, name);
  return more.length === 0 ? { at, of } : invalid(`${shown(name)} is not a part of a weight`);
}

function counts(value: unknown, name: string): readonly number[] {
  const isList =
    Array.isArray(value) &&
    value.length <= maxAxes &&
    value.every((item) => Number.isSafeInteger(item) && (item as number) >= 0);
  return isList
    ? (value as readonly number[])
    : invalid(`${shown(name)} has a shape or axes that are no numbers`);
}

function texts(value: unknown): Readonly<Record<string, string>> {
  const members = objectOf(value, "its metadata");
  return Object.values(members).every((item) => typeof item === "string")
    ? (members as Readonly<Record<string, string>>)
    : invalid("its metadata are not all texts");
}

function shown(name: string): string {
  return JSON.stringify(name.slice(0, 80));
}
