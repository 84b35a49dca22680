/** What a fleet takes on disk, beside what snapshots of every version would take. */
import type { RepositoryContext } from "./context.js";
import type { FleetRepository } from "./fleet-repository.js";

export async function fleetStats({ state, objects, journal }: RepositoryContext): ReturnType<FleetRepository["stats"]> {
  let versions = 0, logicalBytes = 0;
  for (const version of state.versions.values()) {
    if (version.retired !== undefined) continue;
    versions++;
    logicalBytes += version.tensorBytes;
  }
  let count = 0, tensors = 0;
  for (const { kind } of objects.list()) {
    count++;
    if (kind === "tensor") tensors++;
  }
  const packs = objects.packs();
  return { versions, tensors, objects: count, packs: packs.length, packBytes: packs.reduce((sum, { bytes }) => sum + bytes, 0), journalBytes: await journal.byteLength(), logicalBytes };
}
