/**
 * Edges of an archive's storage graph: their kinds, the context of the functions that find them, and their
 * costs. Costs are estimated from samples; complete tensors are not encoded for it.
 */
import { linksOf, listReferences, type Links } from "../../../shared/delta/links.js";
import type { DeltaCodec } from "../../../shared/delta/codec.js";
import {
  encodingCodes,
  type EncodedTensor,
  type Predictor,
  type References,
} from "../../../shared/delta/encoded.js";
import { numberKind } from "../../../shared/delta/numbers.js";
import { isStemmaError, type ErrorCode } from "../../../shared/errors.js";
import { maxCodedTensorBytes } from "../../../shared/objects/object-store.js";
import { indexEntryBytes } from "../../../shared/objects/pack-entry.js";
import type { Hash, Tensor, TensorHeader } from "../../../shared/tensor/tensor.js";
import type { EdgeInput } from "../planner/storage-graph.js";
import type { ArchiveEncoding } from "./archive-plan.js";
import { recreationUs, type ArchiveRates, type EdgeMeasure } from "./archive-rates.js";
import type { CandidateReference } from "./candidate-references.js";
import type { ArchiveTensor } from "./read-versions.js";
import type { Relatives } from "./relatives.js";
import { isSampled, type TensorSamples } from "./tensor-samples.js";

/** Kinds of the edges made here. `delta-planes`: byte planes of the difference. `fixed`: fixed planes. `low-rank`: the
 * difference from a low-rank prediction. */
export const edgeKinds = {
  current: "current",
  raw: "raw",
  packed: "packed",
  planes: "planes",
  fixed: "fixed",
  delta: "delta",
  deltaPlanes: "delta-planes",
  lowRank: "low-rank",
} as const;

export interface EdgeContext {
  readonly layout: ArchiveEncoding;
  readonly codec: Pick<DeltaCodec, "estimate" | "encodeTensor">;
  readonly rates: ArchiveRates;
  readonly samples: TensorSamples;
  readonly tensor: (id: Hash) => ArchiveTensor | undefined;
  readonly candidates: (id: Hash) => readonly CandidateReference[];
  readonly relatives: Relatives;
  /** Reads a complete tensor, where a sample is not enough. */
  readonly load: (id: Hash) => Promise<Tensor>;
  readonly findLowRank: LowRankSearch;
  /** Encodes off the event loop where the tensor follows from its references, else gives raw bytes. Takes them over. */
  readonly encodeFollowing: (tensor: Tensor, references: References) => Promise<EncodedTensor>;
}

/**
 * Finds by encoding off the event loop how a tensor would be stored with a low-rank prediction; undefined
 * where it would not be smaller, or no time is left for such searches. Takes over its arguments.
 */
export type LowRankSearch = (
  tensor: Tensor,
  references: { readonly base: Tensor; readonly previous?: Tensor | undefined },
) => Promise<{ readonly storedBytes: number; readonly usesPrevious: boolean } | undefined>;

/**
 * Finds ways to store one tensor. The planner takes any edges; the code that applies a plan must know their
 * kinds.
 */
export type EdgeSource = (
  context: EdgeContext,
  tensor: ArchiveTensor,
) => Promise<readonly EdgeInput[]> | readonly EdgeInput[];

/** Bytes of a tensor's entry in a pack's index, with the ids of the tensors that it is encoded against. */
export function entryBytes(header: TensorHeader, links: Links<Hash> = {}): number {
  return indexEntryBytes({ header, ...linksOf(links) }, 2);
}

/** Bytes of tables and headers, which estimates from samples leave out (measured: 10 to 60, by size). */
export function sideBytes(byteLength: number): number {
  return 10 + Math.min(80, byteLength / 64);
}

/** An encoding that takes more than this share of the raw bytes is not offered: it is not worth decoding. */
export const maxEncodedShare = 0.98;
/** Byte planes are a little longer than the packed encoding (measured: 1 to 5 %). */
export const planesShare = 1.03;

export function isCodable({ header: { dtype }, byteLength }: ArchiveTensor): boolean {
  return byteLength > 0 && byteLength <= maxCodedTensorBytes && isSampled(dtype);
}

/** One way to store a tensor, without its costs. */
export interface StorageWay extends Links<Hash> {
  readonly kind: string;
  /** The stored bytes without the index entry. */
  readonly storedBytes: number;
  readonly decoding: EdgeMeasure["decoding"];
  /**
   * True if the references after the base are recreated apart from it, so that the edge's cost includes an
   * estimate of theirs (reference-costs.ts); else they are among what the base is decoded from.
   */
  readonly isApart?: boolean;
}

/** The edge for one way to store a tensor, with its storage cost in bytes and recreation cost in µs. */
export function edgeOf(context: EdgeContext, tensor: ArchiveTensor, way: StorageWay): EdgeInput {
  const { kind, storedBytes, decoding, base } = way;
  const { rates } = context;
  const others = listReferences(way).slice(1);
  const apartUs = way.isApart === true ? others.reduce((sum, id) => sum + aloneUs(context, id), 0) : 0;
  return {
    to: tensor.id,
    kind,
    from: base,
    detail: detailOf(way, apartUs),
    storageCost: Math.ceil(storedBytes) + entryBytes(tensor.header, way),
    recreationCost:
      apartUs +
      recreationUs(rates, {
        storedBytes,
        byteLength: tensor.byteLength,
        numbers: numbersOf(tensor),
        decoding,
        from: base === undefined ? "nothing" : "tensor",
      }),
  };
}

function numbersOf({ byteLength, header }: ArchiveTensor): number {
  return byteLength / (numberKind(header.dtype)?.bytes ?? 1);
}

/** An estimate of recreating a tensor that is stored alone. */
function aloneUs({ rates, tensor }: EdgeContext, id: Hash): number {
  const own = tensor(id);
  if (own === undefined) return 0;
  const { byteLength, current } = own;
  return recreationUs(rates, {
    storedBytes: current.storedBytes,
    byteLength,
    numbers: numbersOf(own),
    decoding: "alone",
    from: "nothing",
  });
}

/** The references after the base, as a plan's edge names them, with the estimate of their cost that it includes. */
function detailOf(
  { previous, others = [], isApart = false }: StorageWay,
  apartUs: number,
): EdgeInput["detail"] {
  if (previous === undefined) return undefined;
  return {
    previous,
    ...(others.length === 0 ? {} : { others: others.join(" ") }),
    ...(isApart ? { apart: true, apartUs } : {}),
  };
}

/**
 * Estimates a sample's encoded bytes. Types whose numbers the codec does not know are encoded in planes, for
 * which there is no estimate: their sample is actually encoded.
 */
export function estimateSample(
  { codec }: EdgeContext,
  sample: Tensor,
  references: { readonly base?: Tensor | undefined; readonly previous?: Tensor | undefined } = {},
): { readonly bytes: number; readonly predictor: Predictor; readonly isMixed: boolean } {
  if (numberKind(sample.dtype) !== undefined) return codec.estimate(sample, sample.bytes, references);
  const { code, bytes, against } = codec.encodeTensor(sample, sample.bytes, references);
  return {
    bytes: bytes.length,
    predictor: against.base ? "base" : "none",
    isMixed: code === encodingCodes.mixed,
  };
}

/** A sample's encoded bytes, scaled up to the tensor that it was taken from. */
export function scaledBytes(bytes: number, sample: Tensor, byteLength: number): number {
  return sample.bytes.length === 0 ? 0 : (bytes / sample.bytes.length) * byteLength;
}

const tensorErrors: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "OBJECT_MISSING",
  "OBJECT_HASH_MISMATCH",
  "PACK_CORRUPT",
  "REFERENCE_MISSING",
  "DELTA_MALFORMED",
  "DELTA_CODE_UNKNOWN",
  "DELTA_REFERENCE_MISSING",
  "FILE_MISSING",
]);

/** True if an error means that one tensor is damaged or gone, and not that the disk fails. */
export function isAboutOneTensor(error: unknown): boolean {
  return isStemmaError(error) && tensorErrors.has(error.code);
}
