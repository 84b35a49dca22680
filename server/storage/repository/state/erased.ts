/** Decides whether a version was erased with its device. Pure. */
import type { StemmaError } from "../../../../shared/errors.js";
import type { SaveRecord } from "../../../../shared/model/model.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { versionErased } from "./state-errors.js";
import type { FleetState } from "./state.js";

/** Returns the error for a version whose tensors went with its device; undefined for every other one. */
export function erasedError(
  {
    state,
    records,
  }: {
    readonly state: FleetState;
    readonly records: { readonly get: (versionId: Hash) => SaveRecord | undefined };
  },
  versionId: Hash,
): StemmaError | undefined {
  const version = state.versions.get(versionId);
  const device = records.get(versionId)?.device;
  const erased = device === undefined ? undefined : state.devices.get(device)?.erased;
  if (version?.retired === undefined || erased === undefined || version.recordedAtMs > erased.atMs)
    return undefined;
  return versionErased(version, device, erased);
}
