/**
 * The ways a tensor can be stored, as edges of the planner's graph: as it is now, raw, or encoded without a
 * base. delta-edges.ts has the edges with a base. Each way is an `EdgeSource`; another storage tier, or the
 * replay of a training, would be further edge sources.
 */
import { linksOf, listReferences } from "../../../shared/delta/links.js";
import { encodingCodes } from "../../../shared/delta/encoded.js";
import { mayPackInPlanes } from "../../../shared/delta/encode-tensor.js";
import type { TensorEncoding } from "../../../shared/objects/object-store.js";
import { isSchemeCode } from "../../../shared/schemes/scheme.js";
import type { EdgeInput } from "../planner/storage-graph.js";
import type { EdgeMeasure } from "./archive-rates.js";
import { deltaEdges } from "./delta-edges.js";
import {
  edgeKinds,
  edgeOf,
  estimateSample,
  isCodable,
  planesShare,
  scaledBytes,
  sideBytes,
  maxEncodedShare,
  type EdgeContext,
  type EdgeSource,
} from "./edge-costs.js";
import type { ArchiveTensor } from "./read-versions.js";
import { wantedEncodingOf } from "./wanted-encoding.js";

/**
 * The edge that keeps an unreadable tensor as it is, because it cannot be rewritten. The plan may
 * re-encode the tensors that it is encoded against: they stay in the store as long as it needs them.
 */
export function unreadableEdge(context: EdgeContext, tensor: ArchiveTensor): EdgeInput {
  const { storedBytes } = tensor.current;
  return edgeOf(context, tensor, { kind: edgeKinds.current, storedBytes, decoding: "raw" });
}

/**
 * Keeps any tensor as it is, for a plan that changes nothing. One edge from the empty vertex has the cost of
 * everything that is decoded for the tensor, each tensor once, as far as kept versions have it.
 */
export const keepingEdge: EdgeSource = (context, tensor) => {
  const needed = new Set([tensor]);
  let recreationCost = 0;
  for (const each of needed) {
    recreationCost += edgeAsNow(context, each).recreationCost;
    for (const id of listReferences(each.current)) {
      const source = context.tensor(id);
      if (source !== undefined) needed.add(source);
    }
  }
  const { to, kind, storageCost } = edgeAsNow(context, tensor);
  return [{ to, kind, storageCost, recreationCost }];
};

/**
 * The only edge of a tensor that the plan is not for: as it is stored now, at no cost of the plan's own. It is
 * materialised here where what it is encoded against is not kept for itself, or cannot be read.
 */
export function outsideEdge(context: EdgeContext, tensor: ArchiveTensor): EdgeInput {
  const isWhole = listReferences(tensor.current).every((id) => context.tensor(id) !== undefined);
  const { detail, ...edge } = isWhole
    ? edgeAsNow(context, tensor, tensor.current.code === encodingCodes.derived)
    : unreadableEdge(context, tensor);
  return { ...edge, storageCost: 0, detail: { ...detail, outside: true } };
}

/** @param isApart whether the cost includes the references after the base, where they are recreated apart from it */
function edgeAsNow(context: EdgeContext, tensor: ArchiveTensor, isApart = false): EdgeInput {
  const { current } = tensor;
  const decoding = decodingOf(current);
  const { storedBytes } = current;
  const way = { kind: edgeKinds.current, storedBytes, decoding, isApart };
  return edgeOf(context, tensor, { ...way, ...linksOf(current) });
}

/**
 * Keeps the tensor as it is, without writing. Not offered where the tensor is encoded against one that no
 * kept version has, or is not in the wanted encoding (fixed planes are never kept for their size alone).
 */
const currentEdge: EdgeSource = async (context, tensor) => {
  const { code } = tensor.current;
  if (listReferences(tensor.current).some((id) => context.tensor(id) === undefined)) return [];
  const { layout } = await wantedEncodingOf(context, tensor);
  const isFixed = code === encodingCodes.fixedPlanes;
  if (layout === "packed" && isFixed) return [];
  if (layout === "planes" && code !== encodingCodes.planes) return [];
  if (layout === "fixed" && !isFixed) return [];
  return [edgeAsNow(context, tensor, code === encodingCodes.derived)];
};

function decodingOf({ code, base, previous }: TensorEncoding): EdgeMeasure["decoding"] {
  if (code === encodingCodes.derived) return "delta";
  if (code === encodingCodes.raw) return "raw";
  if (code === encodingCodes.planes || code === encodingCodes.fixedPlanes) return "planes";
  if (code === encodingCodes.lowRank) return "lowRank";
  if (code === encodingCodes.mixed) return "mixed";
  return previous !== undefined ? "extrapolated" : base !== undefined ? "delta" : "alone";
}

/** Stores the tensor raw. Not offered for a tensor that a float scheme reduced in order to make it small. */
const rawEdge: EdgeSource = async (context, tensor) => {
  const { code } = tensor.current;
  if (code === encodingCodes.raw || isSchemeCode(code)) return [];
  if ((await wantedEncodingOf(context, tensor)).layout !== "packed") return [];
  const storedBytes = tensor.byteLength;
  return [edgeOf(context, tensor, { kind: edgeKinds.raw, storedBytes, decoding: "raw" })];
};

/** Encoded without a base: packed, in byte planes or in fixed planes. */
const withoutBaseEdge: EdgeSource = async (context, tensor) => {
  const { layout, bytes: fixedBytes } = await wantedEncodingOf(context, tensor);
  const inPlanes = layout === "planes";
  const side = sideBytes(tensor.byteLength);
  if (layout === "fixed") {
    if (fixedBytes === undefined) return [];
    const storedBytes = fixedBytes + side;
    return [edgeOf(context, tensor, { kind: edgeKinds.fixed, storedBytes, decoding: "planes" })];
  }
  if (!isCodable(tensor) || isStoredWithoutBase(tensor, inPlanes)) return [];
  const sample = await context.samples.get(tensor.id);
  const { bytes, isMixed } = estimateSample(context, sample);
  const storedBytes = scaledBytes(bytes, sample, tensor.byteLength) * (inPlanes ? planesShare : 1) + side;
  if (inPlanes) {
    const planeBytes = Math.min(storedBytes, tensor.byteLength + side);
    return [edgeOf(context, tensor, { kind: edgeKinds.planes, storedBytes: planeBytes, decoding: "planes" })];
  }
  if (storedBytes > maxEncodedShare * tensor.byteLength) return [];
  return [
    edgeOf(context, tensor, { kind: edgeKinds.packed, storedBytes, decoding: isMixed ? "mixed" : "alone" }),
  ];
};

/** True if the tensor is stored without a base already, packed or in byte planes. */
function isStoredWithoutBase(
  { header: { dtype }, current: { code, base } }: ArchiveTensor,
  inPlanes: boolean,
): boolean {
  if (base !== undefined || code === encodingCodes.raw || code === encodingCodes.fixedPlanes) return false;
  if (inPlanes) return code === encodingCodes.planes;
  return mayPackInPlanes(dtype) || code !== encodingCodes.planes;
}

export const defaultEdgeSources: readonly EdgeSource[] = [currentEdge, rawEdge, withoutBaseEdge, deltaEdges];
