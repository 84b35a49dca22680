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
import type { ServerOperations } from "../../interface/api/server-operations.js";
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
    planStorage: async ({ fleet, ...options }, { onProgress, signal } = {}) =>
      (await archiveOf(home)).plan(await fleets.get(fleet), defined({ ...options, onProgress, signal })),
    applyStorage: async (
      { fleet, plan: given, dryRun, diskBytes, timeMs, ...options },
      { onProgress, signal } = {},
    ) => {
      const archive = await archiveOf(home);
      const repository = await fleets.get(fleet);
      const plan = given ?? (await archive.plan(repository, defined({ ...options, onProgress, signal })));
      const report = await archive.apply(repository, plan, {
        ...defined({ dryRun, diskBytes, timeMs, signal }),
        onProgress: (progress) => {
          onProgress?.(lineOf(progress));
        },
      });
      const { plan: _vertices, members: _members, ...planned } = plan;
      return { planned, report };
    },
  };
}

function lineOf({ done, total, writtenBytes, step }: ApplyProgress): string {
  return step === "collecting"
    ? `${done} of ${total} tensors, dropping superseded copies`
    : `${done} of ${total} tensors rewritten, ${formatBytes(writtenBytes)} in packs`;
}
