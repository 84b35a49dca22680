/** A repository in memory with a release and an update of it whose tensors are coded against the release's. */
import type { VersionSummary } from "../../server/storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../server/storage/repository/fleet-repository.js";
import { openHome } from "../../server/storage/repository/home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import type { Files } from "../../shared/ports.js";
import { opaqueModelSource } from "../../shared/save/model-source.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { ObjectRef } from "../../shared/wire/messages.js";
import { memoryFiles } from "./files/memory-files.js";
import { manualClock, seededRandom, type ManualClock } from "./manual-clock.js";

export interface ReleaseAndUpdate {
  readonly repository: FleetRepository;
  readonly files: Files;
  readonly clock: ManualClock;
  readonly release: VersionSummary;
  readonly update: VersionSummary;
  /** The update's tensor, as a device that has the release asks for it. */
  readonly refs: readonly ObjectRef[];
}

/** Bytes of the one tensor. */
export const updateBytes = 512 * 1024;

export async function releaseAndUpdate(): Promise<ReleaseAndUpdate> {
  const files = memoryFiles();
  const clock = manualClock();
  const random = seededRandom("release and update");
  const environment = { backend: "none", stemma: "test" };
  const home = await openHome("/home", { files, clock, random, environment });
  const repository = await openRepository(home, "fleet-a");
  const save = async (bytes: Uint8Array, bases: readonly Hash[]): Promise<VersionSummary> => {
    const tensors = [{ name: "w", dtype: "F32" as const, shape: [updateBytes / 4], bytes }];
    return (await repository.save(opaqueModelSource(tensors), { name: "m", bases })).summary;
  };
  const bytes = random.bytes(updateBytes);
  const release = await save(bytes, []);
  const update = await save(
    bytes.map((byte, at) => (at % 400 === 0 ? byte ^ 1 : byte)),
    [release.versionId],
  );
  const leaves = await repository.leaves(update.versionId);
  const refs = leaves.map(({ tensor }): ObjectRef => ({
    kind: "tensor",
    id: tensor,
    byteLength: updateBytes,
  }));
  return { repository, files, clock, release, update, refs };
}
