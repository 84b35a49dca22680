/** Plans a fleet's storage: reads the kept versions, measures the graph, and plans in a thread. Read-only. */
import { defined } from "../../../shared/defined.js";
import type { DeltaCodec } from "../../../shared/delta/codec.js";
import { encodingCodes } from "../../../shared/delta/encoded.js";
import { numberKind } from "../../../shared/delta/numbers.js";
import type { Clock } from "../../../shared/ports.js";
import type { PlanningScheme } from "../planner/retrieval.js";
import type { StorageGraphInput } from "../planner/storage-graph.js";
import type { StoragePlan } from "../planner/storage-plan.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { archiveCoder, type ArchiveCoder } from "./archive-coder.js";
import { applyDefaults } from "./plan-application.js";
import {
  archivePlanFormat,
  isOutside,
  type ArchiveEncoding,
  type ArchivePlan,
  type ArchiveSummary,
  type BudgetRatio,
  type KindSummary,
  type RecreationSummary,
} from "./archive-plan.js";
import type { ArchiveRates } from "./archive-rates.js";
import { storedBytesWithHeld } from "./held-tensors.js";
import { measureGraph, type MeasureOptions } from "./measure-graph.js";
import { maxPlannedDepth } from "./planned-depth.js";
import { planInWorker } from "./plan-in-worker.js";
import type { PlanResult } from "./make-plan.js";
import { readArchive, type ArchiveContent, type ArchiveSource } from "./read-versions.js";
import { edgeKinds, type EdgeSource, type LowRankSearch } from "./edge-costs.js";
import { keepingEdge } from "./storage-edges.js";

export interface PlanTools {
  readonly codec: DeltaCodec;
  readonly rates: ArchiveRates;
  readonly clock: Clock;
}
export interface PlanArchiveOptions {
  /** The allowed cost of recreating a version. */
  readonly ratio: BudgetRatio;
  readonly scheme?: PlanningScheme;
  readonly layout?: ArchiveEncoding;
  /** Time to search for better plans. */
  readonly timeLimitMs?: number;
  readonly sources?: readonly EdgeSource[];
  /** Plans the versions that were recorded after this one; absent: from the first one. */
  readonly after?: Hash;
  /** Tensors of a plan; a fleet with more is planned in parts. */
  readonly maxTensors?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (line: string) => void;
}

const defaultTimeLimitMs = 10_000;
/** Measuring yields to other work after this time. */
const maxBlockingMs = 8;

/** @throws BUDGET_UNREACHABLE, COLLECTION_REFUSED where a kept version cannot be read, the signal's reason */
export async function planArchive(
  fleet: string,
  source: ArchiveSource,
  { codec, rates, clock }: PlanTools,
  options: PlanArchiveOptions,
): Promise<ArchivePlan> {
  const {
    ratio,
    scheme = "independent",
    layout = "packed",
    timeLimitMs = defaultTimeLimitMs,
    sources,
    after,
    maxTensors,
    signal,
    onProgress,
  } = options;
  const content = await readArchive(source, { after, maxTensors });
  const coder = archiveCoder();
  const measuring: MeasureOptions = {
    layout,
    codec,
    rates,
    findLowRank: lowRankSearch(coder, clock),
    encodeFollowing: (tensor, references) => coder.encode(tensor, references, { layout, ifFollows: true }),
    shouldYield: yieldsAfter(maxBlockingMs, clock),
    ...defined({ sources, signal }),
    onProgress: (done, total) => {
      onProgress?.(`measured ${done} of ${total} tensors`);
    },
  };
  const input = await measureGraph(source.objects, content, measuring).finally(() => coder.close());
  const planIn = (graph: StorageGraphInput): Promise<PlanResult> =>
    planInWorker(
      graph,
      { scheme, ratio, timeLimitMs, maxDepth: maxPlannedDepth },
      {
        ...defined({ signal }),
        onProgress: (line) => {
          onProgress?.(`planning, ${line}`);
        },
      },
    );
  const bytesNow = storedBytesWithHeld(source.objects, content.tensors.keys(), content.outside);
  let result = await planIn(input);
  if (ratio === "auto" && result.plan.storageCost > bytesNow)
    result = await planIn(
      await measureGraph(source.objects, content, { ...measuring, sources: [keepingEdge] }),
    );
  return {
    format: archivePlanFormat,
    fleet,
    madeAtMs: clock.now(),
    layout,
    scheme,
    ratio,
    rates,
    summary: summarise(content, result, {
      scheme,
      rates,
      bytesNow,
      unreadable: content.unreadable.length + input.unmeasured.length,
    }),
    ...defined({ part: content.part }),
    plan: result.plan,
    members: result.members,
  };
}

/** Returns a function that is true once `blockingMs` have passed since other work last had its turn. */
function yieldsAfter(blockingMs: number, clock: Pick<Clock, "monotonic">): () => boolean {
  let yieldAtMs = clock.monotonic() + blockingMs;
  return () => {
    const now = clock.monotonic();
    if (now < yieldAtMs) return false;
    yieldAtMs = now + blockingMs;
    return true;
  };
}

/** Searches until they took this long together, so that measuring a large fleet is not held up by them. */
const maxLowRankSearchMs = 20_000;

function lowRankSearch(coder: ArchiveCoder, clock: Clock): LowRankSearch {
  let leftMs = maxLowRankSearchMs;
  return async (tensor, references) => {
    if (leftMs <= 0) return undefined;
    const startMs = clock.monotonic();
    const { code, bytes, against } = await coder.encode(tensor, references, {
      layout: "packed",
      lowRank: true,
    });
    leftMs -= clock.monotonic() - startMs;
    return code === encodingCodes.lowRank
      ? { storedBytes: bytes.length, usesPrevious: against.previous }
      : undefined;
  };
}

function summarise(
  { models, tensors }: ArchiveContent,
  { plan, minCosts, currentCosts }: PlanResult,
  {
    scheme,
    rates,
    bytesNow,
    unreadable,
  }: {
    readonly scheme: PlanningScheme;
    readonly rates: ArchiveRates;
    readonly bytesNow: number;
    readonly unreadable: number;
  },
): ArchiveSummary {
  const all = [...tensors.values()];
  const own = plan.vertices.filter((vertex) => !isOutside(vertex));
  const changed = own.filter(({ kind }) => kind !== edgeKinds.current);
  const rewrittenBytes = sum(changed.map(({ storageCost }) => storageCost));
  return {
    versions: models,
    tensors: all.length,
    unreadable,
    tensorBytes: sum(all.map(({ byteLength }) => byteLength)),
    bytesNow,
    bytesPlanned: plan.storageCost,
    rewrittenTensors: changed.length,
    rewrittenBytes,
    kinds: kindsOf(own),
    materialised: recreationOf(minCosts),
    now: currentCosts === null ? null : recreationOf(currentCosts),
    planned: recreationOf(plan.snapshots.map((snapshot) => snapshot[scheme])),
    // New copies between two collections, and about as much again for packs that a collection rewrites
    // because some of their objects stay.
    diskNeeded: 2 * Math.min(rewrittenBytes, applyDefaults.collectBytes + applyDefaults.batchBytes),
    applyMs: predictApplyMs(plan, tensors, rates),
  };
}

/**
 * Predicts the time of applying a plan: every rewritten tensor and what it is encoded against are read, the tensor is
 * encoded, and its pack is written and read again. Collections and the saves of others are not in it.
 */
function predictApplyMs(
  { vertices }: StoragePlan,
  tensors: ArchiveContent["tensors"],
  rates: ArchiveRates,
): number {
  /** A vertex comes after the one that it is recreated from. */
  const recreationUs = new Map<string, number>();
  let us = 0;
  let writtenBytes = 0;
  for (const { vertex, from, kind, storageCost, recreationCost } of vertices) {
    const sourceUs = from === null ? 0 : (recreationUs.get(from) ?? 0);
    recreationUs.set(vertex, sourceUs + recreationCost);
    const tensor = tensors.get(vertex as Hash);
    if (kind === edgeKinds.current || tensor === undefined) continue;
    const numbers = tensor.byteLength / (numberKind(tensor.header.dtype)?.bytes ?? 1);
    const encodeUs = kind === edgeKinds.lowRank ? rates.lowRankEncodeUsPerNumber : rates.encodeUsPerNumber;
    us += sourceUs + recreationCost + (kind === edgeKinds.raw ? 0 : encodeUs * numbers);
    us += 2 * rates.readUsPerByte * storageCost;
    writtenBytes += storageCost;
  }
  return us / 1000 + applyDefaults.pauseMs * Math.ceil(writtenBytes / applyDefaults.batchBytes);
}

function kindsOf(vertices: StoragePlan["vertices"]): readonly KindSummary[] {
  const kinds = new Map<string, { tensors: number; storedBytes: number }>();
  for (const { kind, storageCost } of vertices) {
    const known = kinds.get(kind) ?? { tensors: 0, storedBytes: 0 };
    kinds.set(kind, { tensors: known.tensors + 1, storedBytes: known.storedBytes + storageCost });
  }
  return [...kinds]
    .map(([kind, counts]) => ({ kind, ...counts }))
    .sort((a, b) => b.storedBytes - a.storedBytes);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
function recreationOf(costs: readonly number[]): RecreationSummary {
  return {
    largestUs: costs.reduce((max, cost) => Math.max(max, cost), 0),
    meanUs: costs.length === 0 ? 0 : sum(costs) / costs.length,
  };
}
