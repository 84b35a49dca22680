/** Finds which versions something needs now, and what needs them. Pure. */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { lastActivations } from "./device-state.js";
import { versionsOfRollouts } from "./rollout-state.js";
import type { FleetState } from "./state.js";
import { versionsIn } from "./version-table.js";

/**
 * The versions that are assigned to, or active on, a line of a device, or that rollouts need, or from which dropped
 * versions are recovered, each with a description of the use. Revoked devices do not count.
 */
export function versionsInUse(
  state: FleetState,
  { withBasesOfDropped = true }: { readonly withBasesOfDropped?: boolean } = {},
): Map<Hash, string> {
  const inUse = new Map<Hash, string>();
  if (withBasesOfDropped)
    for (const { name, version, dropped, retired } of versionsIn(state, state.dropped))
      if (dropped?.base != null && retired === undefined)
        inUse.set(dropped.base, `needed to recover ${name}:${version}, which has no tensors here,`);
  for (const [versionId, use] of versionsOfRollouts(state.rollouts, state.devices)) inUse.set(versionId, use);
  for (const device of state.devices.values()) {
    if (device.status === "revoked") continue;
    for (const [line, { versionId }] of device.assignments)
      inUse.set(versionId, `assigned to ${device.device}/${line}`);
    for (const [line, versionId] of lastActivations(device))
      inUse.set(versionId, `active on ${device.device}/${line}`);
  }
  return inUse;
}

/** The versions that devices run on a line of this name, or were given for it. Revoked devices do not count. */
export function versionsOnLine({ devices }: Pick<FleetState, "devices">, line: string): ReadonlySet<Hash> {
  const versions = new Set<Hash>();
  for (const { status, assignments, lastActivation } of devices.values())
    if (status !== "revoked")
      for (const each of [assignments.get(line), lastActivation.get(line)])
        if (each !== undefined) versions.add(each.versionId);
  return versions;
}
