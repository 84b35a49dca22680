/**
 * The lossless codec: a tensor's bytes to an encoding and back, bit for bit. Chooses predictor and coder
 * for each tensor from a sample; gives raw bytes where nothing pays. Knows no store, wire or model.
 */
import { StemmaError } from "../errors.js";
import { dtypeBits, tensorByteLength, type DType } from "../tensor/dtype.js";
import { ByteReader, ByteWriter, uninitialisedBytes } from "./bytes.js";
import { commonBlock, extractBlock, extractRest, joinBlock } from "./common-block.js";
import {
  encodingCodes,
  isEncodingCode,
  noReferences,
  type EncodedTensor,
  type EncodeOptions,
  type EncodingCode,
  type References,
  type Tensor,
  type TensorHeader,
} from "./encoded.js";
import { estimateNumbers, maxSampleNumbers, type Estimate } from "./estimate.js";
import {
  decodeFixedLevels,
  decodeFixedPlanes,
  encodeFixedPlanes,
  fixedPlaneCount,
  fixedPrefixBytes,
  isFixedKind,
  type FixedLevels,
} from "./fixed-planes.js";
import type { DeltaKernels } from "./kernels/kernels.js";
import { numberKind, planeBytes, viewOf, type NumberKind } from "./numbers.js";
import { decodePiece, encodePiece, predictorOf } from "./piece.js";
import { decodePlanes, encodePlanes, planesNeedBase, planesPrefixBytes } from "./planes.js";
import { encodingMalformed } from "./encoding-malformed.js";
import { KernelMemory } from "./kernel-memory.js";

/** Numbers of a piece: what bounds the kernels' memory (about 24 bytes a number). */
const pieceNumbers = 2 ** 21;
const slabs = 1,
  common = 2;
/** Parts within parts: a block of slabs, slabs of a slab. */
const mostNesting = 4;

export interface TensorEstimate extends Estimate {
  /** Expected bytes of the encoding. */
  readonly bytes: number;
}

export interface DeltaCodec {
  readonly kernels: "wasm" | "plain";
  /**
   * Codes `bytes`, row-major, little-endian, against whatever of `references` helps.
   * @throws TENSOR_SIZE_MISMATCH where bytes are not as long as the header says
   */
  encodeTensor(
    header: TensorHeader,
    bytes: Uint8Array,
    references?: References,
    options?: EncodeOptions,
  ): EncodedTensor;
  /**
   * The tensor's bytes, exactly `declaredBytes` of them.
   * @throws DELTA_REFERENCE_MISSING where it was coded against what is not given; DELTA_MALFORMED,
   * DELTA_CODE_UNKNOWN; TENSOR_SIZE_MISMATCH where header and declaration differ
   */
  decodeTensor(
    header: TensorHeader,
    encoded: Pick<EncodedTensor, "bytes"> & { readonly code: number },
    references: References,
    declaredBytes: number,
  ): Uint8Array;
  /** What an encoding was coded against, from its bytes alone. @throws DELTA_MALFORMED, DELTA_CODE_UNKNOWN */
  requiredReferences(
    header: TensorHeader,
    encoded: Pick<EncodedTensor, "bytes"> & { readonly code: number },
  ): EncodedTensor["against"];
  /** How the tensor would be predicted and about how long it would be, from a sample of it. */
  estimate(header: TensorHeader, bytes: Uint8Array, references?: References): TensorEstimate;
  /**
   * How many of an encoding's first bytes hold the first `planes` byte planes. @param code planes, or fixed
   * planes @throws DELTA_MALFORMED
   */
  planesPrefixBytes(header: TensorHeader, bytes: Uint8Array, planes: number, code?: PlanesCode): number;
  /**
   * The tensor with only its highest `planes` bytes an element, the others nought, from a prefix of an
   * encoding of layout planes.
   */
  decodeHighPlanes(
    header: TensorHeader,
    bytes: Uint8Array,
    references: References,
    planes: number,
  ): Uint8Array;
  /**
   * What the first `levels` (1 to 3) fixed planes say, from a prefix of an encoding in fixed planes. @throws
   * DELTA_MALFORMED
   */
  decodeFixedLevels(header: TensorHeader, bytes: Uint8Array, levels: number): FixedLevels;
}

/** Encodings of which a prefix is readable. */
export type PlanesCode = typeof encodingCodes.planes | typeof encodingCodes.fixedPlanes;

/** A tensor or part of one, with references of the same shape. */
interface Numbers {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
  readonly base: Uint8Array | undefined;
  readonly previous: Uint8Array | undefined;
}
type Described = Omit<Numbers, "bytes">;

export function createDeltaCodec(kernels: DeltaKernels): DeltaCodec {
  const memory = new KernelMemory(kernels);
  return {
    kernels: kernels.name,
    encodeTensor(header, bytes, references = {}, options = {}) {
      checkLength(header, bytes.length);
      return encodeAny(memory, header, bytes, references, options);
    },
    decodeTensor(header, { code, bytes }, references, declaredBytes) {
      checkLength(header, declaredBytes);
      const target = uninitialisedBytes(declaredBytes);
      decodeAny(memory, header, code, bytes, references, target);
      return target;
    },
    requiredReferences: (header, { code, bytes }) => needsOf(header, code, bytes, 0),
    estimate: estimateTensor,
    planesPrefixBytes: ({ dtype }, bytes, planes, code = encodingCodes.planes) =>
      code === encodingCodes.fixedPlanes
        ? fixedPrefixBytes(bytes, planes)
        : planesPrefixBytes(bytes, planeBytes(dtype), planes),
    decodeHighPlanes(header, bytes, references, planes) {
      const target = uninitialisedBytes(tensorByteLength(header.dtype, header.shape));
      const width = planeBytes(header.dtype);
      if (planesNeedBase(bytes) && sameKind(header, references.base) === undefined)
        throw missing(header, "base");
      decodePlanes(
        memory,
        bytes,
        width,
        planesNeedBase(bytes) ? references.base?.bytes : undefined,
        target,
        Math.min(planes, width),
      );
      return target;
    },
    decodeFixedLevels: (header, bytes, levels) =>
      decodeFixedLevels(memory, fixedShape(header), bytes, Math.min(levels, fixedPlaneCount)),
  };
}

function checkLength({ dtype, shape }: TensorHeader, length: number): void {
  const expected = tensorByteLength(dtype, shape);
  if (expected !== length)
    throw new StemmaError(
      "TENSOR_SIZE_MISMATCH",
      `A tensor ${dtype} [${shape.join(", ")}] has ${expected} bytes, not ${length}. Check where its header came from.`,
      { expected, actual: length },
    );
}

function missing(
  { dtype, shape }: TensorHeader,
  what: "base" | "previous",
): StemmaError<"DELTA_REFERENCE_MISSING"> {
  return new StemmaError(
    "DELTA_REFERENCE_MISSING",
    `A tensor ${dtype} [${shape.join(", ")}] was coded against ${what === "base" ? "a base" : "its base's predecessor"} that is not given. Load that first, or ask for the tensor raw.`,
    { what },
  );
}

function sameKind(header: TensorHeader, reference: Tensor | undefined): Tensor | undefined {
  return reference?.dtype === header.dtype &&
    reference.shape.length === header.shape.length &&
    reference.shape.every((size, i) => size === header.shape[i])
    ? reference
    : undefined;
}

function numbersOf(
  { dtype, shape }: TensorHeader,
  bytes: Uint8Array,
  { base, previous }: References,
): Numbers {
  const from = sameKind({ dtype, shape }, base);
  return {
    dtype,
    shape,
    bytes,
    base: from?.bytes,
    previous: from === undefined ? undefined : sameKind({ dtype, shape }, previous)?.bytes,
  };
}

function raw(bytes: Uint8Array): EncodedTensor {
  return { code: encodingCodes.raw, bytes, against: noReferences };
}
function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && Buffer.compare(a, b) === 0;
}
function countOf(dtype: DType, bytes: number): number {
  return bytes / (numberKind(dtype)?.bytes ?? 1);
}

// --- encoding

function encodeAny(
  memory: KernelMemory,
  header: TensorHeader,
  bytes: Uint8Array,
  references: References,
  { layout }: EncodeOptions,
): EncodedTensor {
  const numbers = numbersOf(header, bytes, references);
  if (layout === "fixed" && isFixedKind(header)) {
    const fixed = encodeFixedPlanes(memory, header.shape, bytes);
    if (fixed !== undefined) return { code: encodingCodes.fixedPlanes, bytes: fixed, against: noReferences };
  }
  if (layout === "planes" || layout === "fixed") return encodeInPlanes(memory, numbers) ?? raw(bytes);
  return (
    (numbers.base === undefined && references.base !== undefined
      ? encodeCommon(memory, numbers, references)
      : undefined) ?? encodeNumbers(memory, numbers)
  );
}

/** Planes always, that they may be read one by one; raw only where elements have no whole bytes. */
function encodeInPlanes(memory: KernelMemory, { dtype, bytes, base }: Numbers): EncodedTensor | undefined {
  const width = planeBytes(dtype);
  if (width === 0 || bytes.length === 0) return undefined;
  // Against the base only where a sample says so.
  const kind = numberKind(dtype),
    based =
      base !== undefined &&
      (kind === undefined ||
        estimateNumbers(kind, countOf(dtype, bytes.length), bytes, { base }).predictor !== "none");
  return {
    code: encodingCodes.planes,
    bytes: encodePlanes(memory, bytes, width, based ? base : undefined),
    against: { base: based, previous: false },
  };
}

function encodeNumbers(memory: KernelMemory, numbers: Numbers): EncodedTensor {
  const { dtype, shape, bytes, base, previous } = numbers,
    kind = numberKind(dtype);
  if (bytes.length === 0) return raw(bytes);
  if (base !== undefined && isEqual(base, bytes))
    return { code: encodingCodes.equal, bytes: new Uint8Array(), against: { base: true, previous: false } };
  if (kind === undefined) {
    const planes = encodeInPlanes(memory, numbers);
    return planes !== undefined && planes.bytes.length < bytes.length ? planes : raw(bytes);
  }
  const count = countOf(dtype, bytes.length);
  if (count > pieceNumbers) return encodeSlabs(memory, numbers, kind);
  const chosen = estimateNumbers(kind, count, bytes, { base, previous });
  const piece = encodePiece(
    memory,
    { kind, count, view: viewOf(numberShape(dtype, shape), count) },
    bytes,
    chosen,
    { base, previous },
  );
  return piece === undefined
    ? raw(bytes)
    : {
        ...piece,
        against: { base: chosen.predictor !== "none", previous: chosen.predictor === "extrapolated" },
      };
}

/** Complex numbers are pairs. */
function numberShape(dtype: DType, shape: readonly number[]): readonly number[] {
  return dtype === "C64" ? [...shape, 2] : shape;
}

/**
 * Shapes of the slabs that a large tensor is coded in: whole rows where they are short enough, else runs of
 * numbers.
 */
function slabShapes(
  dtype: DType,
  shape: readonly number[],
  kind: NumberKind,
  bytes: number,
): readonly (readonly number[])[] {
  const row = bytes / (shape[0] ?? 1) / kind.bytes,
    elements = (8 * bytes) / dtypeBits(dtype);
  const cut = (total: number, each: number, rest: readonly number[]): (readonly number[])[] =>
    Array.from({ length: Math.ceil(total / each) }, (_, i) => [Math.min(each, total - i * each), ...rest]);
  return shape.length > 1 && row <= pieceNumbers
    ? cut(shape[0]!, Math.floor(pieceNumbers / row), shape.slice(1))
    : cut(elements, pieceNumbers / 2, []);
}

/** The parts of a tensor by byte range. */
function eachSlab(
  numbers: Described,
  length: number,
  kind: NumberKind,
  slab: (part: Described, from: number, to: number) => void,
): void {
  let from = 0;
  for (const shape of slabShapes(numbers.dtype, numbers.shape, kind, length)) {
    const to = from + tensorByteLength(numbers.dtype, shape);
    slab(
      {
        dtype: numbers.dtype,
        shape,
        base: numbers.base?.subarray(from, to),
        previous: numbers.previous?.subarray(from, to),
      },
      from,
      to,
    );
    from = to;
  }
}

function encodeSlabs(memory: KernelMemory, numbers: Numbers, kind: NumberKind): EncodedTensor {
  const parts: EncodedTensor[] = [];
  eachSlab(numbers, numbers.bytes.length, kind, (part, from, to) =>
    parts.push(encodeNumbers(memory, { ...part, bytes: numbers.bytes.subarray(from, to) })),
  );
  return joinParts(slabs, parts, numbers.bytes);
}

function joinParts(how: number, parts: readonly EncodedTensor[], bytes: Uint8Array): EncodedTensor {
  const out = new ByteWriter();
  out.u8(how);
  for (const part of parts) {
    out.u8(part.code);
    out.sized(part.bytes);
  }
  const against = {
    base: parts.some((part) => part.against.base),
    previous: parts.some((part) => part.against.previous),
  };
  return out.length < bytes.length ? { code: encodingCodes.parts, bytes: out.finish(), against } : raw(bytes);
}

/**
 * Another shape than the base's: their common block against the base, the rest alone. undefined: it does not
 * pay.
 */
function encodeCommon(
  memory: KernelMemory,
  numbers: Numbers,
  references: References,
): EncodedTensor | undefined {
  const { dtype, shape, bytes } = numbers,
    kind = numberKind(dtype),
    block = blockOf({ dtype, shape }, references.base);
  if (block === undefined || kind === undefined) return undefined;
  const described = describeBlock({ dtype, shape }, block, references),
    own = extractBlock(bytes, shape, block, elementBytes(dtype));
  const { predictor } = estimateNumbers(kind, countOf(dtype, own.length), own, described);
  if (predictor === "none") return undefined;
  const rest = extractRest(bytes, shape, block, elementBytes(dtype));
  return joinParts(
    common,
    [
      encodeNumbers(memory, { ...described, bytes: own }),
      encodeNumbers(memory, { ...describeRest(dtype, rest.length), bytes: rest }),
    ],
    bytes,
  );
}

function elementBytes(dtype: DType): number {
  return dtypeBits(dtype) / 8;
}
function blockOf(header: TensorHeader, base: Tensor | undefined): readonly number[] | undefined {
  return base?.dtype === header.dtype ? commonBlock(header.shape, base.shape) : undefined;
}
function describeRest(dtype: DType, bytes: number): Described {
  return { dtype, shape: [bytes / elementBytes(dtype)], base: undefined, previous: undefined };
}
function describeBlock(
  { dtype }: TensorHeader,
  block: readonly number[],
  { base, previous }: References,
): Described {
  const cut = (tensor: Tensor): Uint8Array =>
    extractBlock(tensor.bytes, tensor.shape, block, elementBytes(dtype));
  const before = base === undefined ? undefined : sameKind(base, previous);
  return {
    dtype,
    shape: block,
    base: base === undefined ? undefined : cut(base),
    previous: before === undefined ? undefined : cut(before),
  };
}

// --- decoding

function decodeAny(
  memory: KernelMemory,
  header: TensorHeader,
  code: number,
  bytes: Uint8Array,
  references: References,
  target: Uint8Array,
): void {
  if (code === encodingCodes.parts && bytes[0] === common) {
    decodeCommon(memory, header, bytes, references, target);
    return;
  }
  if (code === encodingCodes.fixedPlanes) {
    decodeFixedPlanes(memory, fixedShape(header), bytes, target);
    return;
  }
  decodeNumbers(memory, numbersOf(header, target, references), checkedCode(code), bytes, target, 0);
}

/** @throws DELTA_MALFORMED for a tensor that never lies in fixed planes */
function fixedShape(header: TensorHeader): readonly number[] {
  if (!isFixedKind(header))
    throw encodingMalformed(`${header.dtype} [${header.shape.join(", ")}] has no fixed planes`);
  return header.shape;
}

function checkedCode(code: number): EncodingCode {
  if (!isEncodingCode(code))
    throw new StemmaError(
      "DELTA_CODE_UNKNOWN",
      `No encoding of tensors has the code ${code}; it may come from a newer Stemma. Update this one, or ask for the tensor raw.`,
      { code },
    );
  return code;
}

function decodeNumbers(
  memory: KernelMemory,
  numbers: Described,
  code: EncodingCode,
  bytes: Uint8Array,
  target: Uint8Array,
  depth: number,
): void {
  const { dtype, shape, base, previous } = numbers,
    kind = numberKind(dtype),
    { raw: rawCode, equal, planes, parts, fixedPlanes } = encodingCodes;
  if (code === rawCode) {
    if (bytes.length !== target.length) throw encodingMalformed("raw bytes are not as long as the tensor");
    target.set(bytes);
    return;
  }
  if (code === equal) {
    if (bytes.length > 0) throw encodingMalformed("bytes follow where there are none");
    if (base === undefined) throw missing(numbers, "base");
    target.set(base);
    return;
  }
  if (target.length === 0) throw encodingMalformed("a tensor without bytes is always raw");
  if (code === planes) {
    const width = planeBytes(dtype);
    if (width === 0) throw encodingMalformed(`${dtype} has no byte planes`);
    if (planesNeedBase(bytes) && base === undefined) throw missing(numbers, "base");
    decodePlanes(memory, bytes, width, base, target);
    return;
  }
  if (kind === undefined || code === fixedPlanes)
    throw encodingMalformed(`${kind === undefined ? dtype : "a part"} is never coded so`);
  if (code === parts) {
    decodeSlabs(memory, numbers, kind, bytes, target, depth + 1);
    return;
  }
  const count = countOf(dtype, target.length),
    predictor = predictorOf(bytes);
  if (count > pieceNumbers) throw encodingMalformed("a piece is larger than any may be");
  if (predictor !== "none" && base === undefined) throw missing(numbers, "base");
  if (predictor === "extrapolated" && previous === undefined) throw missing(numbers, "previous");
  decodePiece(
    memory,
    code,
    bytes,
    { kind, count, view: viewOf(numberShape(dtype, shape), count) },
    { base, previous },
    target,
  );
}

function decodeSlabs(
  memory: KernelMemory,
  numbers: Described,
  kind: NumberKind,
  bytes: Uint8Array,
  target: Uint8Array,
  depth: number,
): void {
  const reader = new ByteReader(bytes);
  if (reader.u8() !== slabs || depth > mostNesting || countOf(numbers.dtype, target.length) <= pieceNumbers)
    throw encodingMalformed("its parts are none that a tensor of this size has");
  eachSlab(numbers, target.length, kind, (part, from, to) =>
    decodeNumbers(memory, part, checkedCode(reader.u8()), reader.sized(), target.subarray(from, to), depth),
  );
  if (reader.left > 0) throw encodingMalformed("bytes follow its last part");
}

function decodeCommon(
  memory: KernelMemory,
  header: TensorHeader,
  bytes: Uint8Array,
  references: References,
  target: Uint8Array,
): void {
  const { dtype, shape } = header,
    reader = new ByteReader(bytes);
  if (references.base === undefined) throw missing(header, "base");
  const block = blockOf(header, references.base);
  if (
    block === undefined ||
    numberKind(dtype) === undefined ||
    sameKind(header, references.base) !== undefined
  )
    throw encodingMalformed("it has no block in common with the base given");
  reader.u8();
  const described = describeBlock(header, block, references),
    own = new Uint8Array(tensorByteLength(dtype, block));
  decodeNumbers(memory, described, checkedCode(reader.u8()), reader.sized(), own, 0);
  const rest = new Uint8Array(target.length - own.length);
  decodeNumbers(memory, describeRest(dtype, rest.length), checkedCode(reader.u8()), reader.sized(), rest, 0);
  if (reader.left > 0) throw encodingMalformed("bytes follow its last part");
  joinBlock(target, shape, block, elementBytes(dtype), own, rest);
}

function needsOf(
  header: TensorHeader,
  code: number,
  bytes: Uint8Array,
  depth: number,
): EncodedTensor["against"] {
  const { raw: rawCode, equal, planes, parts, fixedPlanes } = encodingCodes;
  switch (checkedCode(code)) {
    case rawCode:
      return noReferences;
    case equal:
      return { base: true, previous: false };
    case planes:
      return { base: planesNeedBase(bytes), previous: false };
    case fixedPlanes:
      if (depth > 0) throw encodingMalformed("a part is never coded so");
      return noReferences;
    case parts: {
      const reader = new ByteReader(bytes);
      const needed = { base: reader.u8() === common, previous: false };
      if (depth > mostNesting) throw encodingMalformed("its parts have too many parts");
      while (reader.left > 0) {
        const part = needsOf(header, reader.u8(), reader.sized(), depth + 1);
        needed.base ||= part.base;
        needed.previous ||= part.previous;
      }
      return needed;
    }
    default: {
      const predictor = predictorOf(bytes);
      return { base: predictor !== "none", previous: predictor === "extrapolated" };
    }
  }
}

// --- estimating

function estimateTensor(
  header: TensorHeader,
  bytes: Uint8Array,
  references: References = {},
): TensorEstimate {
  checkLength(header, bytes.length);
  const { dtype } = header,
    kind = numberKind(dtype),
    { base, previous } = numbersOf(header, bytes, references);
  if (kind === undefined || bytes.length === 0)
    return {
      predictor: "none",
      alpha64: 0,
      inUnits: false,
      bitsPerNumber: 8,
      equalShare: 0,
      bytes: bytes.length,
    };
  const count = countOf(dtype, bytes.length),
    found = estimateNumbers(kind, count, bytes, { base, previous }, maxSampleNumbers);
  return { ...found, bytes: found.equalShare === 1 ? 0 : Math.ceil((found.bitsPerNumber * count) / 8) };
}
