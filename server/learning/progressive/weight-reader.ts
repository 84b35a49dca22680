/**
 * Reads the weights level by level, from a store's byte planes or fixed planes. Fixed planes can also be encoded for
 * one evaluation. The bytes of a level include those of the levels before. Uses the store only through a port.
 */
import type { DeltaCodec } from "../../../shared/delta/codec.js";
import { encodingCodes } from "../../../shared/delta/encoded.js";
import { fixedPlaneCount, type FixedLevels } from "../../../shared/delta/fixed-planes.js";
import type { Tensor, TensorHeader } from "../../../shared/tensor/tensor.js";
import { fixedBounds } from "./fixed-bounds.js";
import { floatPlaneCount, weightBounds, type WeightBounds } from "./weight-bounds.js";

/** The bounds of a tensor at a level, and the bytes that were read for them. */
export interface KnownTensor {
  readonly bounds: WeightBounds;
  /** Stored bytes that were read for it, those of the levels before included. */
  readonly readBytes: number;
}

export interface WeightReader {
  /** Stored bytes of all tensors. */
  readonly totalBytes: number;
  /**
   * @param leaf index in canonical order
   * @param level 1 … 3: how many of the highest bytes of each element may be used
   */
  read(leaf: number, level: number): Promise<KnownTensor>;
  /** Reads all tensors completely. Returns the stored bytes that this takes. */
  readAll(): Promise<number>;
}

/**
 * Biases and the statistics of batch normalization are few bytes that decide much: tensors of at most this
 * rank are read completely.
 */
const maxRankReadInFull = 1;

/** Returns the number of an element's bytes that are known at a level. */
export function knownPlanesAt(shape: readonly number[], level: number): number {
  return shape.length <= maxRankReadInFull ? floatPlaneCount : level;
}

/** The port to a store. */
export interface StoredWeights {
  /** Stored bytes of the complete tensor, those of the tensors it is encoded against included. */
  storedBytes(leaf: number): number;
  /**
   * Returns the tensor with only the highest `planes` bytes of each element, the others zero, and the number
   * of stored bytes that had to be read. `known` is how many bytes of each element are known, where that is
   * more than `planes`.
   */
  readHighPlanes(
    leaf: number,
    planes: number,
  ): Promise<{ readonly bytes: Uint8Array; readonly readBytes: number; readonly known?: number }>;
  /** The first fixed planes (1 … 3) of a tensor; undefined where it is not stored in fixed planes. */
  readFixedPlanes(
    leaf: number,
    planes: number,
  ): Promise<{ readonly levels: FixedLevels; readonly readBytes: number } | undefined>;
}

export function storedReader(
  headers: readonly Pick<TensorHeader, "shape">[],
  stored: StoredWeights,
): WeightReader {
  return {
    totalBytes: headers.reduce((sum, _, leaf) => sum + stored.storedBytes(leaf), 0),
    async read(leaf, level) {
      const { shape } = headers[leaf]!;
      const planes = knownPlanesAt(shape, level);
      const fixed = planes > fixedPlaneCount ? undefined : await stored.readFixedPlanes(leaf, planes);
      if (fixed !== undefined) return { bounds: fixedBounds(fixed.levels), readBytes: fixed.readBytes };
      const { bytes, readBytes, known = planes } = await stored.readHighPlanes(leaf, planes);
      return { bounds: weightBounds(shape, bytes, known), readBytes };
    },
    async readAll() {
      let sum = 0;
      for (const leaf of headers.keys())
        sum += (await stored.readHighPlanes(leaf, floatPlaneCount)).readBytes;
      return sum;
    },
  };
}

/**
 * Encodes tensors in fixed planes and reads them level by level. Tensors that this encoding does not support,
 * and those of low rank, are known completely from the first level.
 */
export function fixedReader(
  tensors: readonly Tensor[],
  codec: Pick<DeltaCodec, "encodeTensor" | "planesPrefixBytes" | "decodeFixedLevels">,
): WeightReader {
  const encodedTensors = tensors.map((tensor) => {
    const encoded =
      tensor.shape.length <= maxRankReadInFull
        ? undefined
        : codec.encodeTensor(tensor, tensor.bytes, {}, { layout: "fixed" });
    return encoded?.code === encodingCodes.fixedPlanes ? encoded.bytes : undefined;
  });
  const totalBytes = tensors.reduce(
    (sum, { bytes }, leaf) => sum + (encodedTensors[leaf] ?? bytes).length,
    0,
  );
  return {
    totalBytes,
    read(leaf, level) {
      const tensor = tensors[leaf]!;
      const encoded = encodedTensors[leaf];
      if (encoded === undefined)
        return Promise.resolve({
          bounds: weightBounds(tensor.shape, tensor.bytes, floatPlaneCount),
          readBytes: tensor.bytes.length,
        });
      return Promise.resolve({
        bounds: fixedBounds(codec.decodeFixedLevels(tensor, encoded, level)),
        readBytes: codec.planesPrefixBytes(tensor, encoded, level, encodingCodes.fixedPlanes),
      });
    },
    readAll: () => Promise.resolve(totalBytes),
  };
}
