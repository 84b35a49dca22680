/** Versions and their signed releases: by the name `release:NAME`, and which devices would refuse one without. */
import { noSuchRelease } from "../../../shared/missing-errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { releasesOf, revocationOf } from "../../../shared/trust/releases/manifest.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { makerOf } from "../../storage/repository/state/version-state.js";

const prefix = "release:";

/** A model as it was named, or the version id of a release. @throws RELEASE_UNKNOWN */
export async function versionOrRelease(
  repository: Pick<FleetRepository, "fleet" | "releases">,
  model: string,
): Promise<string> {
  if (!model.startsWith(prefix)) return model;
  const name = model.slice(prefix.length);
  const targets = (await repository.releases())?.published.targets.signed.targets ?? {};
  const target = Object.hasOwn(targets, name) ? targets[name] : undefined;
  if (target !== undefined) return target.custom.versionId;
  throw noSuchRelease(repository.fleet, name);
}

/**
 * The devices that would refuse a version by what they ask of releases. A device's own models need none, but a rollout
 * gives one version to many.
 */
export async function refusingOf(
  repository: Pick<FleetRepository, "releases" | "get">,
  versionId: Hash,
  devices: readonly string[],
  policyOf: (device: string) => string | undefined,
): Promise<string[]> {
  const targets = (await repository.releases())?.published.targets.signed;
  const isRevoked = targets !== undefined && revocationOf(targets, versionId) !== undefined;
  const isReleased = targets !== undefined && releasesOf(targets, versionId).length > 0;
  const version = repository.get(versionId);
  const maker = version && makerOf(version, version.record);
  return devices.filter((device) => {
    const policy = policyOf(device);
    if (policy === undefined) return false;
    return isRevoked || (policy === "required" && !isReleased && device !== maker);
  });
}
