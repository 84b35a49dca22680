/**
 * What a received stream may say about its coded tensors, checked before a byte of them is taken.
 * Pure; knows no store and no codec but its codes.
 */
import { encodingCodes } from "../../delta/encoded.js";
import { StemmaError } from "../../errors.js";
import type { Hash } from "../../tensor/tensor.js";
import { maxWireCodedTensorBytes } from "../limits.js";
import type { Encoding } from "../messages.js";

/** Newest format of tensor coding that this program codes and decodes: the codes 0 to 5 of shared/delta. */
export const codecFormat = 1;
/**
 * Codes of that format. Fixed planes (6) are of the store alone: who speaks this format would refuse them.
 */
const wireCodes: ReadonlySet<number> = new Set([
  encodingCodes.raw,
  encodingCodes.equal,
  encodingCodes.packed,
  encodingCodes.close,
  encodingCodes.planes,
  encodingCodes.parts,
]);

/** Most bytes that an encoding of so many raw ones may take: the codec never exceeds that. */
export function maxEncodedBytes(rawBytes: number): number {
  return rawBytes + Math.ceil(rawBytes / 1000);
}

/** What the receiver of a stream allowed when it asked for it. */
export interface AllowedCoding {
  /** 0: raw only. */
  readonly codec: number;
  /** Tensors that others may be coded against. */
  readonly tensors: ReadonlySet<Hash>;
}
export const rawOnly: AllowedCoding = { codec: 0, tensors: new Set() };

/**
 * @throws TRANSFER_MANIFEST_INVALID, DELTA_CODE_UNKNOWN for an encoding that was not allowed, or that no
 * tensor of `rawBytes` can have
 */
export function checkEncoding(
  { code, byteLength, against, previous }: Encoding,
  index: number,
  rawBytes: number,
  allowed: AllowedCoding,
): void {
  const invalid = (why: string): StemmaError =>
    new StemmaError(
      "TRANSFER_MANIFEST_INVALID",
      `The manifest codes tensor ${index} of a transfer ${why}. The transfer ends; announce the version again, and update the sender if this stays.`,
      { index, code },
    );
  if (code === encodingCodes.raw) {
    if (byteLength !== rawBytes) throw invalid(`raw in ${byteLength} bytes where it has ${rawBytes}`);
    if (against !== undefined || previous !== undefined) throw invalid("raw and against another");
    return;
  }
  if (allowed.codec < codecFormat) throw invalid(`by code ${code} where only raw ones were asked for`);
  if (!wireCodes.has(code))
    throw new StemmaError(
      "DELTA_CODE_UNKNOWN",
      `The manifest codes tensor ${index} of a transfer by code ${code}, which this program does not know. Update it, or send the tensor raw.`,
      { index, code },
    );
  if (rawBytes > maxWireCodedTensorBytes)
    throw invalid(
      `although its ${rawBytes} bytes are more than the ${maxWireCodedTensorBytes} that are decoded at once`,
    );
  if (byteLength > maxEncodedBytes(rawBytes))
    throw invalid(`in ${byteLength} bytes where raw it has ${rawBytes}`);
  if (code === encodingCodes.equal && (byteLength > 0 || against === undefined))
    throw invalid("as equal to another, and gives bytes for it or names none");
  if (previous !== undefined && against === undefined)
    throw invalid("against a base's predecessor and no base");
  for (const reference of [against, previous])
    if (reference !== undefined && !allowed.tensors.has(reference))
      throw invalid(`against the tensor ${reference.slice(0, 12)}, which is none of those allowed for it`);
}
