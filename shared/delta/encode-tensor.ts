/**
 * Encodes a tensor: picks the encoding from a sample, cuts large tensors into slabs, and returns the bytes
 * raw where no encoding is smaller.
 */
import { ByteWriter } from "./bytes.js";
import { extractBlock, extractRest } from "./common-block.js";
import {
  encodingCodes,
  noReferences,
  type EncodedTensor,
  type EncodeOptions,
  type References,
  type Tensor,
} from "./encoded.js";
import { encodePiece } from "./encode-piece.js";
import { estimateNumbers } from "./estimate.js";
import { encodeDerived } from "./derived/derived-encoding.js";
import { findDerivation } from "./derived/find.js";
import { encodeFixedPlanes, isFixedKind } from "./fixed-planes.js";
import type { KernelMemory } from "./kernel-memory.js";
import { listReferences, unionOfNeeds } from "./links.js";
import { encodeLowRank } from "./low-rank/low-rank-encoding.js";
import { encodeGeneral, generalNeedsBase, hasFewLowBytes, mayRepeat } from "./general.js";
import { encodeMixed, mixedNeedsBase } from "./mixed.js";
import { numberKind, planeBytes, type NumberKind } from "./numbers.js";
import { referencesOf } from "./piece.js";
import { encodePlanes, minPlanesBytes } from "./planes.js";
import { estimatePlanes } from "./plane-segments.js";
import type { DType } from "../tensor/dtype.js";
import {
  blockPart,
  commonBlockWith,
  elementBytes,
  maxPieceNumbers,
  numberCount,
  partKinds,
  pieceShape,
  remainderPart,
  slabsOf,
  wholeTensor,
  type TensorPart,
} from "./tensor-part.js";

/** A part and its bytes. */
interface PartSource extends TensorPart {
  readonly bytes: Uint8Array;
}

export function encodeTensor(
  memory: KernelMemory,
  { bytes, ...header }: Tensor,
  references: References,
  {
    layout,
    lowRank = false,
    maxRank,
    general = true,
    mixed = general,
    derived = mixed,
    ifFollows = false,
  }: EncodeOptions,
): EncodedTensor {
  if (ifFollows && findDerivation({ ...header, bytes }, listReferences(references)) === undefined)
    return { code: encodingCodes.raw, bytes, against: noReferences };
  const whole: PartSource = { ...wholeTensor(header, references), bytes };
  if (layout === "fixed" && isFixedKind(header)) {
    const fixed = encodeFixedPlanes(memory, header.shape, bytes);
    if (fixed !== undefined) return { code: encodingCodes.fixedPlanes, bytes: fixed, against: noReferences };
  }
  if (layout === "planes" || layout === "fixed") return shorterThanRaw(encodeInPlanes(memory, whole), bytes);
  const hasOtherShape = whole.base === undefined && references.base !== undefined;
  const withBlock = hasOtherShape ? encodeCommonBlock(memory, whole, references) : undefined;
  const kind = numberKind(header.dtype);
  const numeric = withBlock ?? encodePart(memory, whole);
  const following = derived ? shorterDerived(memory, { ...header, bytes }, references, numeric) : undefined;
  // What follows exactly needs no slow search for repeats.
  if (following !== undefined && following.bytes.length <= maxSureShare * numeric.bytes.length)
    return following;
  const plain = general ? (encodeRepeats(memory, whole, { numeric, mixed }) ?? numeric) : numeric;
  if (following !== undefined && following.bytes.length < maxDerivedShare * plain.bytes.length)
    return following;
  if (!lowRank || kind === undefined || plain.code === encodingCodes.equal) return plain;
  const found = encodeLowRank(memory, { ...whole, kind, maxRank }, (base) =>
    encodePart(memory, { ...whole, base, previous: undefined }),
  );
  return found !== undefined && found.bytes.length < plain.bytes.length ? found : plain;
}

/** Encodings of fewer bytes are not tried in other ways. */
const minDerivedBytes = 64;
/** A derived tensor must take at most this share of what it takes otherwise. */
const maxDerivedShare = 0.95;
/** One that takes at most this share is not compared with a general coder's and mixed bits. */
const maxSureShare = 0.1;

/** Encodes what follows from the references by content, where that is shorter by enough. */
function shorterDerived(
  memory: KernelMemory,
  tensor: Tensor,
  references: References,
  plain: EncodedTensor,
): EncodedTensor | undefined {
  if (plain.bytes.length <= minDerivedBytes) return undefined;
  const found = encodeDerived(tensor, references, ({ bytes, ...header }, base) =>
    encodePart(memory, { ...header, bytes, base, previous: undefined }),
  );
  return found !== undefined && found.bytes.length < maxDerivedShare * plain.bytes.length ? found : undefined;
}

/** Types of so many bytes per number or more are floats and integers; smaller ones have few values. */
const wideBytes = 2;
/** The length up to which an estimate tells whether planes are tried; of longer tensors, the low bytes tell. */
const estimatedBytes = 2 ** 15;
/** An estimate of planes may be so much too high. */
const maxEstimateShare = 1.01;

/** True if the encoding "packed" of a type may be byte planes, so that these need no re-encoding. */
export function mayPackInPlanes(dtype: DType): boolean {
  return numberKind(dtype) === undefined || planeBytes(dtype) <= wideBytes;
}

/**
 * The shortest of byte planes, a general coder and mixed bits, where either is shorter than the encoding of numbers; a
 * tensor against a base may also be shorter without it.
 */
function encodeRepeats(
  memory: KernelMemory,
  whole: PartSource,
  { numeric, mixed }: { readonly numeric: EncodedTensor; readonly mixed: boolean },
): EncodedTensor | undefined {
  const { dtype, shape, bytes } = whole;
  const width = planeBytes(dtype) || 1;
  const kind = numberKind(dtype);
  if (numeric.code === encodingCodes.equal || bytes.length === 0) return undefined;
  const source = { bytes, base: whole.base, width };
  let best = numeric;
  if (width > wideBytes) {
    const base = numeric.against.base ? whole.base : undefined;
    const isTried =
      bytes.length <= estimatedBytes
        ? estimatePlanes(bytes, base, width) < 8 * maxEstimateShare * best.bytes.length
        : base === undefined && hasFewLowBytes(bytes, width);
    const planes = isTried ? encodeInPlanes(memory, { ...whole, base }) : undefined;
    if (planes !== undefined && planes.bytes.length < best.bytes.length) best = planes;
  }
  if (kind?.isFloat === true && !mayRepeat(source)) return best === numeric ? undefined : best;
  if (whole.base !== undefined && kind !== undefined) {
    const alone = encodePart(memory, { ...whole, base: undefined, previous: undefined });
    if (alone.bytes.length < best.bytes.length) best = alone;
  }
  if (width <= wideBytes) {
    const planes = encodeInPlanes(memory, numeric.against.base ? whole : { ...whole, base: undefined });
    if (planes !== undefined && planes.bytes.length < best.bytes.length) best = planes;
  }
  const stream = encodeGeneral(source, best.bytes.length);
  if (stream !== undefined) {
    const against = { base: generalNeedsBase(stream), previous: false };
    best = { code: encodingCodes.general, bytes: stream, against };
  }
  const isWideFloat = kind?.isFloat === true || dtype === "C64" || dtype === "F64";
  const inBits =
    mixed && !isWideFloat
      ? encodeMixed(bytes, { width, columns: shape.at(-1) ?? 1, base: whole.base }, best.bytes.length)
      : undefined;
  if (inBits !== undefined) {
    const against = { base: mixedNeedsBase(inBits), previous: false };
    best = { code: encodingCodes.mixed, bytes: inBits, against };
  }
  return best === numeric ? undefined : best;
}

/** Raw where planes of a small tensor are longer: it is read as one piece anyway. */
function shorterThanRaw(planes: EncodedTensor | undefined, bytes: Uint8Array): EncodedTensor {
  if (planes === undefined) return raw(bytes);
  const isShorter = bytes.length > minPlanesBytes || planes.bytes.length < bytes.length;
  return isShorter ? planes : raw(bytes);
}

function raw(bytes: Uint8Array): EncodedTensor {
  return { code: encodingCodes.raw, bytes, against: noReferences };
}

function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && Buffer.compare(a, b) === 0;
}

/**
 * Returns planes even where they are longer than raw, so that they can be read one by one; undefined only
 * where the tensor is empty or elements are not whole bytes.
 */
function encodeInPlanes(memory: KernelMemory, { dtype, bytes, base }: PartSource): EncodedTensor | undefined {
  const width = planeBytes(dtype);
  if (width === 0 || bytes.length === 0) return undefined;
  const kind = numberKind(dtype);
  const usesBase =
    base !== undefined &&
    (kind === undefined ||
      estimateNumbers(kind, numberCount(dtype, bytes.length), { bytes, base }).predictor !== "none");
  return {
    code: encodingCodes.planes,
    bytes: encodePlanes(memory, bytes, width, usesBase ? base : undefined),
    against: { base: usesBase, previous: false },
  };
}

function encodePart(memory: KernelMemory, part: PartSource): EncodedTensor {
  const { dtype, bytes, base } = part;
  const kind = numberKind(dtype);
  if (bytes.length === 0) return raw(bytes);
  if (base !== undefined && isEqual(base, bytes))
    return { code: encodingCodes.equal, bytes: new Uint8Array(), against: { base: true, previous: false } };
  if (kind === undefined) {
    const planes = encodeInPlanes(memory, part);
    return planes !== undefined && planes.bytes.length < bytes.length ? planes : raw(bytes);
  }
  const count = numberCount(dtype, bytes.length);
  if (count > maxPieceNumbers) return encodeSlabs(memory, part, kind);
  const prediction = estimateNumbers(kind, count, part);
  const piece = encodePiece(memory, pieceShape(part, kind, count), part, prediction);
  return piece === undefined ? raw(bytes) : { ...piece, against: referencesOf(prediction.predictor) };
}

function encodeSlabs(memory: KernelMemory, whole: PartSource, kind: NumberKind): EncodedTensor {
  const { bytes } = whole;
  const parts = slabsOf(whole, bytes.length, kind).map(({ part, from, to }) =>
    encodePart(memory, { ...part, bytes: bytes.subarray(from, to) }),
  );
  return joinParts(partKinds.slabs, parts, bytes);
}

/** Bytes: kind u8 ‖ for each part its code u8 and its sized bytes. */
function joinParts(kind: number, parts: readonly EncodedTensor[], bytes: Uint8Array): EncodedTensor {
  const out = new ByteWriter();
  out.u8(kind);
  for (const part of parts) {
    out.u8(part.code);
    out.sized(part.bytes);
  }
  const against = unionOfNeeds(parts.map((part) => part.against));
  return out.length < bytes.length ? { code: encodingCodes.parts, bytes: out.finish(), against } : raw(bytes);
}

/**
 * Encodes a tensor of another shape than its base: the common block against the base, the rest without it.
 * Returns undefined where that does not pay.
 */
function encodeCommonBlock(
  memory: KernelMemory,
  { dtype, shape, bytes }: PartSource,
  references: References,
): EncodedTensor | undefined {
  const kind = numberKind(dtype);
  const block = commonBlockWith({ dtype, shape }, references.base);
  if (block === undefined || kind === undefined) return undefined;
  const common: PartSource = {
    ...blockPart({ dtype, shape }, block, references),
    bytes: extractBlock(bytes, shape, block, elementBytes(dtype)),
  };
  const { predictor } = estimateNumbers(kind, numberCount(dtype, common.bytes.length), common);
  if (predictor === "none") return undefined;
  const rest = extractRest(bytes, shape, block, elementBytes(dtype));
  const parts = [
    encodePart(memory, common),
    encodePart(memory, { ...remainderPart(dtype, rest.length), bytes: rest }),
  ];
  return joinParts(partKinds.commonBlock, parts, bytes);
}
