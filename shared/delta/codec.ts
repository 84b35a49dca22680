/**
 * The lossless codec: a tensor's bytes to an encoding and back, bit for bit. It picks predictor and entropy
 * coder for each tensor from a sample, and returns raw bytes where no encoding is smaller. Does not depend on
 * stores, the wire protocol or models.
 */
import { dtypeBits, tensorByteLength } from "../tensor/dtype.js";
import { uninitializedBytes } from "../tensor/uninitialized-bytes.js";
import { decodeTensor, fixedPlanesShape, requiredReferences, type StoredEncoding } from "./decode-tensor.js";
import { encodeTensor } from "./encode-tensor.js";
import {
  encodingCodes,
  type EncodedTensor,
  type EncodeOptions,
  type References,
  type Tensor,
  type TensorHeader,
} from "./encoded.js";
import { findTaken } from "./derived/find-taken.js";
import { knownPart, takenFrom } from "./derived/positions.js";
import { estimateNumbers, maxSampleNumbers, type Estimate } from "./estimate.js";
import { decodeFixedLevels, fixedPlaneCount, fixedPrefixBytes, type FixedLevels } from "./fixed-planes.js";
import { mayRepeat } from "./general.js";
import { KernelMemory } from "./kernel-memory.js";
import type { DeltaKernels } from "./kernels/kernels.js";
import { numberKind, planeBytes } from "./numbers.js";
import { decodePlanes, planesNeedBase, planesPrefixBytes } from "./planes.js";
import {
  checkTensorLength,
  numberCount,
  referenceMissing,
  sameShapeReference,
  wholeTensor,
} from "./tensor-part.js";

export interface TensorEstimate extends Estimate {
  /** Expected bytes of the encoding. */
  readonly bytes: number;
  /** True if the encoding is expected in mixed bits, which take many times longer to decode than others. */
  readonly isMixed: boolean;
}

export interface DeltaCodec {
  readonly kernels: "wasm" | "plain";
  /**
   * Encodes `bytes`, row-major and little-endian, against those `references` that make it smaller.
   * @throws TENSOR_SIZE_MISMATCH where the length of `bytes` is not that of the header
   */
  encodeTensor(
    header: TensorHeader,
    bytes: Uint8Array,
    references?: References,
    options?: EncodeOptions,
  ): EncodedTensor;
  /**
   * Returns the tensor's bytes, exactly `declaredBytes` of them.
   * @throws DELTA_REFERENCE_MISSING where it was encoded against a tensor that is not given; DELTA_MALFORMED,
   * DELTA_CODE_UNKNOWN; TENSOR_SIZE_MISMATCH where header and declaration differ
   */
  decodeTensor(
    header: TensorHeader,
    encoded: StoredEncoding,
    references: References,
    declaredBytes: number,
  ): Uint8Array;
  /**
   * Returns which references an encoding needs, from its bytes alone.
   * @throws DELTA_MALFORMED, DELTA_CODE_UNKNOWN
   */
  requiredReferences(encoded: StoredEncoding): EncodedTensor["against"];
  /** Estimates from a sample how the tensor would be predicted and how long its encoding would be. */
  estimate(header: TensorHeader, bytes: Uint8Array, references?: References): TensorEstimate;
  /**
   * Returns how many of an encoding's first bytes hold the first `planes` byte planes.
   * @param code of byte planes (default) or of fixed planes
   * @throws DELTA_MALFORMED
   */
  planesPrefixBytes(header: TensorHeader, bytes: Uint8Array, planes: number, code?: PlanesCode): number;
  /**
   * Decodes a prefix of an encoding in byte planes: returns the tensor with only the highest `planes` bytes
   * of each element, the others zero.
   * @throws DELTA_REFERENCE_MISSING, DELTA_MALFORMED
   */
  decodeHighPlanes(
    header: TensorHeader,
    bytes: Uint8Array,
    references: References,
    planes: number,
  ): Uint8Array;
  /**
   * Decodes the first `levels` (1 to 3) fixed planes from a prefix of an encoding in fixed planes.
   * @throws DELTA_MALFORMED
   */
  decodeFixedLevels(header: TensorHeader, bytes: Uint8Array, levels: number): FixedLevels;
}

/** Encodings whose prefix can be decoded alone. */
export type PlanesCode = typeof encodingCodes.planes | typeof encodingCodes.fixedPlanes;

/** Creates the codec on these kernels. All its calls share one kernel memory. */
export function createDeltaCodec(kernels: DeltaKernels): DeltaCodec {
  const memory = new KernelMemory(kernels);
  return {
    kernels: kernels.name,
    encodeTensor(header, bytes, references = {}, options = {}) {
      checkTensorLength(header, bytes.length);
      return encodeTensor(memory, { dtype: header.dtype, shape: header.shape, bytes }, references, options);
    },
    decodeTensor(header, encoded, references, declaredBytes) {
      checkTensorLength(header, declaredBytes);
      const target = uninitializedBytes(declaredBytes);
      decodeTensor(memory, { header, encoded }, references, target);
      return target;
    },
    requiredReferences: (encoded) => requiredReferences(encoded),
    estimate: (header, bytes, references = {}) =>
      shiftedEstimate({ ...header, bytes }, references) ??
      repeatsEstimate(memory, { ...header, bytes }, references) ??
      estimateTensor(header, bytes, references),
    planesPrefixBytes: ({ dtype }, bytes, planes, code = encodingCodes.planes) =>
      code === encodingCodes.fixedPlanes
        ? fixedPrefixBytes(bytes, planes)
        : planesPrefixBytes(bytes, planeBytes(dtype), planes),
    decodeHighPlanes(header, bytes, references, planes) {
      const target = uninitializedBytes(tensorByteLength(header.dtype, header.shape));
      const width = planeBytes(header.dtype);
      const base = planesNeedBase(bytes) ? sameShapeReference(header, references.base) : undefined;
      if (planesNeedBase(bytes) && base === undefined) throw referenceMissing(header, "base");
      decodePlanes(memory, { bytes, width, base: base?.bytes }, target, Math.min(planes, width));
      return target;
    },
    decodeFixedLevels: (header, bytes, levels) =>
      decodeFixedLevels(memory, fixedPlanesShape(header), bytes, Math.min(levels, fixedPlaneCount)),
  };
}

/** A run of bytes in an encoding: where it begins, and its length. */
const bytesOfRun = 8;

/** Estimates a file's bytes that are those of a file of another length; undefined where they are not. */
function shiftedEstimate(tensor: Tensor, { base }: References): TensorEstimate | undefined {
  const { dtype, shape, bytes } = tensor;
  const areFiles = dtype === "U8" && base?.dtype === dtype && shape.length === 1 && base.shape.length === 1;
  if (!areFiles || bytes.length === base.bytes.length) return undefined;
  checkTensorLength(tensor, bytes.length);
  const taken = findTaken(tensor, base)?.taken;
  if (taken === undefined) return undefined;
  const known = knownPart(tensor, taken);
  const found = estimateTensor(known, known.bytes, { base: takenFrom(base, taken) });
  const length = found.bytes + bytes.length - known.bytes.length + bytesOfRun * taken.runs.length;
  return { ...found, bitsPerNumber: (8 * length) / bytes.length, bytes: length };
}

/** Bytes of a sample that is encoded, for types whose repeats decide. */
const repeatsSampleBytes = 2 ** 15;

/**
 * Estimates what a general coder or mixed bits make of a sample of integers, masks, short floats or pruned
 * weights, where that is shorter than what the numbers tell; undefined for other tensors.
 */
function repeatsEstimate(
  memory: KernelMemory,
  tensor: Tensor,
  references: References,
): TensorEstimate | undefined {
  const { dtype, bytes } = tensor;
  checkTensorLength(tensor, bytes.length);
  const kind = numberKind(dtype);
  const width = planeBytes(dtype);
  const { base } = wholeTensor(tensor, references);
  if (width === 0 || bytes.length === 0) return undefined;
  if ((kind?.isFloat ?? false) && !mayRepeat({ bytes, base, width })) return undefined;
  const plain = estimateTensor(tensor, bytes, references);
  const length = Math.min(bytes.length, repeatsSampleBytes);
  const start = Math.floor((bytes.length - length) / 2 / width) * width;
  const part = (of: Uint8Array): Tensor => ({
    dtype,
    shape: length === bytes.length ? tensor.shape : [(8 * length) / dtypeBits(dtype)],
    bytes: of.subarray(start, start + length),
  });
  const sample = encodeTensor(memory, part(bytes), base === undefined ? {} : { base: part(base) }, {});
  const expected = Math.ceil((sample.bytes.length * bytes.length) / length);
  if (expected >= plain.bytes) return plain;
  return {
    ...plain,
    predictor: sample.against.base ? "base" : "none",
    bitsPerNumber: (8 * expected * (kind?.bytes ?? 1)) / bytes.length,
    bytes: expected,
    isMixed: sample.code === encodingCodes.mixed,
  };
}

function estimateTensor(
  header: TensorHeader,
  bytes: Uint8Array,
  references: References = {},
): TensorEstimate {
  checkTensorLength(header, bytes.length);
  const kind = numberKind(header.dtype);
  if (kind === undefined || bytes.length === 0)
    return {
      predictor: "none",
      alpha64: 0,
      inUnits: false,
      bitsPerNumber: 8,
      equalShare: 0,
      bytes: bytes.length,
      isMixed: false,
    };
  const count = numberCount(header.dtype, bytes.length);
  const { base, previous } = wholeTensor(header, references);
  const found = estimateNumbers(kind, count, { bytes, base, previous }, maxSampleNumbers);
  const expected = found.equalShare === 1 ? 0 : Math.ceil((found.bitsPerNumber * count) / 8);
  return { ...found, bytes: expected, isMixed: false };
}
