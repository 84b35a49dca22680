/** Versions that are named by their signed release, as `release:NAME`. */
import { StemmaError } from "../../shared/errors.js";
import type { FleetRepository } from "../repository/fleet-repository.js";

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
  throw new StemmaError(
    "RELEASE_UNKNOWN",
    `The fleet ${repository.fleet} has no release ${JSON.stringify(name.slice(0, 128))}. \`stemma release list\` shows them.`,
    { name },
  );
}
