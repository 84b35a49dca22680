/**
 * A fleet's storage plan as data: the planner's decisions, the versions that they are for, and the measured
 * rates that they depend on. A plan can be shown, saved as a file and read back. It is checked before use,
 * whatever its source.
 */
import * as z from "zod";
import { defined } from "../../../shared/defined.js";
import { linksTo, type Links } from "../../../shared/delta/links.js";
import { StemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { buildStorageGraph } from "../planner/storage-graph.js";
import { planningSchemes, type PlanningScheme } from "../planner/retrieval.js";
import type { ArchivePart } from "./read-versions.js";
import {
  checkPlan,
  planAlgorithms,
  storagePlanFormat,
  type PlannedVertex,
  type StoragePlan,
} from "../planner/storage-plan.js";
import {
  ratesSchema,
  slowEncodeUsPerNumber,
  slowLowRankEncodeUsPerNumber,
  slowMixedUsPerByte,
  type ArchiveRates,
} from "./archive-rates.js";

export const archivePlanFormat = 1;
/**
 * α of every version's recreation budget, in relation to everything stored for speed. Null for no budget.
 * `auto` is the default: up to `autoBudgetRatio` times the cost of the smallest form without differences, or the
 * cost as stored now where that is higher; and such a plan never takes more bytes than the current storage.
 */
export type BudgetRatio = number | "auto" | null;
export const autoBudgetRatio = 1.6;
export const archiveEncodings = ["packed", "planes", "fixed"] as const;
/**
 * `packed` is smallest. `planes` stores the high-order bytes of every number so that they can be read alone.
 * `fixed` does so for float32 matrices in fixed planes, from which progressive evaluation gets tighter bounds
 * for the same bytes.
 */
export type ArchiveEncoding = (typeof archiveEncodings)[number];

/** The tensors that one kind of edge stores: their number, and their stored bytes with index entries. */
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
  /** Tensors that could not be read. They, or their versions, are left as they are. */
  readonly unreadable: number;
  /** Bytes of the distinct tensors in memory. */
  readonly tensorBytes: number;
  /**
   * Stored bytes of the tensors with their index entries, now and as planned. Now, also of tensors that stay
   * only because kept ones are encoded against them.
   */
  readonly bytesNow: number;
  readonly bytesPlanned: number;
  /** Tensors to rewrite, and their bytes once rewritten. */
  readonly rewrittenTensors: number;
  readonly rewrittenBytes: number;
  readonly kinds: readonly KindSummary[];
  /**
   * Recreation costs of versions, in µs: stored for speed (a ratio of 1), as stored now (null where some
   * tensor cannot stay as it is), and as planned.
   */
  readonly materialised: RecreationSummary;
  readonly now: RecreationSummary | null;
  readonly planned: RecreationSummary;
  /** Free bytes that the disk needs while the plan is applied, at most. */
  readonly diskNeeded: number;
  /** The predicted time of applying the plan on this machine, in ms; 0 where an earlier release made the plan. */
  readonly applyMs: number;
}

export interface ArchivePlan {
  readonly format: typeof archivePlanFormat;
  readonly fleet: string;
  readonly madeAtMs: number;
  readonly layout: ArchiveEncoding;
  readonly scheme: PlanningScheme;
  readonly ratio: BudgetRatio;
  readonly rates: ArchiveRates;
  readonly summary: ArchiveSummary;
  /** The versions that the plan is for, where the fleet has more than one plan takes. */
  readonly part?: ArchivePart;
  readonly plan: StoragePlan;
  /** The tensors of each snapshot, as indices into `plan.vertices`. */
  readonly members: readonly (readonly number[])[];
}

const cost = z.number().nonnegative();
const count = z.number().int().nonnegative();
const id = z.string().regex(/^[0-9a-f]{64}$/);
const identifier = z.string().min(1).max(64);
const scheme = z.enum(planningSchemes);
const detail = z.record(identifier, z.union([z.string().max(512), z.number(), z.boolean(), z.null()]));
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
        kind: identifier,
        storageCost: cost,
        recreationCost: cost,
        detail: detail.exactOptional(),
      }),
    )
    .max(maxVertices),
  snapshots: z
    .array(
      z.object({ snapshot: id, budget: cost.nullable(), independent: cost, parallel: cost, reusable: cost }),
    )
    .max(maxVertices),
});
/** The members of a plan that say what it is for, and its summary, without how each tensor is stored. */
export const planOverviewMembers = {
  format: z.literal(archivePlanFormat),
  fleet: z.string().min(1).max(256),
  madeAtMs: z.number(),
  layout: z.enum(archiveEncodings),
  scheme,
  ratio: z.union([z.number().min(1), z.literal("auto")]).nullable(),
  // Plans of earlier releases lack the rates of what those releases could not do or predict.
  rates: ratesSchema.extend({
    lowRankUsPerNumber: z.number().positive().default(0.02),
    mixedUsPerByte: z.number().positive().default(slowMixedUsPerByte),
    encodeUsPerNumber: z.number().positive().default(slowEncodeUsPerNumber),
    lowRankEncodeUsPerNumber: z.number().positive().default(slowLowRankEncodeUsPerNumber),
  }),
  summary: z.object({
    versions: count,
    tensors: count,
    unreadable: count,
    tensorBytes: cost,
    bytesNow: cost,
    bytesPlanned: cost,
    rewrittenTensors: count,
    rewrittenBytes: cost,
    kinds: z.array(z.object({ kind: identifier, tensors: count, storedBytes: cost })).max(64),
    materialised: recreation,
    now: recreation.nullable(),
    planned: recreation,
    diskNeeded: cost,
    applyMs: cost.default(0),
  }),
  part: z
    .object({
      last: id.transform((text) => text as Hash).describe("Its last version; the next part comes after it"),
      lastName: z.string().max(1024),
      hasNext: z.boolean().describe("Whether kept versions come after it"),
    })
    .exactOptional()
    .describe("Which versions the plan is for, where it is not for all"),
};
/**
 * A plan in a file or request body. `readArchivePlan` also checks that the plan does not contradict itself.
 */
export const archivePlanSchema = z.object({
  ...planOverviewMembers,
  plan: storagePlan,
  members: z
    .array(z.array(count))
    .max(maxVertices)
    .describe("By snapshot: its tensors, as positions in plan.vertices"),
}) satisfies z.ZodType<ArchivePlan>;

/** Maximum size of a plan in a file or request body. */
export const maxPlanBytes = 256 * 1024 * 1024;

/**
 * Reads a plan from outside.
 * @throws PLAN_INVALID where it is malformed or contradicts itself
 */
export function readArchivePlan(value: unknown): ArchivePlan {
  const parsed = archivePlanSchema.safeParse(value);
  if (!parsed.success)
    throw new StemmaError(
      "PLAN_INVALID",
      `This is not a valid storage plan: ${z.prettifyError(parsed.error).split("\n").slice(0, 4).join(" ")}. Make one with \`stemma storage plan --out FILE\`.`,
    );
  const plan: ArchivePlan = parsed.data;
  checkArchivePlan(plan);
  return plan;
}

/**
 * Checks that every tensor is stored once, without cycles, and that the stated sums and budgets hold.
 * @throws PLAN_INVALID
 */
export function checkArchivePlan({ plan, members }: ArchivePlan): void {
  if (
    members.length !== plan.snapshots.length ||
    members.some((own) => own.some((index) => index >= plan.vertices.length))
  ) {
    throw new StemmaError(
      "PLAN_INVALID",
      "The storage plan cannot be used: it does not list the tensors of its versions. Plan again.",
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
          ...defined({ detail: own }),
        })),
        snapshots: plan.snapshots.map(({ snapshot }, s) => ({
          id: snapshot,
          members: members[s]!.map((index) => plan.vertices[index]!.vertex),
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

/** Returns the tensors that a planned tensor is encoded against. */
export function linksOfVertex(vertex: PlannedVertex): Links<Hash> {
  const base = vertex.from === null ? undefined : (vertex.from as Hash);
  const previous = previousOf(vertex);
  return base === undefined
    ? {}
    : linksTo([base, ...(previous === undefined ? [] : [previous, ...othersOf(vertex)])]);
}

/** The tensors after the first two that a planned tensor is predicted from. */
export function othersOf(vertex: { readonly detail?: PlannedVertex["detail"] }): readonly Hash[] {
  const others = vertex.detail?.["others"];
  return typeof others === "string" ? (others.split(" ") as Hash[]) : [];
}

/**
 * The second tensor, in addition to the base, that a planned tensor is predicted from; undefined for none.
 */
export function previousOf(vertex: {
  readonly detail?: StoragePlan["vertices"][number]["detail"];
}): Hash | undefined {
  const previous = vertex.detail?.["previous"];
  return typeof previous === "string" ? (previous as Hash) : undefined;
}

/** True if the references after the base are recreated apart from it, and the edge's cost includes them. */
export function isApart(vertex: { readonly detail?: PlannedVertex["detail"] }): boolean {
  return vertex.detail?.["apart"] === true;
}

/** True if the plan is not for this tensor: it is there for others that are encoded against it. */
export function isOutside(vertex: { readonly detail?: PlannedVertex["detail"] }): boolean {
  return vertex.detail?.["outside"] === true;
}

/** Returns the part of an edge's cost that was estimated for references recreated apart, in µs. */
export function apartUsOf(vertex: { readonly detail?: PlannedVertex["detail"] }): number {
  const estimate = vertex.detail?.["apartUs"];
  return typeof estimate === "number" ? estimate : 0;
}
