/**
 * Where the weights' bytes come from, a level at a time: from a store, in the byte planes or fixed planes in
 * which they lie there; or laid out in fixed planes for the occasion. A level's bytes hold those of the
 * levels before. Knows no store, only the port to one.
 */
import type { DeltaCodec } from "../../shared/delta/codec.js";
import { encodingCodes } from "../../shared/delta/encoded.js";
import { fixedPlaneCount, type FixedLevels } from "../../shared/delta/fixed-planes.js";
import type { Tensor, TensorHeader } from "../../shared/tensor/tensor.js";
import { fixedBounds } from "./fixed-bounds.js";
import { allPlanes, weightBounds, type WeightBounds } from "./weight-bounds.js";

/** What is known of a tensor at a level. */
export interface KnownTensor {
  readonly bounds: WeightBounds;
  /** Stored bytes that were read for it, from the first. */
  readonly readBytes: number;
}

export interface WeightReader {
  /** Stored bytes of all tensors. */
  readonly totalBytes: number;
  /**
   * @param leaf index in canonical order @param level 1 … 3: the highest bytes of an element that may be used
   */
  read(leaf: number, level: number): Promise<KnownTensor>;
  /** What reading everything takes from the store. */
  readAll(): Promise<number>;
}

/**
 * Biases and the statistics of batch norm are few bytes that decide much: tensors of at most this rank are
 * read whole.
 */
const wholeRank = 1;

/** How many bytes of an element are known at a level. */
export function planesAt(shape: readonly number[], level: number): number {
  return shape.length <= wholeRank ? allPlanes : level;
}

/** The port to a store. */
export interface StoredWeights {
  /** Stored bytes that the whole tensor takes, those of what it is coded against included. */
  storedBytes(leaf: number): number;
  /**
   * The tensor with only its highest `planes` bytes an element, the others zero, and the stored bytes that
   * had to be read. `known`: how many bytes an element has, where that is more.
   */
  readHighPlanes(
    leaf: number,
    planes: number,
  ): Promise<{ readonly bytes: Uint8Array; readonly readBytes: number; readonly known?: number }>;
  /** What its first fixed planes (1 … 3) say; undefined where it does not lie in any. */
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
      const planes = planesAt(shape, level);
      const fixed = planes > fixedPlaneCount ? undefined : await stored.readFixedPlanes(leaf, planes);
      if (fixed !== undefined) return { bounds: fixedBounds(fixed.levels), readBytes: fixed.readBytes };
      const { bytes, readBytes, known = planes } = await stored.readHighPlanes(leaf, planes);
      return { bounds: weightBounds(shape, bytes, known), readBytes };
    },
    async readAll() {
      let sum = 0;
      for (const leaf of headers.keys()) sum += (await stored.readHighPlanes(leaf, allPlanes)).readBytes;
      return sum;
    },
  };
}

/**
 * The same tensors as they would lie in fixed planes; those that have no place in them (and those read whole)
 * as they are, known from the first level.
 */
export function fixedReader(
  tensors: readonly Tensor[],
  codec: Pick<DeltaCodec, "encodeTensor" | "planesPrefixBytes" | "decodeFixedLevels">,
): WeightReader {
  const laidOut = tensors.map((tensor) => {
    const encoded =
      tensor.shape.length <= wholeRank
        ? undefined
        : codec.encodeTensor(tensor, tensor.bytes, {}, { layout: "fixed" });
    return encoded?.code === encodingCodes.fixedPlanes ? encoded.bytes : undefined;
  });
  const totalBytes = tensors.reduce((sum, { bytes }, leaf) => sum + (laidOut[leaf] ?? bytes).length, 0);
  return {
    totalBytes,
    read(leaf, level) {
      const tensor = tensors[leaf]!;
      const encoded = laidOut[leaf];
      if (encoded === undefined)
        return Promise.resolve({
          bounds: weightBounds(tensor.shape, tensor.bytes, allPlanes),
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
