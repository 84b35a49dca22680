/**
 * The entries in which the objects of a bundle travel (docs/formats.md, "Bundle"): a length (u16, little-endian), that
 * many bytes of JSON, then the object's bytes. A length of 0 ends them, so that a cut is seen.
 */
import * as z from "zod";
import { defined } from "../../../shared/defined.js";
import { linksTo, listReferences, maxReferences, type Links } from "../../../shared/delta/links.js";
import { maxRank, maxTensorBytes, tensorByteLength, dtypes } from "../../../shared/tensor/dtype.js";
import type { Hash, TensorHeader } from "../../../shared/tensor/tensor.js";
import { hash } from "../../interface/api/fields.js";
import { bundleKinds, type BundleKind } from "../../interface/api/models/bundle-schemas.js";
import { bundleCut, bundleInvalid } from "./hub-errors.js";

/** Bytes of an entry's JSON, at most. */
export const maxHeaderBytes = 4096;
/** Larger objects that do not stream are refused: they are read whole. */
export const maxWholeBytes = 64 * 1024 * 1024;
/** Longer tensors are sent as they are: a coded one is decoded in memory. */
export const maxDecodedBytes = 256 * 1024 * 1024;
/** Length of the pieces of a streamed object, at most. */
const maxPieceBytes = 4 * 1024 * 1024;

export interface EntryHeader extends Links<Hash> {
  readonly id: Hash;
  readonly kind: BundleKind;
  /** Bytes of the entry's object as it is sent; those after `offset` follow. */
  readonly bytes: number;
  /** Number of first bytes that the receiver has of an earlier try; absent: 0. */
  readonly offset?: number;
  /** Type and shape of a tensor. */
  readonly tensor?: TensorHeader;
  /** Encoding of a coded tensor (docs/codec.md); absent: its bytes as they are. */
  readonly code?: number;
}

const headerSchema = z.strictObject({
  id: hash,
  kind: z.enum(bundleKinds),
  bytes: z.number().int().min(0).max(maxTensorBytes),
  offset: z.number().int().min(1).max(maxTensorBytes).optional(),
  dtype: z.enum(dtypes).optional(),
  shape: z.array(z.number().int().min(0).max(maxTensorBytes)).max(maxRank).optional(),
  code: z.number().int().min(1).max(255).optional(),
  references: z.array(hash).max(maxReferences).optional(),
});

export function encodeHeader({ id, kind, bytes, offset, tensor, code, ...links }: EntryHeader): Uint8Array {
  const references = listReferences(links);
  const json = Buffer.from(
    JSON.stringify({
      id,
      kind,
      bytes,
      ...tensor,
      ...defined({ offset, code, references: references.length === 0 ? undefined : references }),
    }),
  );
  const framed = Buffer.alloc(2 + json.length);
  framed.writeUInt16LE(json.length, 0);
  json.copy(framed, 2);
  return framed;
}

export const entriesEnd: Uint8Array = new Uint8Array(2);

/** @throws BUNDLE_INVALID */
export function decodeHeader(json: Uint8Array): EntryHeader {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(json).toString("utf8"));
  } catch (cause) {
    throw bundleInvalid("an entry's header is not JSON", cause);
  }
  const parsed = headerSchema.safeParse(value);
  if (!parsed.success)
    throw bundleInvalid("an entry's header is not of the form that it must have", parsed.error);
  const { id, kind, bytes, offset, dtype, shape, code, references = [] } = parsed.data;
  const tensor = dtype === undefined || shape === undefined ? undefined : { dtype, shape };
  const isTensor = kind === "tensor";
  if (isTensor !== (tensor !== undefined) || (!isTensor && (code !== undefined || references.length > 0)))
    throw bundleInvalid(`the entry ${id.slice(0, 12)} has members of another kind`);
  if (tensor !== undefined) checkTensor({ id, bytes, tensor, code, references });
  if (!isTensor && kind !== "data" && kind !== "recipe" && bytes > maxWholeBytes)
    throw bundleInvalid(`the entry ${id.slice(0, 12)} has more than ${maxWholeBytes} bytes`);
  if (offset !== undefined && offset > bytes)
    throw bundleInvalid(`the entry ${id.slice(0, 12)} begins after its end`);
  return { id, kind, bytes, ...defined({ offset, tensor, code }), ...linksTo(references) };
}

/** True if both are the same bytes of the same object, so that one can go on where the other was cut. */
export function isSameEntry(
  a: Omit<EntryHeader, "kind" | "tensor">,
  b: Omit<EntryHeader, "kind" | "tensor">,
): boolean {
  const idOf = ({ id, bytes, code, ...links }: Omit<EntryHeader, "kind" | "tensor">): string =>
    JSON.stringify([id, bytes, code, listReferences(links)]);
  return idOf(a) === idOf(b);
}

function checkTensor({
  id,
  bytes,
  tensor,
  code,
  references,
}: {
  readonly id: Hash;
  readonly bytes: number;
  readonly tensor: TensorHeader;
  readonly code: number | undefined;
  readonly references: readonly Hash[];
}): void {
  const decoded = tensorByteLength(tensor.dtype, tensor.shape);
  const isFitting =
    code === undefined
      ? bytes === decoded && references.length === 0
      : bytes <= maxWholeBytes && decoded <= maxDecodedBytes;
  if (!isFitting) throw bundleInvalid(`the tensor ${id.slice(0, 12)} has not the bytes that its shape needs`);
}

/** Reads bytes as they come: first so many, then pieces. */
export class ByteReader {
  readonly #pieces: AsyncIterator<Uint8Array>;
  #unread: Buffer = Buffer.alloc(0);

  constructor(pieces: AsyncIterable<Uint8Array>) {
    this.#pieces = pieces[Symbol.asyncIterator]();
  }

  /** @throws BUNDLE_INVALID where the bytes end before */
  async take(count: number): Promise<Buffer> {
    const taken = Buffer.alloc(count);
    let filled = 0;
    for await (const piece of this.pieces(count)) {
      taken.set(piece, filled);
      filled += piece.length;
    }
    return taken;
  }

  async *pieces(count: number): AsyncGenerator<Uint8Array> {
    let left = count;
    while (left > 0) {
      if (this.#unread.length === 0) {
        const next = await this.#pieces.next();
        if (next.done === true) throw bundleCut(left);
        this.#unread = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength);
        continue;
      }
      const piece = this.#unread.subarray(0, Math.min(left, maxPieceBytes));
      this.#unread = this.#unread.subarray(piece.length);
      left -= piece.length;
      yield piece;
    }
  }

  /** The bytes that were not taken. */
  async *rest(): AsyncGenerator<Uint8Array> {
    if (this.#unread.length > 0) yield this.#unread;
    for (;;) {
      const next = await this.#pieces.next();
      if (next.done === true) return;
      yield next.value;
    }
  }
}

/** The next entry's header; undefined at the end. @throws BUNDLE_INVALID */
export async function nextHeader(reader: ByteReader): Promise<EntryHeader | undefined> {
  const length = (await reader.take(2)).readUInt16LE(0);
  if (length === 0) return undefined;
  if (length > maxHeaderBytes) throw bundleInvalid(`an entry's header has ${length} bytes`);
  return decodeHeader(await reader.take(length));
}
