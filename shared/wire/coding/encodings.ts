/**
 * Checks the encodings that a received stream declares, before any of its bytes is accepted. Pure; knows no
 * store, and of the codec only its codes.
 */
import { encodingCodes, type EncodeOptions } from "../../delta/encoded.js";
import { StemmaError } from "../../errors.js";
import type { Hash } from "../../tensor/tensor.js";
import { listEncodingReferences } from "../encoding-links.js";
import { maxWireCodedTensorBytes, maxWireMixedBytes } from "../limits.js";
import type { Encoding } from "../messages.js";

/**
 * Formats of tensor coding: the first has the encoding codes 0 to 5 of shared/delta, the second also low-rank
 * predictions (7) and a general coder's streams (8), the third mixed bits (9) and
 * derived tensors (10). Fixed planes (6) are for stores only.
 */
export const firstCodecFormat = 1;
const lowRankFormat = 2;
const mixedFormat = 3;
/** Newest format that this program supports. */
export const codecFormat = 3;

/** The encodings that a format allows. */
export function encodeOptionsOf(format: number): EncodeOptions {
  return {
    lowRank: format >= lowRankFormat,
    general: format >= lowRankFormat,
    mixed: format >= mixedFormat,
    derived: format >= mixedFormat,
  };
}

/** First format that has an encoding code. */
const formatOfCode: ReadonlyMap<number, number> = new Map([
  [encodingCodes.raw, firstCodecFormat],
  [encodingCodes.equal, firstCodecFormat],
  [encodingCodes.packed, firstCodecFormat],
  [encodingCodes.rans, firstCodecFormat],
  [encodingCodes.planes, firstCodecFormat],
  [encodingCodes.parts, firstCodecFormat],
  [encodingCodes.lowRank, lowRankFormat],
  [encodingCodes.general, lowRankFormat],
  [encodingCodes.mixed, mixedFormat],
  [encodingCodes.derived, mixedFormat],
]);

/** Max bytes of an encoding of `rawBytes` bytes: the codec never exceeds them. */
export function maxEncodedBytes(rawBytes: number): number {
  return rawBytes + Math.ceil(rawBytes / 1000);
}

/** The coding that the receiver of a stream allowed when it asked for it. */
export interface AllowedCoding {
  /** Newest format of tensor coding. 0: raw only. */
  readonly codec: number;
  /** Tensors that others may be coded against. */
  readonly tensors: ReadonlySet<Hash>;
  /**
   * Tensors of the stream, with their positions in it: one may be coded against one that comes before it. Absent:
   * against none.
   */
  readonly own?: ReadonlyMap<Hash, number> | undefined;
  /** The tensors that the transfer has declared in mixed bits so far; absent: its tensors are checked one by one. */
  readonly mixed?: MixedTensors | undefined;
}

/** The tensors of one transfer in mixed bits: bounds how long a sender can keep the receiver decoding. */
export class MixedTensors {
  readonly #byteLengths = new Map<number, number>();
  readonly #referenced = new Set<number>();

  /**
   * Parts of a manifest arrive in any order, and some of them twice.
   * @param references positions of those tensors of the transfer that this one is coded against
   * @returns why the transfer must end; undefined: it may go on
   */
  add(index: number, { isMixed, rawBytes, references }: DeclaredTensor): string | undefined {
    for (const reference of references) this.#referenced.add(reference);
    if (isMixed) this.#byteLengths.set(index, rawBytes);
    // It would be decoded again for each tensor that is coded against it.
    if ([index, ...references].some((each) => this.#byteLengths.has(each) && this.#referenced.has(each)))
      return "coded against a tensor in mixed bits of the same transfer, or in mixed bits and used so by another";
    let total = 0;
    for (const byteLength of this.#byteLengths.values()) total += byteLength;
    return total > maxWireMixedBytes
      ? `in mixed bits, with which these take ${total} bytes where at most ${maxWireMixedBytes} are allowed`
      : undefined;
  }
}

interface DeclaredTensor {
  readonly isMixed: boolean;
  readonly rawBytes: number;
  readonly references: readonly number[];
}

export const rawOnly: AllowedCoding = { codec: 0, tensors: new Set() };

/**
 * @throws TRANSFER_MANIFEST_INVALID, DELTA_CODE_UNKNOWN for an encoding that was not allowed, or that no
 * tensor of `rawBytes` can have
 */
export function checkEncoding(
  { code, byteLength, ...named }: Encoding,
  index: number,
  rawBytes: number,
  allowed: AllowedCoding,
): void {
  const invalid = (why: string): StemmaError =>
    new StemmaError(
      "TRANSFER_MANIFEST_INVALID",
      `The manifest of a transfer declares tensor ${index} ${why}. The transfer ends; announce the version again, and update the sender if this happens again.`,
      { index, code },
    );
  const { against, previous, references = [] } = named;
  const all = listEncodingReferences(named);
  if (code === encodingCodes.raw) {
    if (byteLength !== rawBytes) throw invalid(`as ${byteLength} raw bytes where it has ${rawBytes}`);
    if (all.length > 0) throw invalid("as raw and coded against another");
    return;
  }
  if (allowed.codec < firstCodecFormat)
    throw invalid(`with the encoding code ${code} where only raw tensors were requested`);
  const format = formatOfCode.get(code);
  if (format === undefined)
    throw new StemmaError(
      "DELTA_CODE_UNKNOWN",
      `The manifest of a transfer declares the encoding code ${code} for tensor ${index}, which this program does not know. Update it, or send the tensor raw.`,
      { index, code },
    );
  if (allowed.codec < format)
    throw invalid(
      `with the encoding code ${code} of format ${format} where format ${allowed.codec} was requested`,
    );
  if (rawBytes > maxWireCodedTensorBytes)
    throw invalid(
      `as coded although its ${rawBytes} bytes exceed the ${maxWireCodedTensorBytes} allowed for coded tensors`,
    );
  if (byteLength > maxEncodedBytes(rawBytes))
    throw invalid(`as ${byteLength} coded bytes where it has ${rawBytes} raw bytes`);
  if (code === encodingCodes.equal && (byteLength > 0 || against === undefined))
    throw invalid("as equal to another tensor, but gives bytes for it or names no tensor");
  if (previous !== undefined && against === undefined)
    throw invalid("as coded against a previous tensor without a base");
  if (references.length > 0 && (previous === undefined || new Set(all).size < all.length))
    throw invalid("as coded twice against the same tensor, or against a third without a second");
  let own = 0;
  for (const reference of all) {
    if (allowed.tensors.has(reference)) continue;
    if ((allowed.own?.get(reference) ?? Infinity) >= index)
      throw invalid(`as coded against the tensor ${reference.slice(0, 12)}, which is not allowed for it`);
    if (++own > 1) throw invalid("as coded against two tensors of the same transfer");
  }
  const refused = allowed.mixed?.add(index, {
    isMixed: code === encodingCodes.mixed,
    rawBytes,
    references: all.flatMap((reference) => allowed.own?.get(reference) ?? []),
  });
  if (refused !== undefined) throw invalid(`as ${refused}`);
}
