/**
 * Stores a tensor that was received coded: unchanged where the chain of its references stays short, else
 * decoded, as a keyframe. Re-encoding stored tensors is the planner's work.
 */
import { isStemmaError, type ErrorCode } from "../../shared/errors.js";
import type { ObjectReader, PackWriter } from "../../shared/objects/object-store.js";
import { sourceOfTensor, type Hash } from "../../shared/tensor/tensor.js";
import { decodeCoded, type ReceivedCoded } from "../../shared/wire/coding/decode-coded.js";
import type { TensorCoder } from "../../shared/wire/coding/tensor-coder.js";
import type { ReceivedObject } from "../../shared/wire/transfer/stream.js";

/**
 * Max tensors that have to be decoded before one that is stored as received: this bounds the cost of a recovery,
 * whatever devices send.
 */
export const keyframeDepth = 8;

/** Depth of a tensor that is coded against these: the number of tensors to decode before it. */
export function depthAgainst(
  objects: Pick<ObjectReader, "encodingOf">,
  references: readonly (Hash | undefined)[],
): number {
  const depths = references.map((id) => (id === undefined ? 0 : 1 + (objects.encodingOf(id)?.depth ?? 0)));
  return Math.max(0, ...depths);
}

/** Tensors that may wait to be decoded while further ones are read, and their bytes in all. */
const maxAhead = 512;
const maxAheadBytes = 32 * 1024 * 1024;

/**
 * Puts the tensors of a stream, a few coded ones being decoded at a time.
 * @throws as putCodedTensor and PackWriter.putTensor; nothing is under way any more then
 */
export async function putReceivedTensors(
  pack: PackWriter,
  objects: ObjectReader,
  coder: TensorCoder,
  stream: AsyncIterable<ReceivedObject>,
): Promise<void> {
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
      if (object.kind === "tensor") await pack.putTensor(object.source, object.ref.id);
      if (object.kind !== "coded") continue;
      const done = putCodedTensor(pack, objects, coder, object);
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
 * Either way the id is compared with the bytes that come out.
 * @throws OBJECT_HASH_MISMATCH; DELTA_MALFORMED, DELTA_REFERENCE_MISSING, DELTA_CODE_UNKNOWN;
 * REFERENCE_MISSING, OBJECT_MISSING where a reference is not here any more
 */
export async function putCodedTensor(
  pack: PackWriter,
  objects: ObjectReader,
  coder: TensorCoder,
  received: ReceivedCoded,
): Promise<void> {
  const {
    ref,
    header,
    encoding: { code, against, previous },
    bytes,
  } = received;
  if (objects.has(ref.id)) {
    await pack.putTensor(objects.openTensor(ref.id), ref.id);
    return;
  }
  if (depthAgainst(objects, [against, previous]) <= keyframeDepth) {
    await pack.putCoded({
      id: ref.id,
      header,
      code,
      bytes,
      ...(against && { base: against }),
      ...(previous && { previous }),
    });
    return;
  }
  await pack.putTensor(
    sourceOfTensor({
      dtype: header.dtype,
      shape: header.shape,
      bytes: await decodeCoded(objects, coder, received),
    }),
    ref.id,
  );
}

/** The tensors can be had raw: what they were coded against went, or is damaged here. */
const referenceLost = new Set<ErrorCode>([
  "REFERENCE_MISSING",
  "DELTA_REFERENCE_MISSING",
  "OBJECT_MISSING",
  "CHAIN_TOO_LONG",
  "CHAIN_CYCLIC",
]);
/** The stream is none that the codec made of these tensors. */
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
