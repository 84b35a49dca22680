/** Stores the training engine of this server's own build in a fleet, when one of its versions needs it. */
import type { Hash } from "../../../shared/tensor/tensor.js";
import { ownEngine, packOwnEngine } from "../../../shared/train/own-engine.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

/**
 * Stores this build's engine where a record names it and the fleet lacks it. Records name other engines too; only
 * people approve those.
 */
export async function storeNamedEngine(
  repository: Pick<FleetRepository, "engines" | "storeEngine">,
  named: Hash | undefined,
): Promise<void> {
  if (named === undefined || named !== (await ownEngine()).object) return;
  if (repository.engines().some(({ engine, isStored }) => engine === named && isStored)) return;
  await repository.storeEngine(await packOwnEngine(), {
    source: "build",
    because: "a version was trained by it",
  });
}
