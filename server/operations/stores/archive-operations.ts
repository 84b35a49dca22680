/** Operations that plan how a fleet's models are stored, and apply such a plan. */
import { formatBytes } from "../../../shared/cli/output.js";
import { cpus, hostname } from "node:os";
import { join } from "node:path";
import { defined } from "../../../shared/defined.js";
import { makeFolderDurably } from "../../../shared/files/make-folder.js";
import type { Archive } from "../../storage/archive/archive.js";
import type { ApplyProgress } from "../../storage/archive/plan-application.js";
import type { Home } from "../../storage/repository/home.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { JobOptions, OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import type { ArchivePlan } from "../../storage/archive/archive-plan.js";
import type { AppliedPart } from "../../storage/archive/apply-parts.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { workFolderOf } from "../../services/context/work-folder.js";

/** One for each home, whoever asks: it plans and rewrites the storage of a fleet once at a time. */
const archives = new WeakMap<Home, Promise<Archive>>();

export function archiveOf(home: Home): Promise<Archive> {
  const known = archives.get(home);
  if (known !== undefined) return known;
  const archive = open(home);
  archives.set(home, archive);
  return archive;
}

/** Loads what plans and rewrites only now: few commands need it. */
async function open(home: Home): Promise<Archive> {
  const { openArchive } = await import("../../storage/archive/archive.js");
  const { files, clock } = home.ports;
  return openArchive({
    clock,
    files,
    ratesPath: join(home.path, "storage-rates.json"),
    machine: `${hostname()}/${cpus()[0]?.model ?? ""}`,
    freeBytes: () => files.freeBytes(home.path),
    workFolder: async () => {
      const folder = workFolderOf(home);
      await makeFolderDurably(files, folder);
      return folder;
    },
  });
}

export function archiveOperations({
  fleets,
  home,
}: OperationsContext): Pick<ServerOperations, "planStorage" | "applyStorage"> {
  return {
    planStorage: async ({ fleet, after, ...options }, { onProgress, signal } = {}) => {
      const repository = await fleets.get(fleet);
      return (await archiveOf(home)).plan(
        repository,
        defined({ ...options, after: versionIn(repository, after), onProgress, signal }),
      );
    },
    applyStorage: async ({ fleet, plan: given, ...options }, hooks = {}) => {
      const archive = await archiveOf(home);
      const repository = await fleets.get(fleet);
      if (given !== undefined) return await applyPart({ archive, repository, plan: given }, options, hooks);
      const { dryRun, diskBytes, timeMs, ...planning } = options;
      const { applyParts } = await import("../../storage/archive/apply-parts.js");
      return await applyParts(
        {
          plan: (after) => archive.plan(repository, defined({ ...planning, ...hooks, after })),
          apply: (plan, leftMs) =>
            applyPart({ archive, repository, plan }, { dryRun, diskBytes, timeMs: leftMs }, hooks),
        },
        timeMs,
      );
    },
  };
}

interface PlannedFleet {
  readonly archive: Archive;
  readonly repository: FleetRepository;
  readonly plan: ArchivePlan;
}
type ApplyLimits = Pick<OperationInput<"applyStorage">, "dryRun" | "diskBytes" | "timeMs">;
type JobHooks = JobOptions<string>;

/** The version that a text names. A part may end with a retired one that is in use: its complete id finds it, too. */
function versionIn(repository: FleetRepository, text: string | undefined): Hash | undefined {
  if (text === undefined) return undefined;
  return (repository.get(text as Hash) ?? repository.resolve(text)).versionId;
}

async function applyPart(
  { archive, repository, plan }: PlannedFleet,
  { dryRun, diskBytes, timeMs }: ApplyLimits,
  { onProgress, signal }: JobHooks,
): Promise<AppliedPart> {
  const report = await archive.apply(repository, plan, {
    ...defined({ dryRun, diskBytes, timeMs, signal }),
    onProgress: (progress) => {
      onProgress?.(lineOf(progress));
    },
  });
  const { plan: _vertices, members: _members, ...planned } = plan;
  return { planned, report };
}

function lineOf({ done, total, writtenBytes, step }: ApplyProgress): string {
  return step === "collecting"
    ? `${done} of ${total} tensors, dropping superseded copies`
    : `${done} of ${total} tensors rewritten, ${formatBytes(writtenBytes)} in packs`;
}
