/** Decodes a received tensor against tensors that the receiver has. */
import { mapLinks } from "../../delta/links.js";
import type { Hash, Tensor } from "../../tensor/tensor.js";
import { linksOfEncoding } from "../encoding-links.js";
import type { ReceivedObject } from "../transfer/stream.js";
import type { TensorCoder } from "./tensor-coder.js";

export type ReceivedCoded = Extract<ReceivedObject, { kind: "coded" }>;

/**
 * Returns the decoded bytes; the caller compares the id.
 * @param load reads a tensor that it was coded against
 * @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH for what it was coded against; DELTA_MALFORMED,
 * DELTA_REFERENCE_MISSING, DELTA_CODE_UNKNOWN
 */
export async function decodeCoded(
  load: (id: Hash) => Promise<Tensor>,
  coder: TensorCoder,
  { ref, header, encoding, read }: ReceivedCoded,
): Promise<Uint8Array> {
  const references = await mapLinks(linksOfEncoding(encoding), load);
  const coded = { code: encoding.code, bytes: await read() };
  return await coder.decode(header, coded, references, ref.byteLength);
}
