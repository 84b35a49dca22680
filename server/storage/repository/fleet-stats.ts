/** Counts a fleet's bytes on disk, and the bytes that a complete snapshot of every version would take. */
import type { RepositoryContext } from "./context.js";
import type { FleetStats } from "./answers/store-answers.js";
import { unreadableVersions } from "./state/version-table.js";

export async function fleetStats(context: RepositoryContext): Promise<FleetStats> {
  const { state, objects, journal } = context;
  const { tensorBytes: logicalBytes, dropped } = state.live;
  const { objects: count, tensors, coded } = await objects.totals();
  const packs = objects.packs();
  return {
    versions: state.versions.size - state.retiredCount,
    tensors,
    coded,
    objects: count,
    packs: packs.length,
    smallPacks: objects.merging.smallPacks,
    merged: { packs: objects.merging.merged.packs, bytes: objects.merging.merged.bytes },
    packBytes: packs.reduce((sum, { bytes }) => sum + bytes, 0),
    journalBytes: await journal.byteLength(),
    logicalBytes,
    dropped: { ...dropped },
    low: objects.lowBytes.totals(),
    damagedPacks: new Set(objects.problems().map(({ pack }) => pack)).size,
    unreadable: unreadableVersions(context),
  };
}
