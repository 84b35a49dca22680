/** Decodes a received tensor against tensors of the store. */
import type { ObjectReader } from "../../objects/object-store.js";
import { tensorOfSource, type Hash, type Tensor } from "../../tensor/tensor.js";
import type { ReceivedObject } from "../transfer/stream.js";
import type { TensorCoder } from "./tensor-coder.js";

export type ReceivedCoded = Extract<ReceivedObject, { kind: "coded" }>;

/**
 * Returns the decoded bytes; the caller compares the id.
 * @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH for what it was coded against; DELTA_MALFORMED,
 * DELTA_REFERENCE_MISSING, DELTA_CODE_UNKNOWN
 */
export async function decodeCoded(
  objects: Pick<ObjectReader, "openTensor">,
  coder: TensorCoder,
  { ref, header, encoding: { code, against, previous }, bytes }: ReceivedCoded,
): Promise<Uint8Array> {
  const load = async (id: Hash | undefined): Promise<Tensor | undefined> =>
    id === undefined ? undefined : tensorOfSource(objects.openTensor(id));
  const base = await load(against);
  const previousTensor = await load(previous);
  return await coder.decode(header, { code, bytes }, { base, previous: previousTensor }, ref.byteLength);
}
