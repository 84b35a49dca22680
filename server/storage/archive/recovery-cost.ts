/**
 * Computes what the recovery of a version reads and decodes, and how long that takes by the rates measured on
 * this machine. Looks at indexes only: no tensor is read.
 */
import { encodingCodes } from "../../../shared/delta/encoded.js";
import { listReferences } from "../../../shared/delta/links.js";
import { numberKind } from "../../../shared/delta/numbers.js";
import type { Leaf } from "../../../shared/model/model.js";
import type { ObjectReader, TensorEncoding } from "../../../shared/objects/object-store.js";
import { tensorByteLength } from "../../../shared/tensor/dtype.js";
import type { Hash, TensorHeader } from "../../../shared/tensor/tensor.js";
import { recreationUs, type ArchiveRates, type EdgeMeasure } from "./archive-rates.js";

export interface RecoveryCost {
  /** Tensors of the model, each once; of those, how many are stored as they are and how many are encoded. */
  readonly tensors: number;
  readonly raw: number;
  readonly coded: number;
  /** The number of other tensors that have to be decoded first. */
  readonly references: number;
  /** The most that have to be decoded one after the other. */
  readonly deepest: number;
  /** Stored bytes that are read. */
  readonly readBytes: number;
  /** Bytes that are decoded, those of references included. */
  readonly decodedBytes: number;
  /** Tensors that need low-order bytes from a tier. */
  readonly inTier: number;
  /** Paths of leaves whose tensors are not here, or cannot be decoded. */
  readonly missing: readonly string[];
  /** Milliseconds of reading, decoding and hashing, by the measured rates, one after the other. */
  readonly predictedMs: number;
}

type Store = Pick<ObjectReader, "encodingOf" | "stat">;

/** A tensor that several others are encoded against is counted once. */
export function recoveryCost(store: Store, leaves: readonly Leaf[], rates: ArchiveRates): RecoveryCost {
  const own = new Map(leaves.map((leaf) => [leaf.tensor, leaf]));
  const needed = new Map<Hash, Needed>();
  const missing: string[] = [];
  for (const leaf of leaves) if (!collect(store, leaf, needed)) missing.push(leaf.path);
  const ofModel = [...needed.values()].filter(({ id }) => own.has(id));
  const isCoded = ({ encoding }: Needed): boolean => encoding.code !== encodingCodes.raw;
  const coded = [...needed.values()].filter(isCoded);
  return {
    tensors: own.size,
    raw: ofModel.length - ofModel.filter(isCoded).length,
    coded: ofModel.filter(isCoded).length,
    references: needed.size - ofModel.length,
    deepest: ofModel.reduce((deepest, { encoding }) => Math.max(deepest, encoding.depth), 0),
    readBytes: [...needed.values()].reduce((sum, { encoding }) => sum + encoding.storedBytes, 0),
    decodedBytes: coded.reduce((sum, { header }) => sum + tensorByteLength(header.dtype, header.shape), 0),
    inTier: ofModel.filter(({ encoding }) => encoding.needsLowFile === true).length,
    missing,
    predictedMs: [...needed.values()].reduce((sum, each) => sum + costUs(each, rates), 0) / 1000,
  };
}

interface Needed {
  readonly id: Hash;
  readonly header: TensorHeader;
  readonly encoding: TensorEncoding;
}

/** @returns whether the tensor and all that it is encoded against are here */
function collect(store: Store, leaf: Leaf, needed: Map<Hash, Needed>): boolean {
  const waiting: Hash[] = [leaf.tensor];
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    if (needed.has(id)) continue;
    const encoding = store.encodingOf(id);
    const header = id === leaf.tensor ? leaf : store.stat(id)?.header;
    if (encoding === undefined || header === undefined) return false;
    needed.set(id, { id, header, encoding });
    waiting.push(...listReferences(encoding));
  }
  return true;
}

function costUs({ header, encoding }: Needed, rates: ArchiveRates): number {
  const byteLength = tensorByteLength(header.dtype, header.shape);
  return recreationUs(rates, {
    storedBytes: encoding.storedBytes,
    byteLength,
    numbers: byteLength / (numberKind(header.dtype)?.bytes ?? 1),
    decoding: decodingOf(encoding),
    // Every tensor that is recovered or decoded is hashed once.
    from: "nothing",
  });
}

function decodingOf({ code, base, previous }: TensorEncoding): EdgeMeasure["decoding"] {
  switch (code) {
    case encodingCodes.raw:
    case encodingCodes.equal:
      return "raw";
    case encodingCodes.planes:
    case encodingCodes.fixedPlanes:
      return "planes";
    case encodingCodes.general:
    case encodingCodes.mixed:
      return "mixed";
    case encodingCodes.lowRank:
      return "lowRank";
    default:
      return base === undefined ? "alone" : previous === undefined ? "delta" : "extrapolated";
  }
}
