/**
 * The ways a tensor can be stored, as edges of the planner's graph: as it lies, raw, packed, in byte planes,
 * as a difference. Each way is a function of one tensor; other sources of edges (another tier, a replay of a
 * training) are further functions of the same kind. Costs are estimated from samples, nothing is tried.
 */
import { StemmaError, type ErrorCode } from "../../shared/errors.js";
import type { DeltaCodec } from "../../shared/delta/codec.js";
import { commonBlock, extractBlock } from "../../shared/delta/common-block.js";
import { encodingCodes, type Predictor } from "../../shared/delta/encoded.js";
import { isFixedKind } from "../../shared/delta/fixed-planes.js";
import { estimateFixedPlanesBytes } from "../../shared/delta/fixed-planes-estimate.js";
import { numberKind, planeBytes } from "../../shared/delta/numbers.js";
import type { TensorEncoding } from "../../shared/objects/object-store.js";
import { maxCodedTensorBytes } from "../../shared/objects/object-store.js";
import { indexEntryBytes } from "../../shared/objects/pack-format.js";
import { isSchemeCode } from "../../shared/schemes/scheme.js";
import { dtypeBits, tensorByteLength } from "../../shared/tensor/dtype.js";
import type { Hash, Tensor, TensorHeader } from "../../shared/tensor/tensor.js";
import type { EdgeInput } from "../planner/storage-graph.js";
import type { ArchiveEncoding } from "./archive-plan.js";
import { recreationUs, type ArchiveRates, type EdgeMeasure } from "./archive-rates.js";
import type { CandidateReference } from "./candidate-references.js";
import type { ArchiveTensor } from "./read-versions.js";
import { isSampled, sampleOf, type TensorSamples } from "./tensor-samples.js";

/** Kinds of the edges made here. `delta-planes`: byte planes of the difference. `fixed`: fixed planes. */
export const edgeKinds = {
  current: "current",
  raw: "raw",
  packed: "packed",
  planes: "planes",
  fixed: "fixed",
  delta: "delta",
  deltaPlanes: "delta-planes",
} as const;

export interface EdgeContext {
  readonly layout: ArchiveEncoding;
  readonly codec: Pick<DeltaCodec, "estimate" | "encodeTensor">;
  readonly rates: ArchiveRates;
  readonly samples: TensorSamples;
  readonly tensor: (id: Hash) => ArchiveTensor | undefined;
  readonly candidates: (id: Hash) => readonly CandidateReference[];
  /** A whole tensor, for those that are compared by a block. */
  readonly load: (id: Hash) => Promise<Tensor>;
}
/**
 * Ways to store one tensor. The planner takes whatever edges come; who applies a plan must know their kinds.
 */
export type EdgeSource = (
  context: EdgeContext,
  tensor: ArchiveTensor,
) => Promise<readonly EdgeInput[]> | readonly EdgeInput[];

/** An entry in the index of a pack of coded tensors, with the ids of what the tensor was coded against. */
export function entryBytes(
  header: TensorHeader,
  { base, previous }: { readonly base?: Hash | undefined; readonly previous?: Hash | undefined } = {},
): number {
  return indexEntryBytes(
    { header, ...(base === undefined ? {} : { base }), ...(previous === undefined ? {} : { previous }) },
    2,
  );
}
/** Tables and heads that an estimate from a sample does not count (measured: 10 to 60 bytes, by size). */
function sideBytes(byteLength: number): number {
  return 10 + Math.min(80, byteLength / 64);
}
/** Whoever saves less than this share is not worth decoding. */
const worthwhileShare = 0.98;

function numbersOf({ header: { dtype }, byteLength }: ArchiveTensor): number {
  return byteLength / (numberKind(dtype)?.bytes ?? 1);
}
function isCodable({ header: { dtype }, byteLength }: ArchiveTensor): boolean {
  return byteLength > 0 && byteLength <= maxCodedTensorBytes && isSampled(dtype);
}

/** What an edge costs; `storedBytes` without its index entry. */
function edgeOf(
  { rates }: EdgeContext,
  tensor: ArchiveTensor,
  kind: string,
  storedBytes: number,
  decoding: EdgeMeasure["decoding"],
  from?: Hash,
  previous?: Hash,
): EdgeInput {
  return {
    to: tensor.id,
    kind,
    ...(from === undefined ? {} : { from }),
    ...(previous === undefined ? {} : { detail: { previous } }),
    storageCost: Math.ceil(storedBytes) + entryBytes(tensor.header, { base: from, previous }),
    recreationCost: recreationUs(rates, {
      storedBytes,
      byteLength: tensor.byteLength,
      numbers: numbersOf(tensor),
      decoding,
      from: from === undefined ? "nothing" : "tensor",
    }),
  };
}

function decodingOf({ code, base, previous }: TensorEncoding): EdgeMeasure["decoding"] {
  if (code === encodingCodes.raw) return "raw";
  if (code === encodingCodes.planes || code === encodingCodes.fixedPlanes) return "planes";
  return previous !== undefined ? "extrapolated" : base !== undefined ? "delta" : "alone";
}

const damages: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "OBJECT_MISSING",
  "OBJECT_HASH_MISMATCH",
  "PACK_CORRUPT",
  "REFERENCE_MISSING",
  "DELTA_MALFORMED",
  "DELTA_CODE_UNKNOWN",
  "DELTA_REFERENCE_MISSING",
  "FILE_MISSING",
]);
/** Whether an error says that one tensor is damaged or gone, and not that the disk fails. */
export function isAboutOneTensor(error: unknown): boolean {
  return error instanceof StemmaError && damages.has(error.code);
}

/**
 * As it lies, for a tensor that cannot be read and so cannot lie otherwise; what it is coded against then
 * stays for it whatever the plan says.
 */
export function unreadableEdge(context: EdgeContext, tensor: ArchiveTensor): EdgeInput {
  return edgeOf(context, tensor, edgeKinds.current, tensor.current.storedBytes, "raw");
}

/**
 * As it lies; nothing is written for it. Not on offer where it is coded against what no kept version has, or
 * is not in the layout asked for: what lies in fixed planes was put there for their sake.
 */
export const currentEdge: EdgeSource = async (context, tensor) => {
  const { code, base, previous, storedBytes } = tensor.current;
  if ([base, previous].some((id) => id !== undefined && context.tensor(id) === undefined)) return [];
  const { layout } = await wantedEncodingOf(context, tensor);
  const isFixed = code === encodingCodes.fixedPlanes;
  if (layout === "packed" ? isFixed : layout === "planes" ? code !== encodingCodes.planes : !isFixed)
    return [];
  return [
    edgeOf(context, tensor, edgeKinds.current, storedBytes, decodingOf(tensor.current), base, previous),
  ];
};

/**
 * Byte planes mean something only where elements have several bytes, and an index entry's worth of them; a
 * reduced tensor is smaller in its scheme's form than in any of them.
 */
const minPlanesBytes = 4096;
function canUsePlanes(tensor: ArchiveTensor): boolean {
  return (
    isCodable(tensor) &&
    !isSchemeCode(tensor.current.code) &&
    tensor.byteLength >= minPlanesBytes &&
    planeBytes(tensor.header.dtype) > 1
  );
}

/**
 * A matrix larger than this is not read whole to see whether it has a place in fixed planes: that is taken
 * for granted, and about so much of raw.
 */
const maxFixedEstimateBytes = 64 * 1024 * 1024;
const usualFixedShare = 0.86;

/**
 * The layout in which a tensor is wanted; `bytes`: about how long it would be in fixed planes, where it does
 * not lie so.
 */
interface WantedEncoding {
  readonly layout: ArchiveEncoding;
  readonly bytes?: number;
}
const wanted = new WeakMap<EdgeContext, WeakMap<ArchiveTensor, Promise<WantedEncoding>>>();

function wantedEncodingOf(context: EdgeContext, tensor: ArchiveTensor): Promise<WantedEncoding> {
  let known = wanted.get(context);
  if (known === undefined)
    wanted.set(context, (known = new WeakMap<ArchiveTensor, Promise<WantedEncoding>>()));
  let found = known.get(tensor);
  if (found === undefined) known.set(tensor, (found = findWantedEncoding(context, tensor)));
  return found;
}

async function findWantedEncoding(
  { layout, load }: EdgeContext,
  tensor: ArchiveTensor,
): Promise<WantedEncoding> {
  if (layout === "packed" || !canUsePlanes(tensor)) return { layout: "packed" };
  if (layout === "planes" || !isFixedKind(tensor.header)) return { layout: "planes" };
  if (tensor.current.code === encodingCodes.fixedPlanes) return { layout };
  const bytes =
    tensor.byteLength > maxFixedEstimateBytes
      ? usualFixedShare * tensor.byteLength
      : estimateFixedPlanesBytes(await load(tensor.id));
  return bytes === undefined ? { layout: "planes" } : { layout, bytes };
}

/** None of a tensor that somebody reduced by a float scheme: to lie compact is what it is for. */
export const rawEdge: EdgeSource = async (context, tensor) => {
  if (
    tensor.current.code === encodingCodes.raw ||
    isSchemeCode(tensor.current.code) ||
    (await wantedEncodingOf(context, tensor)).layout !== "packed"
  )
    return [];
  return [edgeOf(context, tensor, edgeKinds.raw, tensor.byteLength, "raw")];
};

/** Coded from nothing: packed, in byte planes or in fixed planes. */
export const withoutBaseEdge: EdgeSource = async (context, tensor) => {
  const { layout, bytes: fixedBytes } = await wantedEncodingOf(context, tensor);
  const inPlanes = layout === "planes";
  if (layout === "fixed")
    return fixedBytes === undefined
      ? []
      : [edgeOf(context, tensor, edgeKinds.fixed, fixedBytes + sideBytes(tensor.byteLength), "planes")];
  if (!isCodable(tensor) || isStoredWithoutBase(tensor, inPlanes)) return [];
  const sample = await context.samples.get(tensor.id);
  const { bytes } = estimateSample(context, sample);
  const storedBytes =
    scaled(bytes, sample, tensor) * (inPlanes ? planesShare : 1) + sideBytes(tensor.byteLength);
  if (inPlanes)
    return [
      edgeOf(
        context,
        tensor,
        edgeKinds.planes,
        Math.min(storedBytes, tensor.byteLength + sideBytes(tensor.byteLength)),
        "planes",
      ),
    ];
  return storedBytes > worthwhileShare * tensor.byteLength
    ? []
    : [edgeOf(context, tensor, edgeKinds.packed, storedBytes, "alone")];
};

/** Whether it lies coded from nothing already, packed or in byte planes. */
function isStoredWithoutBase(
  { header: { dtype }, current: { code, base } }: ArchiveTensor,
  inPlanes: boolean,
): boolean {
  if (base !== undefined || code === encodingCodes.raw || code === encodingCodes.fixedPlanes) return false;
  // Of types whose numbers the codec does not know planes are what packed is.
  return inPlanes || numberKind(dtype) === undefined
    ? code === encodingCodes.planes
    : code !== encodingCodes.planes;
}

/** Types whose numbers the codec does not know are coded in planes: of these the sample is coded. */
function estimateSample(
  { codec }: EdgeContext,
  sample: Tensor,
  references: { readonly base?: Tensor; readonly previous?: Tensor } = {},
): { readonly bytes: number; readonly predictor: Predictor } {
  if (numberKind(sample.dtype) !== undefined) return codec.estimate(sample, sample.bytes, references);
  const { bytes, against } = codec.encodeTensor(sample, sample.bytes, references);
  return { bytes: bytes.length, predictor: against.base ? "base" : "none" };
}

/** Planes are a little longer than what is packed (measured: 1 to 5 %). */
const planesShare = 1.03;

function scaled(bytes: number, sample: Tensor, { byteLength }: { readonly byteLength: number }): number {
  return sample.bytes.length === 0 ? 0 : (bytes / sample.bytes.length) * byteLength;
}

/**
 * As the difference from each candidate that a sample says is worth it (retrained models are not, ModelHub
 * §V-B).
 */
export const deltaEdges: EdgeSource = async (context, tensor) => {
  if (!isCodable(tensor)) return [];
  const edges: EdgeInput[] = [];
  for (const candidate of context.candidates(tensor.id)) {
    const from = context.tensor(candidate.from);
    if (from === undefined || from.header.dtype !== tensor.header.dtype || !isCodable(from)) continue;
    // Another tensor's damage is no matter of this one.
    try {
      edges.push(
        ...(isSameShape(from.header, tensor.header)
          ? await sameShapeEdges(context, tensor, candidate)
          : await blockEdges(context, tensor, from)),
      );
    } catch (error) {
      if (!isAboutOneTensor(error)) throw error;
    }
  }
  return edges;
};

function isSameShape(a: TensorHeader, b: TensorHeader): boolean {
  return a.shape.length === b.shape.length && a.shape.every((size, i) => size === b.shape[i]);
}

async function sameShapeEdges(
  context: EdgeContext,
  tensor: ArchiveTensor,
  { from, previous: named }: CandidateReference,
): Promise<readonly EdgeInput[]> {
  const { layout } = await wantedEncodingOf(context, tensor);
  const inPlanes = layout === "planes";
  const known = named === undefined ? undefined : context.tensor(named);
  if (layout === "fixed") return [];
  const previous =
    !inPlanes &&
    known !== undefined &&
    isSameShape(known.header, tensor.header) &&
    known.header.dtype === tensor.header.dtype
      ? known.id
      : undefined;
  const [sample, base, before] = [
    await context.samples.get(tensor.id),
    await context.samples.get(from),
    previous === undefined ? undefined : await context.samples.get(previous),
  ];
  const edges: EdgeInput[] = [];
  const offer = (withPrevious: boolean): void => {
    const { current } = tensor;
    const isThere =
      current.base === from &&
      current.previous === (withPrevious ? previous : undefined) &&
      (current.code === encodingCodes.planes) === inPlanes;
    const found = estimateSample(context, sample, { base, ...(withPrevious ? { previous: before } : {}) });
    if (isThere || found.predictor !== (withPrevious ? "extrapolated" : "base")) return;
    const storedBytes =
      scaled(found.bytes, sample, tensor) * (inPlanes ? planesShare : 1) + sideBytes(tensor.byteLength);
    if (storedBytes > worthwhileShare * tensor.byteLength) return;
    edges.push(
      edgeOf(
        context,
        tensor,
        inPlanes ? edgeKinds.deltaPlanes : edgeKinds.delta,
        storedBytes,
        inPlanes ? "planes" : withPrevious ? "extrapolated" : "delta",
        from,
        withPrevious ? previous : undefined,
      ),
    );
  };
  offer(false);
  if (before !== undefined) offer(true);
  return edges;
}

/** Tensors that are compared by a block are read whole; beyond this they are not. */
const maxBlockTensorBytes = 64 * 1024 * 1024;

/**
 * Another shape (a last layer that was replaced, ModelHub fn 3): what both have in common as a difference,
 * the rest alone.
 */
async function blockEdges(
  context: EdgeContext,
  tensor: ArchiveTensor,
  from: ArchiveTensor,
): Promise<readonly EdgeInput[]> {
  const {
    header: { dtype, shape },
  } = tensor;
  const block = commonBlock(shape, from.header.shape);
  if (
    context.layout !== "packed" ||
    block === undefined ||
    numberKind(dtype) === undefined ||
    Math.max(tensor.byteLength, from.byteLength) > maxBlockTensorBytes ||
    tensor.current.base === from.id
  )
    return [];
  const [own, other] = [await context.load(tensor.id), await context.load(from.id)];
  const elementBytes = dtypeBits(dtype) / 8;
  const blockBytes = tensorByteLength(dtype, block);
  const [sample, base] = (await Promise.all(
    [own, other].map(({ bytes, shape: whole }) =>
      sampleBytes(dtype, block, extractBlock(bytes, whole, block, elementBytes)),
    ),
  )) as [Tensor, Tensor];
  const found = context.codec.estimate(sample, sample.bytes, { base });
  if (found.predictor !== "base") return [];
  const alone = await context.samples.get(tensor.id);
  const rest = scaled(context.codec.estimate(alone, alone.bytes).bytes, alone, {
    byteLength: tensor.byteLength - blockBytes,
  });
  const storedBytes =
    scaled(found.bytes, sample, { byteLength: blockBytes }) + rest + 2 * sideBytes(tensor.byteLength);
  return storedBytes > worthwhileShare * tensor.byteLength
    ? []
    : [edgeOf(context, tensor, edgeKinds.delta, storedBytes, "delta", from.id)];
}

async function sampleBytes(
  dtype: Tensor["dtype"],
  shape: readonly number[],
  bytes: Uint8Array,
): Promise<Tensor> {
  return await sampleOf({
    dtype,
    shape,
    byteLength: bytes.length,
    chunks: async function* () {
      yield await Promise.resolve(bytes);
    },
  });
}

export const defaultEdgeSources: readonly EdgeSource[] = [currentEdge, rawEdge, withoutBaseEdge, deltaEdges];
