/**
 * Where the weights' bytes come from, a level at a time: the store's byte planes of IEEE's own order, or
 * fixed planes. A level's bytes hold those of the levels before. Knows no store, only the port to one.
 */
import type { TensorHeader } from "../../shared/tensor/tensor.js";
import { sizeOf } from "./bounds.js";
import { encodeFixedPlanes, fixedBounds, fixedPlaneCount, fixedSizes } from "./fixed-planes.js";
import { allPlanes, weightBounds, type WeightBounds } from "./weight-bounds.js";

/** What is known of a tensor at a level. */
export interface KnownTensor {
  readonly bounds: WeightBounds;
  /** Of its bytes in the layout, those that are known. */
  readonly knownBytes: number;
  /** Stored bytes that were read for it, from the first. */
  readonly readBytes: number;
}

export interface WeightReader {
  /** Bytes of all tensors in the layout. */
  readonly totalBytes: number;
  /** @param leaf index in canonical order @param level 1 … 3: the highest bytes of an element that may be used */
  read(leaf: number, level: number): Promise<KnownTensor>;
  /** What reading everything takes from the store. */
  readAll(): Promise<number>;
}

/** Biases and the statistics of batch norm are few bytes that decide much: tensors of at most this rank are read whole. */
const wholeRank = 1;

/** How many bytes of an element are known at a level. */
export function planesAt(shape: readonly number[], level: number): number { return shape.length <= wholeRank ? allPlanes : level; }

/** The port to a store: the tensor with only its highest `planes` bytes an element, the others nought, and what had to be read. */
export type ReadHighPlanes = (leaf: number, planes: number) => Promise<{ readonly bytes: Uint8Array; readonly readBytes: number }>;

export function planesReader(headers: readonly Pick<TensorHeader, "shape">[], readHighPlanes: ReadHighPlanes): WeightReader {
  return {
    totalBytes: headers.reduce((sum, { shape }) => sum + allPlanes * sizeOf(shape), 0),
    async read(leaf, level) {
      const { shape } = headers[leaf]!, planes = planesAt(shape, level), { bytes, readBytes } = await readHighPlanes(leaf, planes);
      return { bounds: weightBounds(shape, bytes, planes), knownBytes: planes * sizeOf(shape), readBytes };
    },
    async readAll() {
      let sum = 0;
      for (const leaf of headers.keys()) sum += (await readHighPlanes(leaf, allPlanes)).readBytes;
      return sum;
    },
  };
}

/** The same tensors laid out in fixed planes; those that have no place in them (and those read whole) as they are, known from the first level. */
export function fixedReader(tensors: readonly { readonly shape: readonly number[]; readonly bytes: Uint8Array }[]): WeightReader {
  const laidOut = tensors.map(({ shape, bytes }) => (shape.length <= wholeRank ? undefined : encodeFixedPlanes(shape, bytes)));
  const sizes = tensors.map(({ bytes }, leaf) => (laidOut[leaf] === undefined ? [bytes.length] : fixedSizes(laidOut[leaf])));
  const totalBytes = sizes.reduce((sum, parts) => sum + parts.reduce((a, b) => a + b, 0), 0);
  return {
    totalBytes,
    read(leaf, level) {
      const planes = laidOut[leaf], { shape, bytes } = tensors[leaf]!, knownBytes = sizes[leaf]!.slice(0, level).reduce((a, b) => a + b, 0);
      return Promise.resolve({ bounds: planes === undefined ? weightBounds(shape, bytes, allPlanes) : fixedBounds(planes, Math.min(level, fixedPlaneCount)), knownBytes, readBytes: knownBytes });
    },
    readAll: () => Promise.resolve(totalBytes),
  };
}
