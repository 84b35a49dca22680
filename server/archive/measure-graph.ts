/**
 * The storage graph of a fleet: a vertex for every distinct tensor that is kept, a snapshot for every
 * version, and whatever edges the sources know. Reads every tensor once for its sample, place by place, so
 * that what is compared is read together; lets others have their turn between tensors.
 */
import type { DeltaCodec } from "../../shared/delta/codec.js";
import { tensorOfSource, type Hash } from "../../shared/tensor/tensor.js";
import type { EdgeInput, StorageGraphInput } from "../planner/storage-graph.js";
import type { ArchiveEncoding } from "./archive-plan.js";
import type { ArchiveRates } from "./archive-rates.js";
import { candidateReferences, type ArchiveVersion } from "./candidate-references.js";
import type { ArchiveContent, ArchiveSource, ArchiveTensor } from "./read-versions.js";
import {
  unreadableEdge,
  defaultEdgeSources,
  isAboutOneTensor,
  type EdgeContext,
  type EdgeSource,
} from "./storage-edges.js";
import { tensorSamples } from "./tensor-samples.js";

export interface MeasureOptions {
  readonly layout: ArchiveEncoding;
  readonly codec: Pick<DeltaCodec, "estimate" | "encodeTensor">;
  readonly rates: ArchiveRates;
  readonly sources?: readonly EdgeSource[];
  /** Longest time a stretch of estimating may take before others have a turn. */
  readonly shouldYield: () => boolean;
  readonly onProgress?: (done: number, total: number) => void;
  readonly signal?: AbortSignal;
}

/**
 * `unmeasured`: tensors that could not be read. @throws FILE_FAILED where the disk fails; the signal's reason
 */
export async function measureGraph(
  objects: Pick<ArchiveSource["objects"], "openTensor">,
  { versions, tensors, lineage }: ArchiveContent,
  options: MeasureOptions,
): Promise<StorageGraphInput & { readonly unmeasured: readonly Hash[] }> {
  const { layout, codec, rates, sources = defaultEdgeSources, shouldYield, onProgress, signal } = options;
  const candidates = candidateReferences(versions, lineage);
  const open = (id: Hash): ReturnType<typeof objects.openTensor> => objects.openTensor(id, { verify: false });
  const context: EdgeContext = {
    layout,
    codec,
    rates,
    samples: tensorSamples(open),
    tensor: (id) => tensors.get(id),
    candidates: (id) => candidates.get(id) ?? [],
    load: (id) => tensorOfSource(open(id)),
  };
  const edges: EdgeInput[] = [];
  const unmeasured: Hash[] = [];
  const order = byPosition(versions);
  for (const [at, id] of order.entries()) {
    signal?.throwIfAborted();
    const tensor = tensors.get(id)!;
    edges.push(...(await edgesOf(context, tensor, sources, unmeasured)));
    if (shouldYield()) {
      onProgress?.(at + 1, order.length);
      await new Promise(setImmediate);
    }
  }
  return {
    unmeasured,
    vertices: order.map((id) => ({ id, byteLength: tensors.get(id)!.byteLength })),
    edges,
    snapshots: versions.map(({ versionId, leaves }) => ({
      id: versionId,
      members: leaves.map(({ tensor }) => tensor),
    })),
  };
}

/**
 * A tensor that is damaged, or was collected meanwhile, keeps nobody from planning the others: it stays as it
 * lies.
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

/** Every tensor once: place by place in the models, versions in the order they came. */
function byPosition(versions: readonly ArchiveVersion[]): readonly Hash[] {
  const places = new Map<string, Set<Hash>>();
  for (const { leaves } of [...versions].sort((a, b) => a.position - b.position)) {
    for (const { path, tensor } of leaves) {
      let place = places.get(path);
      if (place === undefined) places.set(path, (place = new Set()));
      place.add(tensor);
    }
  }
  return [...new Set([...places.values()].flatMap((place) => [...place]))];
}
