/** Decodes a received tensor against tensors of the store. */
import { mapLinks } from "../../delta/links.js";
import type { ObjectReader } from "../../objects/object-store.js";
import { tensorOfSource } from "../../tensor/tensor.js";
import { linksOfEncoding } from "../encoding-links.js";
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
  { ref, header, encoding, bytes }: ReceivedCoded,
): Promise<Uint8Array> {
  const references = await mapLinks(linksOfEncoding(encoding), (id) =>
    tensorOfSource(objects.openTensor(id)),
  );
  return await coder.decode(header, { code: encoding.code, bytes }, references, ref.byteLength);
}
