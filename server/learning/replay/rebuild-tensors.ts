/**
 * Makes the tensors of a dropped version again. Its ancestors come first, as far as they have none either,
 * then the version itself by the engine, data and base that the fact `dropped` pins. Every generation must
 * have exactly the recorded tensors, else nothing of it is stored and the error names it.
 */
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { programVersion } from "../../../shared/adapters/program-version.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { TrainingProgress } from "../../../shared/train/training.js";
import type { RebuildVersion } from "../../services/context/open-fleets.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { readOpenedProvenance } from "../../services/context/opened-provenance.js";
import type { Dropped, VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { readLeaves } from "../../storage/repository/state/references.js";
import { judgeReplay } from "./judge-replay.js";
import { recoveriesOf, type Recovery } from "./recoveries.js";
import { storeTrained } from "./replay-claim.js";
import { rebuildFailed, rebuildStopped, rebuiltOtherModel } from "./replay-errors.js";
import { inWorkFolder } from "./replay-version.js";
import { storyOf } from "./story.js";
import { trainAgain } from "./train-again.js";

type DroppedVersion = VersionSummary & { readonly dropped: Dropped };

interface Rebuild {
  readonly context: OperationsContext;
  readonly repository: FleetRepository;
  readonly version: DroppedVersion;
  readonly signal: AbortSignal;
  readonly recovery: Recovery;
}

/** One training at a time on a home; a recovery does not wait for replays that only prove something. */
const turns = new WeakMap<OperationsContext["home"], SerialQueue>();
/** Milliseconds for which a base is protected against collection while a training begins from it. */
const leaseMs = 3_600_000;
/** States of trainings that were cut short and not continued; the oldest are removed. */
const maxKeptFolders = 16;

/**
 * Makes the tensors of a version, which `replay list` shows meanwhile.
 * @throws REBUILD_FAILED where something that the replay needs is not here, or the training ends with an error;
 * ROOT_MISMATCH where it gives other tensors; RECOVERY_CANCELLED; DISK_FULL; TRAINING_STOPPED when aborted
 */
export const rebuildTensors: RebuildVersion = async ({ home, fleets }, { fleet, versionId }, left) => {
  const repository = await fleets.get(fleet);
  const version = repository.get(versionId);
  if (version?.dropped === undefined) return;
  const { dropped } = version;
  const context: OperationsContext = { home, fleets, version: programVersion() };
  const recovery: Recovery = {
    fleet,
    versionId,
    title: `${version.name}:${version.version}`,
    askedAtMs: home.ports.clock.now(),
    measuredMs: dropped.replayMs,
    base: dropped.base,
  };
  await recoveriesOf(home).run(recovery, left, async ({ signal }) => {
    const task = { context, repository, version: { ...version, dropped }, signal, recovery };
    for (;;) {
      // Asked for outside of the turn, because it may need one itself; it may be collected before this turn comes.
      if (dropped.base !== null) await repository.ensureTensors(dropped.base, signal);
      if (await inTurn(task)) return;
    }
  });
};

/** @returns whether the work was done. @throws TRAINING_STOPPED when aborted, also before its turn comes */
async function inTurn(task: Rebuild): Promise<boolean> {
  const { context, repository, version, signal } = task;
  const { home } = context;
  const turn = turns.get(home) ?? new SerialQueue();
  turns.set(home, turn);
  return await new Promise((resolve, reject) => {
    const leave = (): void => {
      reject(rebuildStopped(version));
    };
    signal.addEventListener("abort", leave, { once: true });
    const work = turn.run(async () => {
      signal.removeEventListener("abort", leave);
      if (signal.aborted) throw rebuildStopped(version);
      return await withTensorsOf(repository, version.dropped.base, () => trainAndStore(task));
    });
    work.then(resolve, reject);
  });
}

/** @returns whether the base has its tensors, so that the work was done */
async function withTensorsOf(
  repository: FleetRepository,
  base: Hash | null,
  work: () => Promise<void>,
): Promise<boolean> {
  const record = base === null ? undefined : repository.get(base)?.record;
  const leaves = record === undefined ? [] : await readLeaves(repository.objects, record);
  const lease = repository.objects.lease(
    leaves.map(({ tensor }) => tensor),
    leaseMs,
  );
  try {
    // A version with tensors may lack one of them: the recovery of the base then names it.
    const isGone = leaves.some(({ tensor }) => !repository.objects.has(tensor));
    if (isGone && base !== null && repository.get(base)?.dropped !== undefined) return false;
    await work();
    return true;
  } finally {
    repository.objects.release(lease.id);
  }
}

async function trainAndStore({ context, repository, version, signal, recovery }: Rebuild): Promise<void> {
  const { home } = context;
  recovery.startedAtMs = home.ports.clock.now();
  const { versionId, record, dropped } = version;
  const folder = join(home.path, "run", "rebuilds");
  const keptFolder = join(folder, versionId);
  await removeOldest(folder, keptFolder);
  await inWorkFolder(context, { keptFolder, signal }, async (workFolder) => {
    const startedMs = home.ports.clock.monotonic();
    const read = storyOf(await readOpenedProvenance(repository, record.objects));
    if ("unreplayable" in read) throw rebuildFailed(version, read.unreplayable.text);
    const task = {
      context,
      repository,
      summary: version,
      engineId: dropped.engineId,
      signal,
      keptFolder,
      onProgress: (progress: TrainingProgress): void => {
        recovery.progress = progress;
      },
      isOwnDataOnly: true,
      storedData: dropped.data === null ? [] : [dropped.data],
    };
    const trained = await trainAgain(task, read.story, workFolder);
    if ("reason" in trained) throw rebuildFailed(version, trained.text);
    const { grade, text } = await judgeReplay(task, { ...trained, ...read });
    if (grade !== "bit-exact") throw rebuiltOtherModel(version, text);
    await storeTrained(repository, version, trained.outcome, () => Promise.resolve());
    home.ports.log?.info("tensors-made-again", {
      fleet: repository.fleet,
      versionId,
      ms: Math.round(home.ports.clock.monotonic() - startedMs),
    });
  });
}

/** Removes what was left longest ago of recoveries that nobody continued. */
async function removeOldest(folder: string, except: string): Promise<void> {
  const paths = (await readdir(folder).catch(() => [])).map((name) => join(folder, name));
  const others = paths.filter((path) => path !== except);
  if (others.length < maxKeptFolders) return;
  const aged = await Promise.all(others.map(async (path) => ({ path, ms: (await stat(path)).mtimeMs })));
  aged.sort((a, b) => a.ms - b.ms);
  for (const { path } of aged.slice(0, others.length - maxKeptFolders + 1))
    await rm(path, { recursive: true, force: true });
}
