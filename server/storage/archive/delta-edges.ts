/**
 * Edges that store a tensor as a difference from another one. The versions' trees give the candidates; an
 * estimate from a sample decides which of them are worth offering.
 */
import { commonBlock, extractBlock } from "../../../shared/delta/common-block.js";
import { encodingCodes } from "../../../shared/delta/encoded.js";
import { numberKind } from "../../../shared/delta/numbers.js";
import { dtypeBits, tensorByteLength } from "../../../shared/tensor/dtype.js";
import type { Hash, Tensor, TensorHeader } from "../../../shared/tensor/tensor.js";
import { previousOf } from "./archive-plan.js";
import type { EdgeInput } from "../planner/storage-graph.js";
import type { CandidateReference } from "./candidate-references.js";
import {
  edgeKinds,
  edgeOf,
  entryBytes,
  estimateSample,
  isAboutOneTensor,
  isCodable,
  planesShare,
  scaledBytes,
  sideBytes,
  maxEncodedShare,
  type EdgeContext,
  type EdgeSource,
} from "./edge-costs.js";
import type { ArchiveTensor } from "./read-versions.js";
import { averageEdges, derivedEdges } from "./relation-edges.js";
import { sampleOf } from "./tensor-samples.js";
import { wantedEncodingOf } from "./wanted-encoding.js";

/**
 * The difference from each candidate for which a sample promises a gain (models that were retrained from
 * scratch promise none, ModelHub §V-B).
 */
export const deltaEdges: EdgeSource = async (context, tensor) => {
  if (!isCodable(tensor)) return [];
  const edges: EdgeInput[] = [];
  const { current } = tensor;
  for (const candidate of context.candidates(tensor.id)) {
    const base = context.tensor(candidate.from);
    if (base === undefined || !isCodable(base)) continue;
    try {
      edges.push(...(await edgesFrom(context, { tensor, candidate, base })));
    } catch (error) {
      // A damaged candidate is skipped; this tensor may still be encoded against others.
      if (!isAboutOneTensor(error)) throw error;
    }
  }
  edges.push(...(await averageEdges(context, tensor)));
  if (current.code === encodingCodes.lowRank || context.layout !== "packed") return edges;
  const lowRank = await lowRankEdge(context, tensor, bestReferences(tensor, edges));
  return lowRank === undefined ? edges : [...edges, lowRank];
};

/** A tensor that may be stored after another one. */
interface Pair {
  readonly tensor: ArchiveTensor;
  readonly candidate: CandidateReference;
  readonly base: ArchiveTensor;
}

async function edgesFrom(context: EdgeContext, pair: Pair): Promise<readonly EdgeInput[]> {
  const { tensor, candidate, base } = pair;
  const isSame = isSameShape(base.header, tensor.header);
  const edges =
    base.header.dtype !== tensor.header.dtype
      ? []
      : isSame
        ? await sameShapeEdges(context, tensor, candidate)
        : await blockEdges(context, tensor, base);
  // Only an ancestor of the same type and shape is compared completely: a fine-tune of it has a difference.
  const mayFollow = edges.length === 0 && (!isSame || ["ancestor", "content"].includes(candidate.relation));
  return mayFollow ? await derivedEdges(context, pair) : edges;
}

interface EdgeReferences {
  readonly base: Hash;
  readonly previous: Hash | undefined;
  readonly storedBytes: number;
}

/** The references of the smallest difference, among those found and the current one. */
function bestReferences(
  { header, current }: ArchiveTensor,
  edges: readonly EdgeInput[],
): EdgeReferences | undefined {
  const { base, previous, storedBytes } = current;
  let best: EdgeReferences | undefined =
    base === undefined
      ? undefined
      : { base, previous, storedBytes: storedBytes + entryBytes(header, { base, previous }) };
  for (const edge of edges) {
    if (edge.from === undefined || (best !== undefined && edge.storageCost >= best.storedBytes)) continue;
    best = { base: edge.from as Hash, previous: previousOf(edge), storedBytes: edge.storageCost };
  }
  return best;
}

/** Smaller tensors have no structure that pays, larger ones are not read twice for it. */
const minLowRankBytes = 8 * 1024;
const maxLowRankBytes = 64 * 1024 * 1024;

/**
 * The difference from a low-rank prediction by the references of the best plain difference: fewer bytes, and
 * a longer recreation, as the planner weighs them.
 */
async function lowRankEdge(
  context: EdgeContext,
  tensor: ArchiveTensor,
  references: EdgeReferences | undefined,
): Promise<EdgeInput | undefined> {
  const { header, byteLength } = tensor;
  const base = references && context.tensor(references.base);
  if (references === undefined || base === undefined || !isSameShape(base.header, header)) return undefined;
  if (base.header.dtype !== header.dtype || numberKind(header.dtype)?.isFloat !== true) return undefined;
  if (header.shape.length < 2 || byteLength < minLowRankBytes || byteLength > maxLowRankBytes)
    return undefined;
  const previous = usablePrevious(context, tensor, references.previous);
  const found = await context.findLowRank(await context.load(tensor.id), {
    base: await context.load(base.id),
    previous: previous === undefined ? undefined : await context.load(previous),
  });
  if (found === undefined) return undefined;
  return edgeOf(context, tensor, {
    kind: edgeKinds.lowRank,
    storedBytes: found.storedBytes,
    decoding: "lowRank",
    base: base.id,
    previous: found.usesPrevious ? previous : undefined,
  });
}

function isSameShape(a: TensorHeader, b: TensorHeader): boolean {
  return a.shape.length === b.shape.length && a.shape.every((size, i) => size === b.shape[i]);
}

/**
 * One edge with the candidate as base, and one that predicts on the line through `previous` and the
 * candidate.
 */
async function sameShapeEdges(
  context: EdgeContext,
  tensor: ArchiveTensor,
  candidate: CandidateReference,
): Promise<readonly EdgeInput[]> {
  const { layout } = await wantedEncodingOf(context, tensor);
  if (layout === "fixed") return [];
  const previous = layout === "planes" ? undefined : usablePrevious(context, tensor, candidate.previous);
  const pair: SampledPair = {
    inPlanes: layout === "planes",
    baseId: candidate.from,
    sample: await context.samples.get(tensor.id),
    base: await context.samples.get(candidate.from),
  };
  const edges = [deltaEdge(context, tensor, pair)];
  if (previous !== undefined) {
    const sample = await context.samples.get(previous);
    edges.push(deltaEdge(context, tensor, pair, { id: previous, sample }));
  }
  return edges.filter((edge) => edge !== undefined);
}

/** The second tensor of a prediction must have the same type and shape. */
function usablePrevious(
  context: EdgeContext,
  tensor: ArchiveTensor,
  previous: Hash | undefined,
): Hash | undefined {
  const known = previous === undefined ? undefined : context.tensor(previous);
  if (known === undefined || known.header.dtype !== tensor.header.dtype) return undefined;
  return isSameShape(known.header, tensor.header) ? known.id : undefined;
}

interface SampledPair {
  readonly inPlanes: boolean;
  readonly baseId: Hash;
  /** Samples of the tensor and of its base. */
  readonly sample: Tensor;
  readonly base: Tensor;
}

function deltaEdge(
  context: EdgeContext,
  tensor: ArchiveTensor,
  { inPlanes, baseId, sample, base }: SampledPair,
  previous?: { readonly id: Hash; readonly sample: Tensor },
): EdgeInput | undefined {
  const { current } = tensor;
  const isAlreadyStoredThisWay =
    current.base === baseId &&
    current.previous === previous?.id &&
    current.code !== encodingCodes.lowRank &&
    (current.code === encodingCodes.planes) === inPlanes;
  if (isAlreadyStoredThisWay) return undefined;
  const references = { base, previous: previous?.sample };
  const { bytes, predictor, isMixed } = estimateSample(context, sample, references);
  if (predictor !== (previous === undefined ? "base" : "extrapolated")) return undefined;
  const storedBytes =
    scaledBytes(bytes, sample, tensor.byteLength) * (inPlanes ? planesShare : 1) +
    sideBytes(tensor.byteLength);
  if (storedBytes > maxEncodedShare * tensor.byteLength) return undefined;
  return edgeOf(context, tensor, {
    kind: inPlanes ? edgeKinds.deltaPlanes : edgeKinds.delta,
    storedBytes,
    decoding: inPlanes ? "planes" : isMixed ? "mixed" : previous === undefined ? "delta" : "extrapolated",
    base: baseId,
    previous: previous?.id,
  });
}

/** Larger tensors are not compared by their common block, because both would be read completely. */
const maxBlockTensorBytes = 64 * 1024 * 1024;

/**
 * The difference from a tensor of another shape (a last layer that was replaced, ModelHub footnote 3): the
 * block that both have is encoded as a difference, the other numbers without a base.
 */
async function blockEdges(
  context: EdgeContext,
  tensor: ArchiveTensor,
  base: ArchiveTensor,
): Promise<readonly EdgeInput[]> {
  const { dtype, shape } = tensor.header;
  const block = commonBlock(shape, base.header.shape);
  if (context.layout !== "packed" || block === undefined || numberKind(dtype) === undefined) return [];
  if (Math.max(tensor.byteLength, base.byteLength) > maxBlockTensorBytes) return [];
  if (tensor.current.base === base.id) return [];
  const blockBytes = tensorByteLength(dtype, block);
  const sample = await sampleBlock(await context.load(tensor.id), block);
  const baseSample = await sampleBlock(await context.load(base.id), block);
  const inBlock = context.codec.estimate(sample, sample.bytes, { base: baseSample });
  if (inBlock.predictor !== "base") return [];
  const tensorSample = await context.samples.get(tensor.id);
  const outsideBlock = context.codec.estimate(tensorSample, tensorSample.bytes);
  const storedBytes =
    scaledBytes(inBlock.bytes, sample, blockBytes) +
    scaledBytes(outsideBlock.bytes, tensorSample, tensor.byteLength - blockBytes) +
    2 * sideBytes(tensor.byteLength);
  if (storedBytes > maxEncodedShare * tensor.byteLength) return [];
  return [edgeOf(context, tensor, { kind: edgeKinds.delta, storedBytes, decoding: "delta", base: base.id })];
}

async function sampleBlock({ dtype, shape, bytes }: Tensor, block: readonly number[]): Promise<Tensor> {
  const blockBytes = extractBlock(bytes, shape, block, dtypeBits(dtype) / 8);
  return await sampleOf({
    dtype,
    shape: block,
    byteLength: blockBytes.length,
    chunks: async function* () {
      yield await Promise.resolve(blockBytes);
    },
  });
}
