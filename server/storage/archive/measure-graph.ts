/**
 * Measures a fleet's storage graph: a vertex for every distinct kept tensor, a snapshot for every version,
 * and the edges that the edge sources find. Every tensor is read once for its sample. Tensors at the same
 * position of the models are compared one after the other, because they are compared with each other; small
 * ones are read before, version by version, as packs have them. Yields to other work between tensors.
 */
import type { DeltaCodec } from "../../../shared/delta/codec.js";
import { tensorOfSource, type Hash } from "../../../shared/tensor/tensor.js";
import type { EdgeInput, StorageGraphInput } from "../planner/storage-graph.js";
import { apartUsOf, type ArchiveEncoding } from "./archive-plan.js";
import type { ArchiveRates } from "./archive-rates.js";
import { candidateReferences, type ArchiveVersion, type CandidateReference } from "./candidate-references.js";
import { contentCandidates } from "./content-candidates.js";
import type { ArchiveContent, ArchiveSource, ArchiveTensor } from "./read-versions.js";
import { defaultEdgeSources, outsideEdge, unreadableEdge } from "./storage-edges.js";
import {
  edgeKinds,
  isAboutOneTensor,
  isCodable,
  type EdgeContext,
  type EdgeSource,
  type LowRankSearch,
} from "./edge-costs.js";
import { withoutReturns } from "./relation-edges.js";
import { Relatives } from "./relatives.js";
import { defaultMaxCachedBytes, tensorSamples } from "./tensor-samples.js";

export interface MeasureOptions {
  readonly layout: ArchiveEncoding;
  readonly codec: Pick<DeltaCodec, "estimate" | "encodeTensor">;
  readonly rates: ArchiveRates;
  readonly findLowRank: LowRankSearch;
  readonly encodeFollowing: EdgeContext["encodeFollowing"];
  readonly sources?: readonly EdgeSource[];
  /** True if other work should run before the next tensor. */
  readonly shouldYield: () => boolean;
  readonly onProgress?: (done: number, total: number) => void;
  readonly signal?: AbortSignal;
}

/**
 * @returns the graph, and in `unmeasured` the tensors that could not be read
 * @throws FILE_FAILED where the disk fails; the signal's reason
 */
export async function measureGraph(
  objects: Pick<ArchiveSource["objects"], "openTensor">,
  { versions, tensors, outside, outsideVersions, lineage }: ArchiveContent,
  options: MeasureOptions,
): Promise<StorageGraphInput & { readonly unmeasured: readonly Hash[] }> {
  const {
    layout,
    codec,
    rates,
    findLowRank,
    encodeFollowing,
    sources = defaultEdgeSources,
    shouldYield,
    onProgress,
    signal,
  } = options;
  const related = [...outsideVersions, ...versions];
  const candidates = candidateReferences(related, lineage);
  const open = (id: Hash): ReturnType<typeof objects.openTensor> => objects.openTensor(id, { verify: false });
  const byContent =
    layout === "packed"
      ? await contentCandidates({ versions, tensors, candidates, open, shouldYield, signal })
      : new Map<Hash, readonly CandidateReference[]>();
  const context: EdgeContext = {
    layout,
    codec,
    rates,
    samples: tensorSamples(open),
    tensor: (id) => tensors.get(id) ?? outside.get(id),
    candidates: (id) => [...(candidates.get(id) ?? []), ...(byContent.get(id) ?? [])],
    relatives: new Relatives(related),
    load: (id) => tensorOfSource(open(id)),
    findLowRank,
    encodeFollowing,
  };
  const edges: EdgeInput[] = [];
  const unmeasured: Hash[] = [];
  const order = byPosition(versions).filter((id) => !outside.has(id));
  const yieldAfter = async (done: number): Promise<void> => {
    signal?.throwIfAborted();
    if (!shouldYield()) return;
    onProgress?.(done, order.length);
    await new Promise(setImmediate);
  };
  await readSmallSamples(context, { versions, tensors }, () => yieldAfter(0));
  for (const [index, id] of order.entries()) {
    const tensor = tensors.get(id)!;
    edges.push(...withoutDominated(await edgesOf(context, tensor, sources, unmeasured)));
    await yieldAfter(index + 1);
  }
  for (const tensor of outside.values()) edges.push(outsideEdge(context, tensor));
  return {
    unmeasured,
    vertices: [...order.map((id) => tensors.get(id)!), ...outside.values()].map(({ id, byteLength }) => ({
      id,
      byteLength,
    })),
    edges: withoutReturns(edges),
    snapshots: versions.map(({ versionId, leaves }) => ({
      id: versionId,
      members: leaves.tensors,
    })),
  };
}

/**
 * The edges into one tensor. A tensor that is damaged, or was collected meanwhile, gets only the edge that
 * keeps it as it is, so that the others can still be planned.
 */
async function edgesOf(
  context: EdgeContext,
  tensor: ArchiveTensor,
  sources: readonly EdgeSource[],
  unmeasured: Hash[],
): Promise<readonly EdgeInput[]> {
  try {
    const edges: EdgeInput[] = [];
    for (const source of sources) edges.push(...(await source(context, tensor)));
    return edges;
  } catch (error) {
    if (!isAboutOneTensor(error)) throw error;
    unmeasured.push(tensor.id);
    return [unreadableEdge(context, tensor)];
  }
}

/** Larger tensors are read when they are compared. */
const maxSmallBytes = 16 * 1024;
/** All small tensors together must fit twice into the cache of samples, or they would be read again. */
const maxSmallTotalBytes = defaultMaxCachedBytes / 2;

/** Reads the samples of a fleet's small tensors version by version, so that each pack is opened once for all of its. */
async function readSmallSamples(
  { samples }: Pick<EdgeContext, "samples">,
  { versions, tensors }: Pick<ArchiveContent, "versions" | "tensors">,
  yieldToOthers: () => Promise<void>,
): Promise<void> {
  const isSmall = (tensor: ArchiveTensor): boolean => tensor.byteLength <= maxSmallBytes && isCodable(tensor);
  let total = 0;
  for (const tensor of tensors.values()) if (isSmall(tensor)) total += tensor.byteLength;
  if (total > maxSmallTotalBytes) return;
  for (const { leaves } of versions) {
    for (const id of leaves.tensors) {
      const tensor = tensors.get(id);
      if (tensor === undefined || !isSmall(tensor)) continue;
      try {
        await samples.get(id);
      } catch (error) {
        // A damaged tensor is found again, and reported, when its edges are measured.
        if (!isAboutOneTensor(error)) throw error;
      }
    }
    await yieldToOthers();
  }
}

/**
 * Leaves out differences that no plan gains by: neither smaller nor faster to decode than a form without
 * references, before the references' own cost. The edge of the present storage stays.
 */
export function withoutDominated(edges: readonly EdgeInput[]): readonly EdgeInput[] {
  const alone = edges.filter(({ from }) => from === undefined);
  return edges.filter(
    (edge) =>
      edge.from === undefined ||
      edge.kind === edgeKinds.current ||
      !alone.some(
        (other) =>
          other.storageCost <= edge.storageCost &&
          other.recreationCost <= edge.recreationCost - apartUsOf(edge),
      ),
  );
}

/** Every tensor once, ordered by position in the models, then by the versions' journal order. */
function byPosition(versions: readonly ArchiveVersion[]): readonly Hash[] {
  const positions = new Map<string, Set<Hash>>();
  for (const { leaves } of [...versions].sort((a, b) => a.position - b.position)) {
    for (const { path, tensor } of leaves) {
      const tensors = positions.get(path);
      if (tensors === undefined) positions.set(path, new Set([tensor]));
      else tensors.add(tensor);
    }
  }
  return [...new Set([...positions.values()].flatMap((tensors) => [...tensors]))];
}
