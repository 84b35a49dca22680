/**
 * Stores a tensor that was received coded: unchanged where its chain of references stays short, otherwise
 * decoded, as a keyframe. The storage planner, not this module, re-encodes stored tensors.
 */
import { encodingCodes } from "../../../../shared/delta/encoded.js";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import type { ObjectReader, PackWriter } from "../../../../shared/objects/object-store.js";
import { codedMismatch, streamMismatch, tensorMismatch } from "../../../../shared/objects/object-errors.js";
import { objectHasher, tensorId, tensorIdOfSource } from "../../../../shared/tensor/hash.js";
import { sourceOfTensor, type Tensor } from "../../../../shared/tensor/tensor.js";
import type { ReceivedCoded } from "../../../../shared/wire/coding/decode-coded.js";
import type { TensorCoder } from "../../../../shared/wire/coding/tensor-coder.js";
import { linksOfEncoding, listEncodingReferences } from "../../../../shared/wire/encoding-links.js";
import type { ReceivedObject } from "../../../../shared/wire/transfer/stream.js";
import { EarlierTensors } from "./earlier-tensors.js";

/**
 * Max tensors that have to be decoded before one that is stored as received. This bounds the cost of a
 * recovery, whatever devices send.
 */
export const keyframeDepth = 8;
/**
 * The same for a tensor in mixed bits, which takes up to 8 seconds to decode: so no chain has more than three.
 */
export const mixedKeyframeDepth = 2;

/**
 * Max number and max total bytes of tensors that wait to be decoded while further ones are read. Each is there with
 * its coded bytes and its references.
 */
const maxAhead = 512;
const maxAheadBytes = 4 * 1024 * 1024;

/**
 * Puts the tensors and streamed objects of a transfer into the pack. Several coded tensors are processed
 * concurrently; a streamed object is never held whole.
 * @throws what putCodedTensor and PackWriter.putTensor throw, after all started work has ended
 */
export async function putReceivedTensors(
  pack: PackWriter,
  objects: ObjectReader,
  coder: TensorCoder,
  stream: AsyncIterable<ReceivedObject>,
): Promise<void> {
  const earlier = new EarlierTensors(objects, coder);
  const started: { readonly byteLength: number; readonly done: Promise<void> }[] = [];
  let ahead = 0;
  const finishFirst = async (): Promise<void> => {
    const first = started[0];
    await first?.done;
    started.shift();
    ahead -= first?.byteLength ?? 0;
  };
  try {
    for await (const object of stream) {
      if (object.kind === "tensor") {
        await putRawTensor(pack, objects, object);
        earlier.addRaw(object.ref.id, object.source);
      }
      if (object.kind === "stream") await putReceivedStream(pack, objects, object);
      if (object.kind !== "coded") continue;
      const done = putCodedTensor(pack, objects, earlier, object);
      done.catch(() => undefined); // Awaited below, in order.
      started.push({ byteLength: object.ref.byteLength, done });
      ahead += object.ref.byteLength;
      while (started.length > maxAhead || ahead > maxAheadBytes) await finishFirst();
    }
    while (started.length > 0) await finishFirst();
  } finally {
    await Promise.allSettled(started.map(({ done }) => done));
  }
}

/**
 * Stores a raw tensor. A pack writer does not look at the bytes of a tensor that the store has already, so
 * these are checked here: a device that does not have the tensor must not get its version recorded.
 * @throws OBJECT_HASH_MISMATCH
 */
async function putRawTensor(
  pack: PackWriter,
  objects: ObjectReader,
  { ref, source }: Extract<ReceivedObject, { kind: "tensor" }>,
): Promise<void> {
  await pack.putTensor(source, ref.id);
  // Asked afterwards, so that it also holds for a tensor that another upload stored meanwhile.
  if (!objects.has(ref.id)) return;
  const actual = await tensorIdOfSource(source);
  // The error of the pack writer: a device must not be able to tell what the store has.
  if (actual !== ref.id) throw tensorMismatch(ref.id, actual);
}

/** Stores a streamed object, compared with its id as in putRawTensor. @throws OBJECT_HASH_MISMATCH */
async function putReceivedStream(
  pack: PackWriter,
  objects: ObjectReader,
  { ref: { kind, id }, source }: Extract<ReceivedObject, { kind: "stream" }>,
): Promise<void> {
  await pack.putStream(kind, source, id);
  if (!objects.has(id)) return;
  const hasher = objectHasher(kind);
  for await (const piece of source.chunks()) hasher.update(piece);
  const actual = hasher.digest();
  if (actual !== id) throw streamMismatch(kind, id, actual);
}

/**
 * Stores a coded tensor, unchanged or decoded. In both cases the decoded bytes are compared with the id.
 * @throws OBJECT_HASH_MISMATCH; DELTA_MALFORMED, DELTA_REFERENCE_MISSING, DELTA_CODE_UNKNOWN;
 * REFERENCE_MISSING, OBJECT_MISSING where a reference is not here any more; CHAIN_TOO_LONG
 */
export async function putCodedTensor(
  pack: PackWriter,
  objects: ObjectReader,
  earlier: EarlierTensors,
  received: ReceivedCoded,
): Promise<void> {
  const { depth, ownDepth } = earlier.depthOf(received);
  const isMixed = received.encoding.code === encodingCodes.mixed;
  const isKeyframe = depth > (isMixed ? mixedKeyframeDepth : keyframeDepth);
  // Registered before anything is awaited, so that the next tensor of the stream finds it.
  const done = storeCoded(pack, { objects, earlier, isKeyframe }, received);
  earlier.addCoded(received, { depth: isKeyframe ? 0 : depth, ownDepth }, done);
  await done;
}

interface StoreCodedParts {
  readonly objects: ObjectReader;
  readonly earlier: EarlierTensors;
  readonly isKeyframe: boolean;
}

async function storeCoded(
  pack: PackWriter,
  { objects, earlier, isKeyframe }: StoreCodedParts,
  received: ReceivedCoded,
): Promise<void> {
  const {
    ref,
    header,
    encoding: { code, ...named },
    read,
  } = received;
  await earlier.settled(listEncodingReferences(named));
  const decode = async (): Promise<Tensor> => {
    const bytes = await earlier.decode(received);
    const actual = tensorId(header, bytes);
    if (actual !== ref.id) throw codedMismatch(ref.id, actual);
    return { dtype: header.dtype, shape: header.shape, bytes };
  };
  if (!isKeyframe) {
    const bytes = await read();
    await pack.putCoded({ id: ref.id, header, code, bytes, ...linksOfEncoding(named) });
    // As in putRawTensor: bytes of a tensor that is here already were not decoded.
    if (objects.has(ref.id)) await decode();
    return;
  }
  await pack.putTensor(sourceOfTensor(await decode()), ref.id);
}

/** Codes after which the same tensors are requested raw: a reference is missing or damaged here. */
const referenceLost = new Set<ErrorCode>([
  "REFERENCE_MISSING",
  "DELTA_REFERENCE_MISSING",
  "OBJECT_MISSING",
  "CHAIN_TOO_LONG",
  "CHAIN_CYCLIC",
]);
/** Codes after which the stream is useless: it does not decode to these tensors. */
const malformed = new Set<ErrorCode>([
  "DELTA_MALFORMED",
  "DELTA_CODE_UNKNOWN",
  "OBJECT_HASH_MISMATCH",
  "TENSOR_SIZE_MISMATCH",
  "TENSOR_TOO_LARGE",
  "PACK_FORMAT_UNKNOWN",
]);
export function isReferenceLost(error: unknown): boolean {
  return isStemmaError(error) && referenceLost.has(error.code);
}
export function isMalformedCoding(error: unknown): boolean {
  return isStemmaError(error) && malformed.has(error.code);
}
