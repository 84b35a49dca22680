/** Operations on the lineage of models: descendants, common ancestors, owners of tensors, successors. */
import * as z from "zod";
import type { CommonAncestor, DescendantPage } from "../../../storage/repository/state/ancestry.js";
import {
  count,
  fleetParams,
  fleetPath,
  hash,
  modelParams,
  modelPath,
  modelText,
  reasonText,
  timeMs,
} from "../fields.js";
import { askingArchitecture, maxArchitectureBodyBytes, nearestModel } from "./nearest-schemas.js";
import { versionStates } from "../../../storage/catalog/version-query.js";
import { call, type ValueOf } from "../operation.js";
import { versionSummary } from "./version-schemas.js";

const text = z.string();

const page = {
  offset: z.number().int().min(0).max(1e9).optional().describe("How many to skip"),
  limit: z.number().int().min(1).max(10_000).optional().describe("How many at most; default 100"),
};

const descendantPage = z
  .object({
    descendants: z.array(
      z.object({
        version: versionSummary,
        generation: count.describe("Trainings between the two, by the shortest way; 1: a child"),
      }),
    ),
    total: count.describe("How many there are on all pages together"),
  })
  .meta({ id: "DescendantPage" }) satisfies z.ZodType<DescendantPage>;

const commonAncestor = z
  .object({
    version: versionSummary,
    generations: z
      .object({ a: count, b: count })
      .describe("Trainings from it to a and to b, by the shortest way; 0: it is that one itself"),
  })
  .meta({ id: "AncestorInCommon" }) satisfies z.ZodType<CommonAncestor>;

const owner = z
  .object({
    versionId: hash,
    name: text,
    version: count,
    state: text,
    savedAtMs: timeMs.nullable().describe("By the saver's clock; null: not known here"),
    clockErrorMs: z.number().nullable().describe("Known error of that clock; null: unknown"),
    recordedAtMs: timeMs.nullable().describe("By the server's clock; null: not known here"),
    generation: count.nullable().describe("Trainings since then; 0: the model itself; null: no ancestor"),
    bytes: count,
    tensors: z.array(z.object({ path: text, name: text, bytes: count })),
  })
  .meta({ id: "TensorOwner" });
export type TensorOwner = ValueOf<typeof owner>;

const ownerPage = z
  .object({
    versionId: hash,
    owners: z.array(owner).describe("Newest first"),
    total: count.describe("How many there are on all pages together"),
    withoutTensors: count.describe("Ancestors of which no tensor is left"),
  })
  .meta({ id: "OwnerPage" });
export type OwnerPage = ValueOf<typeof ownerPage>;

const lineageVersion = z
  .object({
    versionId: hash,
    name: text,
    version: count,
    state: z.enum(versionStates),
    tags: z.array(text),
    held: z.boolean(),
    device: text,
    line: text,
    savedAtMs: timeMs.describe("By the saver's clock"),
    clockErrorMs: z.number().nullable().describe("Known error of that clock; null: unknown"),
    recordedAtMs: timeMs.describe("By the server's clock"),
    ownBytes: count,
    storedBytes: count.exactOptional().describe("Bytes that it added to the store when it was recorded"),
    bases: z.array(hash),
    after: z.array(hash).describe("The models that it was declared to come after"),
  })
  .meta({ id: "LineageVersion" });
export type LineageVersion = ValueOf<typeof lineageVersion>;

const lineageGraph = z
  .object({
    versions: z.array(lineageVersion).describe("Newest first, each before its bases"),
    total: count.describe("How many there are on all pages together"),
  })
  .meta({ id: "LineageGraph" });
export type LineageGraph = ValueOf<typeof lineageGraph>;

const transfer = z
  .object({
    layers: nearestModel.shape.layers,
    indexed: nearestModel.shape.indexed,
    nearest: nearestModel.shape.nearest
      .unwrap()
      .extend({
        tensors: z
          .array(z.object({ path: text, ancestor: text, name: text, childName: text, bytes: count }))
          .describe("Tensors to take over: path and name in the child, path, name and bytes in this one"),
      })
      .nullable()
      .describe("Null where no model has the first layers"),
    lease: z
      .object({ id: text, expiresAtMs: timeMs })
      .nullable()
      .describe("Until then nothing that the child takes over is collected; for recover and import"),
    frozen: z.array(text).describe("Layers of the child that get these tensors, not to be trained"),
  })
  .meta({ id: "PreparedTransfer" });
export type Transfer = ValueOf<typeof transfer>;

const relation = z
  .object({
    versionId: hash,
    name: text,
    version: count,
    state: text,
    declared: z
      .object({ atMs: timeMs, because: text, by: text.exactOptional() })
      .exactOptional()
      .describe("When, why and by whom; absent where the save record states it"),
  })
  .meta({ id: "DeclaredRelation" });

const relations = z
  .object({ versionId: hash, before: z.array(relation), after: z.array(relation) })
  .meta({ id: "SuccessorList" });
export type Successors = ValueOf<typeof relations>;

export const lineageOperations = {
  descendants: call({
    summary: "The models that descend from this one, retired ones too: children first, then their children",
    method: "GET",
    path: `${modelPath}/descendants`,
    right: "read",
    params: modelParams,
    query: page,
    output: descendantPage,
  }),
  commonAncestor: call({
    summary: "The newest model from which two models both descend; null where there is none",
    method: "GET",
    path: `${fleetPath}/common-ancestor`,
    right: "read",
    params: fleetParams,
    query: { a: modelText, b: modelText },
    output: commonAncestor.nullable(),
  }),
  lineage: call({
    summary: "The lineage of a model for a drawing: it, its ancestors and, if wanted, its descendants",
    method: "GET",
    path: `${modelPath}/lineage`,
    right: "read",
    params: modelParams,
    query: {
      ...page,
      descendants: z.boolean().optional().describe("Also the models that descend from it"),
    },
    output: lineageGraph,
  }),
  owners: call({
    summary: "Which of its ancestors last changed which tensors of a model",
    method: "GET",
    path: `${modelPath}/owners`,
    right: "read",
    params: modelParams,
    query: {
      ...page,
      all: z.boolean().optional().describe("Also ancestors of which no tensor is left"),
    },
    output: ownerPage,
  }),
  transfer: call({
    summary: "Find the nearest ancestor of an architecture and lease what a child takes over from it",
    method: "POST",
    path: `${fleetPath}/transfers`,
    right: "change-models",
    params: fleetParams,
    body: {
      ...askingArchitecture,
      minutes: z.number().min(1).max(1440).optional().describe("How long the lease lasts; default 60"),
    },
    output: transfer,
    maxBodyBytes: maxArchitectureBodyBytes,
  }),
  successors: call({
    summary: "The models that were declared to come after this one, and before it",
    method: "GET",
    path: `${modelPath}/successors`,
    right: "read",
    params: modelParams,
    output: relations,
  }),
  setSuccessor: call({
    summary:
      "Declare that another model comes after this one, whatever it was trained from, or take that back",
    method: "POST",
    path: `${modelPath}/successors`,
    right: "change-models",
    params: modelParams,
    body: {
      successor: modelText.describe("The model that comes after this one"),
      remove: z.boolean().optional().describe("Take the declaration back"),
      because: reasonText.optional(),
    },
    output: relations,
  }),
};
