/**
 * Adds to an offered version what devices need beside it: its release, and its input pipeline where the release has it.
 */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import {
  isRecipeManifest,
  releasesOf,
  unsignedManifest,
} from "../../../../shared/trust/releases/manifest.js";
import type { RecordedPipeline } from "../../../../shared/provenance/recorded-pipeline.js";
import type { OfferedRelease } from "../../../../shared/wire/messages.js";
import { pipelineOfVersion } from "../../../services/data/version-pipeline.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";

type Repository = Pick<FleetRepository, "objects" | "isRedacted" | "get" | "releases">;

export interface OfferedExtras {
  /** The release as the director names it to a device; undefined: it was not released. */
  readonly release: OfferedRelease | undefined;
  readonly pipeline: RecordedPipeline | undefined;
  /** True if its owner signed a pipeline that the version's record does not give any more. */
  readonly isPipelineLost: boolean;
}

/**
 * A released version's pipeline goes out only as its owner signed it; of several releases, one that has it is meant.
 */
export async function offeredExtras(repository: Repository, versionId: Hash): Promise<OfferedExtras> {
  const pipeline = await pipelineOfVersion(repository, versionId);
  const releases = await repository.releases();
  const names = releases === undefined ? [] : releasesOf(releases.published.targets.signed, versionId);
  const released = names.flatMap((name) => {
    const text = releases?.manifests[name];
    return text === undefined ? [] : { name, text, signed: pipelineOfManifest(text) };
  });
  const chosen =
    released.find(({ signed }) => signed !== undefined && signed === pipeline?.id) ?? released[0];
  if (chosen === undefined) return { release: undefined, pipeline, isPipelineLost: false };
  return {
    release: { name: chosen.name, manifest: Buffer.from(chosen.text, "utf8") },
    pipeline: pipeline?.id === chosen.signed ? pipeline : undefined,
    isPipelineLost: chosen.signed !== undefined && chosen.signed !== pipeline?.id,
  };
}

function pipelineOfManifest(text: string): string | undefined {
  const manifest = unsignedManifest(text);
  return isRecipeManifest(manifest) ? undefined : manifest.pipeline;
}
