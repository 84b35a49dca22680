/**
 * Decodes a tensor from its encoding, whose bytes are not trusted, and reports which references an encoding
 * needs.
 */
import { StemmaError } from "../errors.js";
import { tensorByteLength } from "../tensor/dtype.js";
import { ByteReader } from "./bytes.js";
import { joinBlock } from "./common-block.js";
import { decodePiece } from "./decode-piece.js";
import {
  encodingCodes,
  isEncodingCode,
  noReferences,
  type EncodedTensor,
  type EncodingCode,
  type References,
  type TensorHeader,
} from "./encoded.js";
import { requiredByDerived } from "./derived/derivation-bytes.js";
import { decodeDerived } from "./derived/derived-encoding.js";
import { encodingMalformed } from "./encoding-malformed.js";
import { decodeFixedPlanes, isFixedKind } from "./fixed-planes.js";
import type { KernelMemory } from "./kernel-memory.js";
import { decodeGeneral, generalNeedsBase } from "./general.js";
import { readLowRank, requiredByLowRank } from "./low-rank/low-rank-encoding.js";
import { neededLinks } from "./links.js";
import { decodeMixed, mixedNeedsBase } from "./mixed.js";
import { numberKind, planeBytes, type NumberKind } from "./numbers.js";
import { predictorOf, referencesOf } from "./piece.js";
import { decodePlanes, planesNeedBase } from "./planes.js";
import {
  blockPart,
  commonBlockWith,
  elementBytes,
  maxPartDepth,
  maxPieceNumbers,
  numberCount,
  partKinds,
  pieceShape,
  referenceMissing,
  remainderPart,
  sameShapeReference,
  slabsOf,
  wholeTensor,
  type TensorPart,
} from "./tensor-part.js";

/** An encoding as it was stored or received; nothing in it is checked yet. */
export type StoredEncoding = Pick<EncodedTensor, "bytes"> & { readonly code: number };

/** An encoding with a known code, and how deeply it is nested in parts. */
interface StoredPart {
  readonly code: EncodingCode;
  readonly bytes: Uint8Array;
  readonly depth: number;
}

/**
 * @param target as long as the tensor
 * @throws DELTA_MALFORMED, DELTA_CODE_UNKNOWN, DELTA_REFERENCE_MISSING
 */
export function decodeTensor(
  memory: KernelMemory,
  { header, encoded }: { readonly header: TensorHeader; readonly encoded: StoredEncoding },
  references: References,
  target: Uint8Array,
): void {
  const { code, bytes } = encoded;
  if (code === encodingCodes.parts && bytes[0] === partKinds.commonBlock) {
    decodeCommonBlock(memory, { header, bytes }, references, target);
    return;
  }
  if (code === encodingCodes.derived) {
    decodeDerivedTensor(memory, { header, bytes }, references, target);
    return;
  }
  if (code === encodingCodes.fixedPlanes) {
    decodeFixedPlanes(memory, fixedPlanesShape(header), bytes, target);
    return;
  }
  decodePart(memory, wholeTensor(header, references), { code: checkedCode(code), bytes, depth: 0 }, target);
}

function decodeDerivedTensor(
  memory: KernelMemory,
  { header, bytes }: { readonly header: TensorHeader; readonly bytes: Uint8Array },
  references: References,
  target: Uint8Array,
): void {
  const needed = requiredByDerived(bytes);
  if (target.length === 0) throw encodingMalformed("a tensor without bytes is not stored raw");
  if (references.base === undefined) throw referenceMissing(header, "base");
  if (neededLinks(references, needed) === undefined) throw referenceMissing(header, "previous");
  decodeDerived(
    header,
    { bytes, references },
    (part, { code, bytes: stored }, base) => {
      const out = new Uint8Array(tensorByteLength(part.dtype, part.shape));
      decodePart(
        memory,
        { ...part, base, previous: undefined },
        { code: checkedCode(code), bytes: stored, depth: 1 },
        out,
      );
      return out;
    },
    target,
  );
}

/** @throws DELTA_MALFORMED for a tensor that is never stored in fixed planes */
export function fixedPlanesShape(header: TensorHeader): readonly number[] {
  if (!isFixedKind(header))
    throw encodingMalformed(`${header.dtype} [${header.shape.join(", ")}] has no fixed planes`);
  return header.shape;
}

/** @throws DELTA_CODE_UNKNOWN */
function checkedCode(code: number): EncodingCode {
  if (!isEncodingCode(code))
    throw new StemmaError(
      "DELTA_CODE_UNKNOWN",
      `No encoding of tensors has the code ${code}; it may come from a newer Stemma. Update this one, or ask for the tensor raw.`,
      { code },
    );
  return code;
}

function decodePart(memory: KernelMemory, part: TensorPart, stored: StoredPart, target: Uint8Array): void {
  const { dtype, base } = part;
  const { code, bytes } = stored;
  if (code === encodingCodes.raw) {
    if (bytes.length !== target.length) throw encodingMalformed("raw bytes are not as long as the tensor");
    target.set(bytes);
    return;
  }
  if (code === encodingCodes.equal) {
    if (bytes.length > 0) throw encodingMalformed("a tensor equal to its base has bytes of its own");
    if (base === undefined) throw referenceMissing(part, "base");
    target.set(base);
    return;
  }
  if (target.length === 0) throw encodingMalformed("a tensor without bytes is not stored raw");
  if (code === encodingCodes.planes) {
    const width = planeBytes(dtype);
    if (width === 0) throw encodingMalformed(`${dtype} has no byte planes`);
    if (planesNeedBase(bytes) && base === undefined) throw referenceMissing(part, "base");
    decodePlanes(memory, { bytes, width, base }, target);
    return;
  }
  if (code === encodingCodes.general) {
    if (stored.depth > 0) throw encodingMalformed("parts of a tensor have no general coder's stream");
    if (generalNeedsBase(bytes) && base === undefined) throw referenceMissing(part, "base");
    decodeGeneral({ bytes, base, width: planeBytes(dtype) || 1 }, target);
    return;
  }
  if (code === encodingCodes.mixed) {
    if (stored.depth > 0) throw encodingMalformed("parts of a tensor are not coded in mixed bits");
    if (mixedNeedsBase(bytes) && base === undefined) throw referenceMissing(part, "base");
    const columns = part.shape.at(-1) ?? 1;
    decodeMixed(bytes, { width: planeBytes(dtype) || 1, columns, base }, target);
    return;
  }
  const kind = numberKind(dtype);
  if (kind === undefined || code === encodingCodes.fixedPlanes || code === encodingCodes.derived)
    throw encodingMalformed(
      `the encoding ${code} is not one of ${kind === undefined ? dtype : "parts of a tensor"}`,
    );
  if (code === encodingCodes.lowRank) decodeLowRank(memory, { ...part, kind }, stored, target);
  else if (code === encodingCodes.parts) decodeSlabs(memory, { ...part, kind }, stored, target);
  else decodeOnePiece(memory, { ...part, kind }, { code, bytes }, target);
}

interface NumericPart extends TensorPart {
  readonly kind: NumberKind;
}

function decodeOnePiece(
  memory: KernelMemory,
  part: NumericPart,
  { code, bytes }: { readonly code: 2 | 3; readonly bytes: Uint8Array },
  target: Uint8Array,
): void {
  const { dtype, kind, base, previous } = part;
  const count = numberCount(dtype, target.length);
  if (count > maxPieceNumbers) throw encodingMalformed("a piece has more numbers than any may have");
  const needed = referencesOf(predictorOf(bytes));
  if (needed.base && base === undefined) throw referenceMissing(part, "base");
  if (needed.previous && previous === undefined) throw referenceMissing(part, "previous");
  decodePiece(memory, pieceShape(part, kind, count), { code, bytes, base, previous }, target);
}

/** Decodes a low-rank prediction, which only complete tensors have, and only one. */
function decodeLowRank(
  memory: KernelMemory,
  part: NumericPart,
  { bytes, depth }: StoredPart,
  target: Uint8Array,
): void {
  if (depth > 0) throw encodingMalformed("parts of a tensor have no low-rank prediction");
  const { predicted, ...inner } = readLowRank(memory, part, bytes);
  decodePart(memory, { ...part, base: predicted, previous: undefined }, { ...inner, depth: 1 }, target);
}

function decodeSlabs(
  memory: KernelMemory,
  whole: NumericPart,
  { bytes, depth }: StoredPart,
  target: Uint8Array,
): void {
  const reader = new ByteReader(bytes);
  const isLarge = numberCount(whole.dtype, target.length) > maxPieceNumbers;
  if (reader.u8() !== partKinds.slabs || depth >= maxPartDepth || !isLarge)
    throw encodingMalformed("a tensor of this size does not have its parts");
  for (const { part, from, to } of slabsOf(whole, target.length, whole.kind))
    decodePart(memory, part, readPart(reader, depth + 1), target.subarray(from, to));
  if (reader.remaining > 0) throw encodingMalformed("bytes follow its last part");
}

function readPart(reader: ByteReader, depth: number): StoredPart {
  return { code: checkedCode(reader.u8()), bytes: reader.sized(), depth };
}

function decodeCommonBlock(
  memory: KernelMemory,
  { header, bytes }: { readonly header: TensorHeader; readonly bytes: Uint8Array },
  references: References,
  target: Uint8Array,
): void {
  const { dtype, shape } = header;
  if (references.base === undefined) throw referenceMissing(header, "base");
  const block = commonBlockWith(header, references.base);
  if (
    block === undefined ||
    numberKind(dtype) === undefined ||
    sameShapeReference(header, references.base) !== undefined
  )
    throw encodingMalformed("it has no block in common with the base given");
  const reader = new ByteReader(bytes);
  reader.u8();
  const common = new Uint8Array(tensorByteLength(dtype, block));
  decodePart(memory, blockPart(header, block, references), readPart(reader, 1), common);
  const rest = new Uint8Array(target.length - common.length);
  decodePart(memory, remainderPart(dtype, rest.length), readPart(reader, 1), rest);
  if (reader.remaining > 0) throw encodingMalformed("bytes follow its last part");
  joinBlock(target, { shape, block, elementBytes: elementBytes(dtype) }, common, rest);
}

/** Returns which references an encoding needs, from its bytes alone. @throws DELTA_MALFORMED, DELTA_CODE_UNKNOWN */
export function requiredReferences({ code, bytes }: StoredEncoding, depth = 0): EncodedTensor["against"] {
  const known = checkedCode(code);
  switch (known) {
    case encodingCodes.raw:
      return noReferences;
    case encodingCodes.equal:
      return { base: true, previous: false };
    case encodingCodes.planes:
      return { base: planesNeedBase(bytes), previous: false };
    case encodingCodes.fixedPlanes:
      if (depth > 0) throw encodingMalformed("parts of a tensor are never stored in fixed planes");
      return noReferences;
    case encodingCodes.general:
      if (depth > 0) throw encodingMalformed("parts of a tensor have no general coder's stream");
      return { base: generalNeedsBase(bytes), previous: false };
    case encodingCodes.mixed:
      if (depth > 0) throw encodingMalformed("parts of a tensor are not coded in mixed bits");
      return { base: mixedNeedsBase(bytes), previous: false };
    case encodingCodes.derived:
      if (depth > 0) throw encodingMalformed("parts of a tensor are not derived");
      return requiredByDerived(bytes);
    case encodingCodes.lowRank:
      if (depth > 0) throw encodingMalformed("parts of a tensor have no low-rank prediction");
      return requiredByLowRank(bytes);
    case encodingCodes.parts:
      return requiredByParts(bytes, depth);
    case encodingCodes.packed:
    case encodingCodes.rans:
      return referencesOf(predictorOf(bytes));
  }
}

function requiredByParts(bytes: Uint8Array, depth: number): EncodedTensor["against"] {
  const reader = new ByteReader(bytes);
  const required = { base: reader.u8() === partKinds.commonBlock, previous: false };
  if (depth > maxPartDepth) throw encodingMalformed("its parts have too many parts");
  while (reader.remaining > 0) {
    const part = requiredReferences({ code: reader.u8(), bytes: reader.sized() }, depth + 1);
    required.base ||= part.base;
    required.previous ||= part.previous;
  }
  return required;
}
