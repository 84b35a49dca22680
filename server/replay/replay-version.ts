/**
 * Makes a version once more from its story: the engine that its provenance names trains in a child process, from
 * the same base, data, parameters and random numbers, and the result is compared bit for bit (MERIT's reproduction,
 * ME1). Saves nothing but the fact of how it ended.
 */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { ReplayReport } from "../api/evaluation-schemas.js";
import type { OperationInput } from "../api/server-operations.js";
import { requireDiskSpace } from "../context/disk-space.js";
import { readOpenedProvenance } from "../context/opened-provenance.js";
import type { OperationsContext } from "../context/operations-context.js";
import { createRunLimit } from "../context/run-limit.js";
import { workFolderOf } from "../context/work-folder.js";
import { judgeReplay, type Judgement } from "./judge-replay.js";
import { storyOf, type Unreplayable } from "./story.js";
import { trainAgain, type Replay } from "./train-again.js";

/** A replay takes a processor core for as long as the training took. */
const withinReplayLimit = createRunLimit("replays", 1);

/**
 * Replays a version and states how it ended; a verdict is kept in the journal.
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED, QUOTA_EXCEEDED, DISK_FULL, TRAINING_STOPPED when aborted
 */
export async function replayVersion(
  context: OperationsContext,
  { fleet, model }: OperationInput<"replay">,
  signal?: AbortSignal,
): Promise<ReplayReport> {
  const repository = await context.fleets.get(fleet);
  const summary = repository.resolve(model);
  // A retired version has no tensors to compare with.
  await repository.leaves(summary.versionId);
  const ended = await withinReplayLimit(context, () => replay({ context, repository, summary, signal }));
  const { versionId, name, version } = summary;
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
    });
  return { versionId, name, version, ...ended };
}

async function replay(task: Replay): Promise<Judgement> {
  const { context, repository, summary } = task;
  await requireDiskSpace(context.home);
  const opened = await readOpenedProvenance(repository, summary.record.objects);
  const read = storyOf(opened);
  if ("unreplayable" in read) return unreplayable(read.unreplayable);
  const { story } = read;
  await mkdir(workFolderOf(context.home), { recursive: true });
  const workFolder = await mkdtemp(join(workFolderOf(context.home), "replay-"));
  try {
    const trained = await trainAgain(task, story, workFolder);
    return "reason" in trained
      ? unreplayable(trained)
      : await judgeReplay(task, { ...trained, opened: read.opened, story });
  } finally {
    await rm(workFolder, { recursive: true, force: true });
  }
}

function unreplayable({ reason, text }: Unreplayable): Judgement {
  return { verdict: "unreplayable", reason, text };
}
