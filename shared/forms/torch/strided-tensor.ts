/** Views of storages as tensors whose elements stand in row-major order, exactly. */
import { dtypeBits, tensorByteLength } from "../../tensor/dtype.js";
import { readFully } from "../../tensor/safetensors-reader.js";
import type { FormTensor, OpenedPart } from "../form.js";
import type { StridedTensor } from "./pickle-values.js";

/** A tensor in another order is put in order in memory. */
const maxReorderedBytes = 256 * 1024 * 1024;

/**
 * @param start the position of the storage's first byte
 * @param fail throws the caller's error: continues "the tensor …"
 * @throws SHAPE_INVALID, TENSOR_TOO_LARGE
 */
export function formTensor(
  { part, reordered }: { readonly part: OpenedPart; readonly reordered: ReorderedTensor },
  start: number,
  { name, view }: { readonly name: string; readonly view: StridedTensor },
  fail: (reason: string) => never,
): FormTensor {
  const { storage, offset, shape } = view;
  const { dtype } = storage;
  const byteLength = tensorByteLength(dtype, shape);
  const elementBytes = dtypeBits(dtype) / 8;
  const elements = byteLength / elementBytes;
  if (elements > storage.elements) fail("has more elements than its storage, as an expanded one has");
  const last = shape.reduce((sum, extent, i) => sum + (extent - 1) * (view.strides[i] as number), offset);
  if (elements > 0 && last >= storage.elements) fail("reaches beyond the end of its storage");
  const where = `The storage ${storage.key}`;
  const from = start + offset * elementBytes;
  const common = { name, dtype, shape };
  if (elements === 0 || isInOrder(view))
    return { ...common, at: from, read: (target, at) => readFully(part.file, target, from + at, where) };
  if (byteLength > maxReorderedBytes) fail(`is not contiguous and has more than ${maxReorderedBytes} bytes`);
  const span = { from, byteLength: (last - offset + 1) * elementBytes, where };
  if (span.byteLength > maxReorderedBytes) fail(`is spread over more than ${maxReorderedBytes} bytes`);
  return {
    ...common,
    read: async (target, at) =>
      target.set((await reordered.inOrder(view, span)).subarray(at, at + target.length)),
  };
}

/** True where the elements stand one after the other; strides of dimensions of one element do not matter. */
function isInOrder({ shape, strides }: StridedTensor): boolean {
  let expected = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    const extent = shape[i] as number;
    if (extent !== 1 && strides[i] !== expected) return false;
    expected *= extent;
  }
  return true;
}

/** The bytes from a view's first to its last element. */
interface Span {
  readonly from: number;
  readonly byteLength: number;
  readonly where: string;
}

/** The tensor that was put in order last: it is read in pieces, and one at a time is in memory. */
export class ReorderedTensor {
  #view: StridedTensor | undefined;
  #ordered: Promise<Uint8Array> | undefined;

  constructor(private readonly part: OpenedPart) {}

  inOrder(view: StridedTensor, span: Span): Promise<Uint8Array> {
    if (this.#view !== view || this.#ordered === undefined) {
      this.#view = view;
      this.#ordered = this.#read(view, span);
    }
    return this.#ordered;
  }

  async #read(
    { storage, shape, strides }: StridedTensor,
    { from, byteLength, where }: Span,
  ): Promise<Uint8Array> {
    const bytes = new Uint8Array(byteLength);
    await readFully(this.part.file, bytes, from, where);
    return putInOrder(bytes, { shape, strides, elementBytes: dtypeBits(storage.dtype) / 8 });
  }
}

function putInOrder(
  bytes: Uint8Array,
  {
    shape,
    strides,
    elementBytes,
  }: {
    readonly shape: readonly number[];
    readonly strides: readonly number[];
    readonly elementBytes: number;
  },
): Uint8Array {
  const elements = shape.reduce((product, extent) => product * extent, 1);
  const ordered = new Uint8Array(elements * elementBytes);
  const index = shape.map(() => 0);
  let element = 0;
  for (let i = 0; i < elements; i++) {
    for (let b = 0; b < elementBytes; b++)
      ordered[i * elementBytes + b] = bytes[element * elementBytes + b] as number;
    for (let d = shape.length - 1; d >= 0; d--) {
      element += strides[d] as number;
      index[d] = (index[d] as number) + 1;
      if ((index[d] as number) < (shape[d] as number)) break;
      element -= (shape[d] as number) * (strides[d] as number);
      index[d] = 0;
    }
  }
  return ordered;
}
