/**
 * Chooses the encoding that each tensor should have. Not every tensor can have the encoding that the plan is
 * made for.
 */
import { encodingCodes } from "../../../shared/delta/encoded.js";
import { estimateFixedPlanesBytes } from "../../../shared/delta/fixed-planes-estimate.js";
import { isFixedKind } from "../../../shared/delta/fixed-planes.js";
import { planeBytes } from "../../../shared/delta/numbers.js";
import { minPlanesBytes } from "../../../shared/delta/planes.js";
import { isSchemeCode } from "../../../shared/schemes/scheme.js";
import type { ArchiveEncoding } from "./archive-plan.js";
import { isCodable, type EdgeContext } from "./edge-costs.js";
import type { ArchiveTensor } from "./read-versions.js";

/**
 * A larger matrix is not read to find out whether fixed planes suit it. They are assumed to suit it, and to
 * take the usual share of its raw bytes.
 */
const maxFixedEstimateBytes = 64 * 1024 * 1024;
const usualFixedShare = 0.86;

export interface WantedEncoding {
  readonly layout: ArchiveEncoding;
  /** Estimated bytes in fixed planes, where the tensor is not stored in them yet. */
  readonly bytes?: number;
}

const wantedEncodings = new WeakMap<EdgeContext, WeakMap<ArchiveTensor, Promise<WantedEncoding>>>();

/** The wanted encoding of a tensor, computed once per context. */
export function wantedEncodingOf(context: EdgeContext, tensor: ArchiveTensor): Promise<WantedEncoding> {
  let ofTensors = wantedEncodings.get(context);
  if (ofTensors === undefined) {
    ofTensors = new WeakMap<ArchiveTensor, Promise<WantedEncoding>>();
    wantedEncodings.set(context, ofTensors);
  }
  let wanted = ofTensors.get(tensor);
  if (wanted === undefined) {
    wanted = findWantedEncoding(context, tensor);
    ofTensors.set(tensor, wanted);
  }
  return wanted;
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

/**
 * Byte planes need elements of several bytes. A reduced tensor is smaller in its float scheme's own form than
 * in any planes.
 */
function canUsePlanes(tensor: ArchiveTensor): boolean {
  return (
    isCodable(tensor) &&
    !isSchemeCode(tensor.current.code) &&
    tensor.byteLength >= minPlanesBytes &&
    planeBytes(tensor.header.dtype) > 1
  );
}
