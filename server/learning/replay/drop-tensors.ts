/**
 * `storage drop`: versions whose tensors a replay can give again lose them. Each is proved first, here, with data that
 * stay, unless such a proof is in the journal; what its replay needs is read from the disk right before; and all of it
 * is decided again under the lock of the journal. The next collection frees the space.
 */
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import type { DropReport } from "../../interface/api/stores/drop-schemas.js";
import { defaultDropMinutes } from "../../interface/api/stores/drop-schemas.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import { planDrops } from "../../storage/repository/retention/drop-plan.js";
import type { DropCandidate } from "../../storage/repository/versions/drop-version.js";
import { findDamagedInput } from "../../storage/repository/versions/replay-inputs.js";
import { inputsOf, keptBecause, planPayingDrops, type DropTask, type Kept } from "./plan-paying-drops.js";
import { replayVersion } from "./replay-version.js";

type Outcome = DropReport["dropped"][number];

/** @throws MODEL_NOT_FOUND, MODEL_RETIRED, QUOTA_EXCEEDED, DISK_FULL, TRAINING_STOPPED when aborted */
export async function dropByReplay(
  context: OperationsContext,
  {
    fleet,
    models = [],
    line,
    olderThanDays = 0,
    maxMinutes = defaultDropMinutes,
    dryRun = false,
    because = "",
  }: OperationInput<"dropTensors">,
  signal?: AbortSignal,
): Promise<DropReport> {
  const task = await dropTask(context, { fleet, maxMinutes, because, signal });
  const { repository } = task;
  const named = new Set(models.map((model) => repository.resolve(model).versionId));
  const before = context.home.ports.clock.now() - olderThanDays * 86_400_000;
  const isAsked = ({ versionId, state: { recordedAtMs } }: DropCandidate): boolean =>
    named.size > 0
      ? named.has(versionId)
      : recordedAtMs <= before && (line === undefined || repository.get(versionId)?.record.line === line);
  const report = await runDrops(task, isAsked, dryRun);
  // Of all versions only those are named that somebody asked for, or that a proof could still decide about.
  return named.size > 0 ? report : { ...report, kept: report.kept.filter(({ isFit }) => isFit) };
}

interface DropWish {
  readonly fleet: string;
  /** The largest number of minutes that any recovery may spend on training. */
  readonly maxMinutes: number;
  /** Kept with the facts. */
  readonly because: string;
  readonly signal?: AbortSignal | undefined;
}

export async function dropTask(
  context: OperationsContext,
  { fleet, maxMinutes, because, signal }: DropWish,
): Promise<DropTask> {
  const liveFleet = await context.live?.fleet(fleet);
  return {
    context,
    repository: await context.fleets.get(fleet),
    fleet,
    maxMs: maxMinutes * 60_000,
    because,
    busy: liveFleet && (() => liveFleet.underWay()),
    signal,
  };
}

/** Drops the tensors of the versions that are asked for, or says what would be dropped. */
export async function runDrops(
  task: DropTask,
  isAsked: (version: DropCandidate) => boolean,
  isDry: boolean,
): Promise<DropReport> {
  const { dropped, kept } = isDry ? await forecast(task, isAsked) : await dropEach(task, isAsked);
  const sum = (member: "tensorBytes" | "freedBytes" | "keptBytes"): number =>
    dropped.reduce((total, each) => total + each[member], 0);
  return {
    dropped,
    kept,
    freedBytes: sum("freedBytes"),
    keptBytes: sum("keptBytes"),
    keptCount: kept.length,
    tensorBytes: sum("tensorBytes"),
  };
}

type Result = Pick<DropReport, "dropped" | "kept">;

async function forecast(task: DropTask, isAsked: (version: DropCandidate) => boolean): Promise<Result> {
  const { drop, keep, unproved } = await planPayingDrops(task, isAsked);
  return {
    dropped: drop.map(({ version, recoveryMs, gain }) => ({
      ...shown(version),
      ...gain,
      recoveryMs,
      isProved: !unproved.has(version.versionId),
    })),
    kept: keep,
  };
}

async function dropEach(task: DropTask, isAsked: (version: DropCandidate) => boolean): Promise<Result> {
  const { signal, repository } = task;
  const dropped: Outcome[] = [];
  const failed = new Map<Hash, Kept>();
  const isOpen = (version: DropCandidate): boolean => isAsked(version) && !failed.has(version.versionId);
  for (;;) {
    // Planned again after each that is not dropped after all: others may free less without it.
    const { drop, keep, unproved } = await planPayingDrops(task, isOpen, { unknownMs: 0 });
    const failedBefore = failed.size;
    for (const { version } of drop) {
      signal?.throwIfAborted();
      const outcome = await dropOne(task, version, unproved.has(version.versionId));
      if (typeof outcome === "string") failed.set(version.versionId, keptBecause(version, outcome));
      else dropped.push(outcome);
      if (failed.size > failedBefore) break;
    }
    if (failed.size > failedBefore) continue;
    // What all of them free together, whatever was planned.
    const gains = await repository.weighDrops(
      new Map(
        dropped.flatMap(({ versionId }) => {
          const needs = repository.get(versionId)?.dropped;
          return needs === undefined ? [] : [[versionId, needs] as const];
        }),
      ),
    );
    return {
      dropped: dropped.map((outcome) => ({ ...outcome, ...gains.get(outcome.versionId) })),
      kept: [...failed.values(), ...keep],
    };
  }
}

/** @returns why its tensors stay, as text */
async function dropOne(
  task: DropTask,
  candidate: DropCandidate,
  isUnproved: boolean,
): Promise<Outcome | string> {
  const { repository, maxMs, busy, because } = task;
  const { versionId } = candidate;
  const unproved = isUnproved ? await prove(task, candidate) : undefined;
  if (unproved !== undefined) return unproved;
  // A proof alone tells which engine gives its tensors, and how long that takes.
  const candidates = repository.dropCandidates(busy);
  const { drop, keep } = planDrops(candidates, (each) => each.versionId === versionId, maxMs);
  const [planned] = drop;
  if (planned === undefined) return keep[0]?.because ?? "it is gone";
  const { version, recoveryMs } = planned;
  const inputs = await inputsOf(task, version);
  if (typeof inputs === "string") return inputs;
  const { needs } = inputs;
  const summary = repository.get(versionId) as VersionSummary;
  const damaged = await findDamagedInput(repository.objects, summary.record, needs);
  if (damaged !== undefined) return damaged;
  // Nothing is given up that this server did not once have as it was recorded.
  await repository.confirmStored(versionId);
  try {
    await repository.dropTensors({
      versionId,
      ...needs,
      replayMs: version.replayMs ?? Number.POSITIVE_INFINITY,
      because,
      maxMs,
      busy,
    });
  } catch (error) {
    if (isStemmaError(error, "DROP_REFUSED") || isStemmaError(error, "REFERENCE_MISSING"))
      return messageOf(error);
    throw error;
  }
  return { ...shown(version), recoveryMs, isProved: true, freedBytes: 0, keptBytes: 0 };
}

/** @returns why it is not proved, as text */
async function prove(task: DropTask, candidate: DropCandidate): Promise<string | undefined> {
  const { context, fleet, maxMs, signal } = task;
  const inputs = await inputsOf(task, candidate);
  if (typeof inputs === "string") return inputs;
  if ((inputs.predictedMs ?? 0) > maxMs)
    return "as predicted, its training alone takes longer than a recovery may";
  const report = await replayVersion(
    context,
    { fleet, model: candidate.versionId, maxMinutes: Math.max(1, Math.ceil(maxMs / 60_000)) },
    { signal },
  );
  return report.verdict === "proved" ? undefined : `its replay: ${report.verdict}, ${report.text}`;
}

function shown({
  versionId,
  state: { name, version, tensorBytes },
}: DropCandidate): Pick<Outcome, "versionId" | "name" | "version" | "tensorBytes"> {
  return { versionId, name, version, tensorBytes };
}
