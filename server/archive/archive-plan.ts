/**
 * A storage plan for a fleet as data: what the planner decided, for which versions, by which measured rates.
 * Shown, kept as a file, read back from wherever it was, and checked against itself before it is used.
 */
import { z } from "zod";
import { StemmaError } from "../../shared/errors.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { buildStorageGraph } from "../planner/storage-graph.js";
import { planningSchemes, type PlanningScheme } from "../planner/retrieval.js";
import { checkPlan, planAlgorithms, storagePlanFormat, type StoragePlan } from "../planner/storage-plan.js";
import { ratesSchema, type ArchiveRates } from "./archive-rates.js";

export const archivePlanFormat = 1;
export const archiveEncodings = ["packed", "planes", "fixed"] as const;
/**
 * `packed` is smallest; `planes` keeps the high-order bytes of every number readable alone; `fixed` does so
 * with float32 matrices in fixed planes, by which evaluation is certain of more with fewer bytes.
 */
export type ArchiveEncoding = (typeof archiveEncodings)[number];

/** Tensors and bytes (with their entries in an index) of one kind of edge. */
export interface KindSummary {
  readonly kind: string;
  readonly tensors: number;
  readonly storedBytes: number;
}
export interface RecreationSummary {
  readonly largestUs: number;
  readonly meanUs: number;
}
export interface ArchiveSummary {
  readonly versions: number;
  readonly tensors: number;
  /** Tensors that could not be read: they, or the versions that have them, are left as they are. */
  readonly unreadable: number;
  /** Bytes of the tensors as they are in memory, each distinct one once. */
  readonly tensorBytes: number;
  /** Bytes stored for them, with index entries, now and as planned. */
  readonly bytesNow: number;
  readonly bytesPlanned: number;
  /** What is to be written anew: tensors, and bytes in their new form. */
  readonly rewrittenTensors: number;
  readonly rewrittenBytes: number;
  readonly kinds: readonly KindSummary[];
  /**
   * What a version costs to rebuild: all stored for speed (the ratio's 1.0), as it lies now (null where that
   * was not asked or cannot be said), and as planned.
   */
  readonly materialised: RecreationSummary;
  readonly now: RecreationSummary | null;
  readonly planned: RecreationSummary;
  /** Bytes that the disk must have free beside the store while the plan is applied, at most. */
  readonly diskNeeded: number;
}

export interface ArchivePlan {
  readonly format: typeof archivePlanFormat;
  readonly fleet: string;
  readonly madeAtMs: number;
  readonly layout: ArchiveEncoding;
  readonly scheme: PlanningScheme;
  /** α of every version's budget; null: none. */
  readonly ratio: number | null;
  readonly rates: ArchiveRates;
  readonly summary: ArchiveSummary;
  readonly plan: StoragePlan;
  /** By snapshot: its tensors, as places in `plan.vertices`. */
  readonly members: readonly (readonly number[])[];
}

const cost = z.number().nonnegative();
const count = z.number().int().nonnegative();
const id = z.string().regex(/^[0-9a-f]{64}$/);
const word = z.string().min(1).max(64);
const scheme = z.enum(planningSchemes);
const detail = z.record(word, z.union([z.string().max(256), z.number(), z.boolean(), z.null()]));
const maxVertices = 2_000_000;
const recreation = z.object({ largestUs: cost, meanUs: cost });
const storagePlan = z.object({
  format: z.literal(storagePlanFormat),
  scheme,
  algorithm: z.enum(planAlgorithms),
  isRefined: z.boolean(),
  isCutShort: z.boolean(),
  storageCost: cost,
  leastStorageCost: cost,
  candidates: z
    .array(z.object({ algorithm: z.enum(planAlgorithms), storageCost: cost, isWithinBudgets: z.boolean() }))
    .max(64),
  vertices: z
    .array(
      z.object({
        vertex: id,
        from: id.nullable(),
        kind: word,
        storageCost: cost,
        recreationCost: cost,
        detail: detail.optional(),
      }),
    )
    .max(maxVertices),
  snapshots: z
    .array(
      z.object({ snapshot: id, budget: cost.nullable(), independent: cost, parallel: cost, reusable: cost }),
    )
    .max(maxVertices),
});
const archivePlan = z.object({
  format: z.literal(archivePlanFormat),
  fleet: z.string().min(1).max(256),
  madeAtMs: z.number(),
  layout: z.enum(archiveEncodings),
  scheme,
  ratio: z.number().min(1).nullable(),
  rates: ratesSchema,
  summary: z.object({
    versions: count,
    tensors: count,
    unreadable: count,
    tensorBytes: cost,
    bytesNow: cost,
    bytesPlanned: cost,
    rewrittenTensors: count,
    rewrittenBytes: cost,
    kinds: z.array(z.object({ kind: word, tensors: count, storedBytes: cost })).max(64),
    materialised: recreation,
    now: recreation.nullable(),
    planned: recreation,
    diskNeeded: cost,
  }),
  plan: storagePlan,
  members: z.array(z.array(count)).max(maxVertices),
});

/** Largest plan that is read, as a file or as the body of a request. */
export const maxPlanBytes = 256 * 1024 * 1024;

/**
 * A plan from outside.
 * @throws PLAN_INVALID where it is none, or contradicts itself
 */
export function readArchivePlan(value: unknown): ArchivePlan {
  const parsed = archivePlan.safeParse(value);
  if (!parsed.success)
    throw new StemmaError(
      "PLAN_INVALID",
      `This is no storage plan that can be used: ${z.prettifyError(parsed.error).split("\n").slice(0, 4).join(" ")}. Make one with \`stemma storage plan --out FILE\`.`,
    );
  const plan: ArchivePlan = parsed.data;
  checkArchivePlan(plan);
  return plan;
}

/** Everything is stored once, in no circle, sums as stated, budgets kept. @throws PLAN_INVALID */
export function checkArchivePlan({ plan, members }: ArchivePlan): void {
  if (
    members.length !== plan.snapshots.length ||
    members.some((own) => own.some((at) => at >= plan.vertices.length))
  ) {
    throw new StemmaError(
      "PLAN_INVALID",
      "The storage plan cannot be used: it does not say which tensors its versions have. Plan again.",
    );
  }
  try {
    checkPlan(
      buildStorageGraph({
        vertices: plan.vertices.map(({ vertex }) => ({ id: vertex, byteLength: 0 })),
        edges: plan.vertices.map(({ vertex, from, kind, storageCost, recreationCost, detail: own }) => ({
          to: vertex,
          kind,
          storageCost,
          recreationCost,
          ...(from === null ? {} : { from }),
          ...(own === undefined ? {} : { detail: own }),
        })),
        snapshots: plan.snapshots.map(({ snapshot }, s) => ({
          id: snapshot,
          members: members[s]!.map((at) => plan.vertices[at]!.vertex),
        })),
      }),
      plan,
    );
  } catch (cause) {
    if (cause instanceof StemmaError && cause.code === "STORAGE_GRAPH_INVALID")
      throw new StemmaError("PLAN_INVALID", `The storage plan cannot be used: ${cause.message}`, { cause });
    throw cause;
  }
}

/** What a planned tensor is to be predicted with beside its base. */
export function previousOf(vertex: {
  readonly detail?: StoragePlan["vertices"][number]["detail"];
}): Hash | undefined {
  const previous = vertex.detail?.["previous"];
  return typeof previous === "string" ? (previous as Hash) : undefined;
}
