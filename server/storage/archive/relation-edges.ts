/**
 * Edges of tensors that follow from others by content: a cast, quantised, other rows or axes, an average of several.
 * Their lengths are those of encodings, of the complete tensor or of a sample.
 */
import { findDerivation } from "../../../shared/delta/derived/find.js";
import { encodingCodes } from "../../../shared/delta/encoded.js";
import { hasSameLinks, linksTo } from "../../../shared/delta/links.js";
import { hasSameHeader } from "../../../shared/tensor/same-header.js";
import type { Hash, Tensor } from "../../../shared/tensor/tensor.js";
import type { EdgeInput } from "../planner/storage-graph.js";
import {
  edgeKinds,
  edgeOf,
  isCodable,
  maxEncodedShare,
  scaledBytes,
  sideBytes,
  type EdgeContext,
} from "./edge-costs.js";
import { isApart, othersOf, previousOf } from "./archive-plan.js";
import type { ArchiveTensor } from "./read-versions.js";

/** Larger tensors are not read to find out by their content whether one follows from the other. */
const maxDerivedBytes = 16 * 1024 * 1024;

/** A tensor that may be stored after another one. */
export interface RelatedPair {
  readonly tensor: ArchiveTensor;
  readonly base: ArchiveTensor;
}

/** A cast, quantised, other rows or axes, or another scale of the base; its length is that of its encoding. */
export async function derivedEdges(
  context: EdgeContext,
  { tensor, base }: RelatedPair,
): Promise<readonly EdgeInput[]> {
  if (context.layout !== "packed" || tensor.current.base === base.id) return [];
  if (Math.max(tensor.byteLength, base.byteLength) > maxDerivedBytes) return [];
  const own = await context.load(tensor.id);
  const scales = await scalesOf(context, tensor);
  const from = [await context.load(base.id), ...(scales === undefined ? [] : [scales.tensor])];
  const { code, bytes, against } = await context.encodeFollowing(own, linksTo(from));
  if (code !== encodingCodes.derived || bytes.length > maxEncodedShare * tensor.byteLength) return [];
  const previous = against.previous ? scales?.id : undefined;
  const way = { kind: edgeKinds.delta, storedBytes: bytes.length, decoding: "delta", isApart: true } as const;
  return [edgeOf(context, tensor, { ...way, base: base.id, previous })];
}

/** The scales of the tensor's version that are named like it. */
async function scalesOf(
  context: EdgeContext,
  { id, byteLength }: ArchiveTensor,
): Promise<{ readonly id: Hash; readonly tensor: Tensor } | undefined> {
  const found = context.relatives.scalesOf(id);
  const scales = found === undefined ? undefined : context.tensor(found);
  if (scales === undefined || !isCodable(scales) || scales.byteLength > byteLength) return undefined;
  return { id: scales.id, tensor: await context.load(scales.id) };
}

/** Encodings of samples up to this length are of the derivation alone, whatever the tensor's length. */
const derivationBytes = 128;

/** The average of the tensors that its version's bases or siblings have; found and estimated on samples. */
export async function averageEdges(
  context: EdgeContext,
  tensor: ArchiveTensor,
): Promise<readonly EdgeInput[]> {
  if (context.layout !== "packed" || !isCodable(tensor)) return [];
  const all = context.relatives
    .averagedFrom(tensor.id)
    .flatMap((id) => context.tensor(id) ?? [])
    .filter((each) => hasSameHeader(each.header, tensor.header) && isCodable(each));
  if (all.length < 2) return [];
  const sample = await context.samples.get(tensor.id);
  const samples = await Promise.all(all.map(({ id }) => context.samples.get(id)));
  const counted = countedReferences(sample, samples);
  if (counted.length < 2) return [];
  const references = counted.map((index) => all[index]!);
  const links = linksTo(references.map(({ id }) => id));
  if (hasSameLinks(tensor.current, links)) return [];
  const { code, bytes } = context.codec.encodeTensor(
    sample,
    sample.bytes,
    linksTo(counted.map((index) => samples[index]!)),
  );
  if (code !== encodingCodes.derived) return [];
  const storedBytes =
    bytes.length <= derivationBytes
      ? bytes.length
      : scaledBytes(bytes.length, sample, tensor.byteLength) + sideBytes(tensor.byteLength);
  if (storedBytes > maxEncodedShare * tensor.byteLength) return [];
  const way = { kind: edgeKinds.delta, storedBytes, decoding: "delta", isApart: true } as const;
  return [edgeOf(context, tensor, { ...way, ...links })];
}

/** Returns the samples that count in the average that the first one is; none where it is not an average. */
function countedReferences(sample: Tensor, samples: readonly Tensor[]): readonly number[] {
  const found = findDerivation(sample, samples)?.derivation;
  if (found === undefined || found.averaged < 2) return [];
  const indices = samples.slice(0, found.averaged).map((_, index) => index);
  const counts = found.weighting?.counts;
  return counts === undefined
    ? indices
    : indices.filter((index) => Math.abs(counts[index]!) > 1e-5 * found.weighting!.total);
}

/**
 * Leaves out differences of a tensor from the average that it is a part of: the average is a few bytes where its parts
 * do not need it.
 */
export function withoutReturns(edges: readonly EdgeInput[]): readonly EdgeInput[] {
  const parts = new Map<string, Set<string>>();
  for (const edge of edges) {
    if (!isApart(edge) || edge.from === undefined) continue;
    const own = parts.get(edge.to) ?? new Set();
    parts.set(edge.to, own);
    for (const id of [edge.from, previousOf(edge), ...othersOf(edge)]) if (id !== undefined) own.add(id);
  }
  if (parts.size === 0) return edges;
  return edges.filter(
    ({ kind, from, to }) =>
      kind === edgeKinds.current || from === undefined || parts.get(from)?.has(to) !== true,
  );
}
