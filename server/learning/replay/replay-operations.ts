/** Operations on queued replays: what waits, what runs, how it ended. */
import { defined } from "../../../shared/defined.js";
import { byOf, describeCaller } from "../../../shared/journal/caller.js";
import type { TrainingProgress } from "../../../shared/train/training.js";
import { defaultReplayPriority, type ReplayJob } from "../../interface/api/models/replay-schemas.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { ClaimSummary } from "../../storage/repository/claim.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { readOpenedProvenance } from "../../services/context/opened-provenance.js";
import { boundedCost } from "../training/bounded-cost.js";
import { recoveriesOf, type Recovery } from "./recoveries.js";
import { claimEndedMeanwhile, noReplayWaits } from "./replay-errors.js";
import { ReplayJobs, type StoredReplay } from "./replay-jobs.js";

type ReplayOperations = Pick<ServerOperations, "replays" | "queueReplay" | "cancelReplay">;

const minPrefixLength = 8;

export function replayOperations(context: OperationsContext): ReplayOperations {
  const { home, fleets, caller, live } = context;
  const queued = (fleet: string, { by, ...stored }: StoredReplay): ReplayJob =>
    withProgress(context, fleet, { ...stored, kind: "asked", ...byOf({ by }) });
  const claimed = (fleet: string, claim: ClaimSummary): ReplayJob =>
    withProgress(context, fleet, jobOfClaim(claim));
  return {
    replays: async ({ fleet }) => {
      const repository = await fleets.get(fleet);
      const jobs = [
        ...recoveriesOf(home)
          .list(fleet)
          .map((recovery) => jobOfRecovery(repository, recovery)),
        ...(await new ReplayJobs(home, fleet).list()).map((stored) => queued(fleet, stored)),
        ...repository.claims().map((claim) => claimed(fleet, claim)),
      ];
      const order: readonly ReplayJob["state"][] = ["running", "waiting", "wanted", "lost"];
      const placeOf = ({ state }: ReplayJob): number => (order.indexOf(state) + 5) % 5;
      return jobs.sort((a, b) => placeOf(a) - placeOf(b));
    },
    queueReplay: async ({ fleet, model, priority, maxMinutes }) => {
      const repository = await fleets.get(fleet);
      const summary = repository.resolve(model);
      const opened = await readOpenedProvenance(repository, summary.record.objects);
      const { record } = summary;
      const what = `${summary.name}:${summary.version}`;
      const bounded =
        opened && (await boundedCost(context, repository, { what, opened, record, maxMinutes }));
      const stored = await new ReplayJobs(home, fleet).add(
        summary,
        defined({ maxMinutes, predictedMs: bounded?.cost.ms, priority, by: caller }),
      );
      const job = queued(fleet, stored);
      live?.replays.wake();
      return job;
    },
    cancelReplay: async ({ fleet, model }) => {
      const repository = await fleets.get(fleet);
      const claim = findClaim(repository, model);
      if (claim !== undefined) return claimed(fleet, await cancelClaim(context, repository, claim));
      const { versionId, name, version } = repository.resolve(model);
      const by = caller === undefined ? undefined : describeCaller(caller);
      const recovery = recoveriesOf(home).cancel(fleet, versionId, by);
      const cancelled = await new ReplayJobs(home, fleet).cancel(versionId);
      if (cancelled === undefined && recovery !== undefined)
        return { ...jobOfRecovery(repository, recovery), state: "cancelled" };
      if (cancelled === undefined) throw noReplayWaits(name, version, versionId);
      live?.replays.stop(fleet, versionId);
      return queued(fleet, cancelled);
    },
  };
}

/**
 * Ends a claim without a proof: its device is asked for the parameters. One that is lost is given up.
 * @throws MODEL_NOT_FOUND
 */
async function cancelClaim(
  { home, caller, live }: OperationsContext,
  repository: FleetRepository,
  claim: ClaimSummary,
): Promise<ClaimSummary> {
  const { versionId, ended, isRecoverable } = claim;
  if (!isRecoverable) {
    await repository.giveUpClaim(versionId, "it was not proved, and its device is revoked or replaced");
    return claim;
  }
  if (ended === undefined)
    await repository.endClaim({
      type: "unreplayable",
      atMs: home.ports.clock.now(),
      versionId,
      because: `its replay was cancelled${caller === undefined ? "" : ` by ${describeCaller(caller)}`}.`,
    });
  live?.replays.stop(repository.fleet, versionId);
  await (await live?.fleet(repository.fleet))?.claimEnded(versionId);
  const left = repository.claim(versionId);
  if (left !== undefined) return left;
  throw claimEndedMeanwhile(versionId);
}

function findClaim(repository: FleetRepository, reference: string): ClaimSummary | undefined {
  if (!/^[0-9a-f]+$/.test(reference) || reference.length < minPrefixLength) return undefined;
  const found = repository.claims().filter(({ versionId }) => versionId.startsWith(reference));
  return found.length === 1 ? found[0] : undefined;
}

function jobOfClaim({ versionId, record, recordedAtMs, ended, isRecoverable }: ClaimSummary): ReplayJob {
  return {
    versionId,
    name: record.name,
    version: 0,
    kind: "claim",
    device: record.device,
    line: record.line,
    state: ended === undefined ? "waiting" : isRecoverable ? "wanted" : "lost",
    priority: defaultReplayPriority,
    queuedAtMs: recordedAtMs,
    ...(ended === undefined ? {} : { endedAtMs: ended.atMs, because: `${ended.verdict}: ${ended.because}` }),
  };
}

/** A version may be gone from the journal's state only where it was retired, and then it was not dropped. */
function jobOfRecovery(repository: Pick<FleetRepository, "get">, recovery: Recovery): ReplayJob {
  const { versionId, base, askedAtMs, measuredMs, startedAtMs, progress } = recovery;
  const { name, version } = repository.get(versionId) ?? { name: recovery.title, version: 0 };
  const before = base === null || startedAtMs !== undefined ? undefined : repository.get(base);
  return {
    versionId,
    name,
    version,
    kind: "recovery",
    state: startedAtMs === undefined ? "waiting" : "running",
    queuedAtMs: askedAtMs,
    predictedMs: Math.ceil(measuredMs),
    ...(before?.dropped === undefined
      ? {}
      : { waitsFor: { versionId: before.versionId, name: before.name, version: before.version } }),
    ...(startedAtMs === undefined ? {} : { startedAtMs, progress: progressOf(progress) }),
  };
}

/** The job, with how far it is where it runs now. */
function withProgress({ live }: OperationsContext, fleet: string, job: ReplayJob): ReplayJob {
  const running = live?.replays.running;
  if (job.state !== "waiting" || running?.fleet !== fleet || running.versionId !== job.versionId) return job;
  return {
    ...job,
    state: "running",
    startedAtMs: running.startedAtMs,
    progress: progressOf(running.progress),
  };
}

function progressOf(progress: TrainingProgress | undefined): NonNullable<ReplayJob["progress"]> {
  const { phase, epoch, epochs, iteration, iterations } = progress ?? { phase: "prepare" };
  return {
    phase,
    ...defined({ epoch, epochs, iteration, iterations }),
  };
}
