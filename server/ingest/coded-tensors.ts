/**
 * Stores a tensor that was received coded: unchanged where its chain of references stays short, otherwise
 * decoded, as a keyframe. The storage planner, not this module, re-encodes stored tensors.
 */
import { isStemmaError, type ErrorCode } from "../../shared/errors.js";
import type { ObjectReader, PackWriter } from "../../shared/objects/object-store.js";
import { sourceOfTensor, type Hash } from "../../shared/tensor/tensor.js";
import { decodeCoded, type ReceivedCoded } from "../../shared/wire/coding/decode-coded.js";
import type { TensorCoder } from "../../shared/wire/coding/tensor-coder.js";
import type { ReceivedObject } from "../../shared/wire/transfer/stream.js";

/**
 * Max tensors that have to be decoded before one that is stored as received. This bounds the cost of a
 * recovery, whatever devices send.
 */
export const keyframeDepth = 8;

/** Depth of a tensor with these references: how many tensors have to be decoded before it. */
export function depthAgainst(
  objects: Pick<ObjectReader, "encodingOf">,
  references: readonly (Hash | undefined)[],
): number {
  const depths = references.map((id) => (id === undefined ? 0 : 1 + (objects.encodingOf(id)?.depth ?? 0)));
  return Math.max(0, ...depths);
}

/** Max number and max total bytes of tensors that wait to be decoded while further ones are read. */
const maxAhead = 512;
const maxAheadBytes = 32 * 1024 * 1024;

/**
 * Puts the tensors of a stream into the pack. Several coded tensors are processed concurrently.
 * @throws what putCodedTensor and PackWriter.putTensor throw, after all started work has ended
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
 * Stores a coded tensor, unchanged or decoded. In both cases the decoded bytes are compared with the id.
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
