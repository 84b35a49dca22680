/**
 * Makes a version once more from its story and compares the result bit for bit (MERIT's reproduction, ME1).
 * The engine that its provenance names trains in a child process, from the same base, data, parameters and
 * random numbers. Saves nothing but the fact of how it ended.
 */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../../shared/defined.js";
import type { TrainingProgress } from "../../../shared/train/training.js";
import type { MeasuredReplay } from "../../../shared/journal/facts/version-facts.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { ReplayReport } from "../../interface/api/models/evaluation-schemas.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import { requireRoom } from "../../services/context/room-for-models.js";
import { readOpenedProvenance } from "../../services/context/opened-provenance.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { createRunLimit } from "../../services/context/run-limit.js";
import { workFolderOf } from "../../services/context/work-folder.js";
import { averageStoryOf } from "./average-story.js";
import { judgeReplay, type Judgement } from "./judge-replay.js";
import { boundedCost, costLimits } from "../training/bounded-cost.js";
import { tooLong, withinTime } from "../training/training-cost.js";
import { programStoryOf } from "./program-story.js";
import { replayAverage } from "./replay-average.js";
import { replayProgram } from "./replay-program.js";
import { storyOf, type Unreplayable } from "./story.js";
import { trainAgain, type Replay } from "./train-again.js";

/** A replay takes a processor core for as long as the training took. */
export const withinReplayLimit = createRunLimit(
  "replays",
  1,
  " To queue it behind what runs and waits, use stemma replay run MODEL --detach; stemma replay list shows the queue.",
);

export interface ReplayOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: TrainingProgress) => void) | undefined;
  /**
   * A folder of the caller's own, in which a replay that is cut short leaves its state and continues the next time.
   * Absent: a replay that is cut short leaves nothing.
   */
  readonly keptFolder?: string | undefined;
}

/**
 * Replays a version and states how it ended; a verdict is kept in the journal.
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED, REPLAY_TOO_LONG, MEMORY_EXHAUSTED as predicted, QUOTA_EXCEEDED,
 * DISK_FULL, TRAINING_STOPPED when aborted
 */
export async function replayVersion(
  context: OperationsContext,
  { fleet, model, maxMinutes }: OperationInput<"replay">,
  options: ReplayOptions & { readonly engineId?: Hash } = {},
): Promise<ReplayReport> {
  const repository = await context.fleets.get(fleet);
  const summary = repository.resolve(model);
  // A retired version has no tensors to compare with.
  await repository.leaves(summary.versionId);
  const { versionId, name, version } = summary;
  const opened = await readOpenedProvenance(repository, summary.record.objects);
  const what = `${name}:${version}`;
  const limits =
    opened === undefined
      ? await costLimits(context, maxMinutes)
      : await boundedCost(context, repository, { what, opened, record: summary.record, maxMinutes });
  const { memoryLimitMb } = limits;
  const { signal } = options;
  const ended = await withinReplayLimit(context, () =>
    withinTime(context.home.ports.clock, { ...limits, signal }, (ending) =>
      inWorkFolder(context, options, (folder) =>
        replay({ context, repository, summary, memoryLimitMb, ...options, signal: ending }, folder),
      ),
    ),
  );
  if (ended === tooLong) return { versionId, name, version, ...unreplayable(tookTooLong(limits.maxMinutes)) };
  const { verdict, grade, engineId, text } = ended;
  if (verdict !== "unreplayable" && grade !== undefined && engineId !== undefined)
    await repository.append({
      type: "replayed",
      atMs: context.home.ports.clock.now(),
      versionId,
      verdict,
      grade,
      engineId,
      because: text,
      ...measuredBy(ended),
    });
  return { versionId, name, version, ...ended };
}

/** Runs the work in the folder that is kept, or in one that is removed at its end. */
export async function inWorkFolder<T>(
  { home }: OperationsContext,
  { keptFolder, signal }: ReplayOptions,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  await requireRoom(home);
  if (keptFolder === undefined) await mkdir(workFolderOf(home), { recursive: true });
  else await mkdir(keptFolder, { recursive: true });
  const folder = keptFolder ?? (await mkdtemp(join(workFolderOf(home), "replay-")));
  try {
    return await work(folder);
  } finally {
    if (keptFolder === undefined || signal?.aborted !== true)
      await rm(folder, { recursive: true, force: true });
  }
}

async function replay(task: Replay, workFolder: string): Promise<Judgement> {
  const { repository, summary } = task;
  const opened = await readOpenedProvenance(repository, summary.record.objects);
  const told = programStoryOf(opened);
  if (told !== undefined)
    return told.unreplayable === undefined
      ? await replayProgram(task, told, workFolder)
      : unreplayable(told.unreplayable);
  const average = averageStoryOf(opened);
  if (average !== undefined)
    return average.unreplayable === undefined
      ? await replayAverage(task, average)
      : unreplayable(average.unreplayable);
  const read = storyOf(opened);
  if ("unreplayable" in read) return unreplayable(read.unreplayable);
  const { story } = read;
  const trained = await trainAgain(task, story, workFolder);
  return "reason" in trained
    ? unreplayable(trained)
    : await judgeReplay(task, { ...trained, opened: read.opened, story });
}

/** Returns what a fact states of the replay beside its verdict. */
export function measuredBy({ workMs, dataFrom, description }: Judgement): MeasuredReplay {
  // Named data go with a file's story, of which no verdict is kept.
  return defined({ workMs, dataFrom: dataFrom === "named" ? undefined : dataFrom, description });
}

export function tookTooLong(maxMinutes: number): Unreplayable {
  const text = `its training was ended after ${maxMinutes} minutes; allow more with --max-minutes.`;
  return { reason: "too-long", text };
}

export function unreplayable({ reason, text }: Unreplayable): Judgement {
  return { verdict: "unreplayable", reason, text };
}
