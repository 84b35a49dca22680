/**
 * Runs some segments of a version's training again, from the states that its device committed to before it knew which:
 * far less than a whole replay, and never a proof. What is chosen is written down before the device is asked for it, so
 * a device that does not answer is asked for the same segments again. Nothing is freed because of it.
 */
import { decodeArchitecture } from "../../../shared/model/architecture.js";
import { defined } from "../../../shared/defined.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import type { SpotCheck } from "../../../shared/journal/facts/version-facts.js";
import { segmentCount, type StateCommitment } from "../../../shared/provenance/state-commitment.js";
import { segmentsInChild } from "../../../shared/train/train-in-child.js";
import type { JobSegment } from "../../../shared/train/training.js";
import type { SpotCheckReport } from "../../interface/api/models/spot-check-schemas.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import { readOpenedProvenance } from "../../services/context/opened-provenance.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { costLimits } from "../training/bounded-cost.js";
import { tooLong, withinTime } from "../training/training-cost.js";
import { bisectSegment } from "./bisect-segment.js";
import { chooseSegments } from "./choose-segments.js";
import { fetchStates, stateFile, stateFolder, type Unanswered } from "./fetch-states.js";
import { commitmentOf, endProblem } from "./committed-ends.js";
import { judgeSegments, type JudgedSegments, type RunSegment } from "./judge-segments.js";
import { spotCheckIncomplete } from "./replay-errors.js";
import { inWorkFolder, tookTooLong, withinReplayLimit } from "./replay-version.js";
import { storyOf } from "./story.js";
import { withPreparedTraining, type PreparedTraining, type Replay } from "./train-again.js";
import { counted } from "../../../shared/printable.js";

/** Segments that are run again where no other number is asked for. */
export const defaultSegments = 10;

interface Check {
  readonly context: OperationsContext;
  readonly repository: FleetRepository;
  readonly summary: VersionSummary;
  readonly commitment: StateCommitment;
  readonly signal: AbortSignal;
}

type Ended = Pick<SpotCheck, "outcome" | "because" | "segments"> & { readonly workMs?: number };

/**
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED, REPLAY_INCOMPLETE where it cannot be checked here, with what to do;
 * QUOTA_EXCEEDED, DISK_FULL, TRAINING_STOPPED when aborted
 */
export async function spotCheck(
  context: OperationsContext,
  { fleet, model, segments = defaultSegments, maxMinutes }: OperationInput<"spotCheck">,
  { signal }: { readonly signal?: AbortSignal | undefined } = {},
): Promise<SpotCheckReport> {
  const repository = await context.fleets.get(fleet);
  const summary = repository.resolve(model);
  // A retired version has no tensors to compare with.
  await repository.leaves(summary.versionId);
  const what = `${summary.name}:${summary.version}`;
  const read = storyOf(await readOpenedProvenance(repository, summary.record.objects));
  if ("unreplayable" in read) throw spotCheckIncomplete(what, read.unreplayable.text);
  const commitment = await commitmentOf(repository, summary);
  const limits = await costLimits(context, maxMinutes);
  const { memoryLimitMb } = limits;
  if ("refuted" in commitment)
    return await end(
      { context, repository, summary },
      { engineId: read.story.engineId, of: 0 },
      refuted(commitment),
    );
  const ended = await withinReplayLimit(context, () =>
    withinTime(context.home.ports.clock, { ...limits, signal }, (ending) =>
      inWorkFolder(context, { signal: ending }, async (folder) => {
        const check = { context, repository, summary, commitment, signal: ending };
        // No other engine can stand in, even one that proved it: its leaves may be others where its tensors are not.
        const ownEngine = { ...summary, provedBy: [] };
        const task: Replay = { context, repository, summary: ownEngine, memoryLimitMb, signal: ending };
        const found = await endProblem(repository, summary, { commitment, opened: read.opened });
        if (found !== undefined) return refuted({ refuted: found });
        const prepared = await withPreparedTraining(task, read.story, folder, (training) =>
          runChosen(check, segments, training),
        );
        if ("reason" in prepared) throw spotCheckIncomplete(what, prepared.text);
        return prepared;
      }),
    ),
  );
  if (ended === tooLong) throw spotCheckIncomplete(what, tookTooLong(limits.maxMinutes).text);
  return await end(
    { context, repository, summary },
    { engineId: commitment.engine, of: segmentCount(commitment), commitment },
    ended,
  );
}

const refuted = (found: { readonly refuted: string }): Ended => ({
  outcome: "refuted",
  because: found.refuted,
  segments: [],
});

/** Writes down how it ended, except that the device has yet to answer: that is written already. */
async function end(
  { context, repository, summary }: Pick<Check, "context" | "repository" | "summary">,
  {
    engineId,
    of,
    commitment,
  }: Pick<SpotCheck, "engineId" | "of"> & { readonly commitment?: StateCommitment },
  { workMs, ...ended }: Ended,
): Promise<SpotCheckReport> {
  const { versionId, name, version } = summary;
  if (ended.outcome !== "asked")
    await repository.append({
      type: "spot-checked",
      atMs: context.home.ports.clock.now(),
      versionId,
      of,
      engineId,
      ...ended,
    });
  const { everySteps, steps } = commitment ?? {};
  return { versionId, name, version, of, engineId, ...ended, ...defined({ everySteps, steps, workMs }) };
}

/** Chooses segments, or takes those that the device has yet to give; has their states sent, and runs them. */
async function runChosen(check: Check, count: number, training: PreparedTraining): Promise<Ended> {
  const { context, commitment, summary } = check;
  const { job, options } = training;
  const segments = await chosen(check, count);
  const folder = stateFolder(context, summary);
  const { come, gone, silent } = await fetchStates(check, segments, folder);
  const runs = [
    ...(come.includes(0) ? [] : [beforeFirstStep]),
    ...come.map((each) => runOf(commitment, each, folder)),
  ];
  const startedMs = context.home.ports.clock.monotonic();
  const results = await segmentsInChild(
    job,
    runs.map(({ job: segment }) => segment),
    options,
  );
  const workMs = Math.round(context.home.ports.clock.monotonic() - startedMs);
  const judged = await bisected(check, judgeSegments(commitment, runs, results), runs, training);
  const outcome = outcomeOf(judged, { gone, silent });
  // Those that came are not asked for again while others are awaited.
  if (outcome.outcome !== "asked") await nodeFiles().remove(folder);
  return { ...outcome, segments, workMs };
}

/** The refutation, with the step in which the device and this server part, where the device tells. */
async function bisected(
  { context, repository, summary }: Check,
  judged: JudgedSegments,
  runs: readonly RunSegment[],
  training: PreparedTraining,
): Promise<JudgedSegments> {
  const segment = runs.find(({ index }) => index !== undefined && index === judged.refutedSegment);
  if (judged.refuted === undefined || segment === undefined) return judged;
  const { versionId, record, name, version } = summary;
  const fleet = await context.live?.fleet(repository.fleet);
  const asked = { fleet, device: record.device, versionId, model: `${name}:${version}`, segment };
  const { architecture: id } = record.objects;
  const architecture = async () =>
    id && decodeArchitecture(await repository.objects.read("architecture", id));
  const found = await bisectSegment({ ...asked, architecture }, training);
  return found === undefined ? judged : { ...judged, refuted: `${judged.refuted}; ${found}` };
}

/** Weighs what was found and what is missing: a refutation counts most, and what is lost more than what may come. */
function outcomeOf(
  { refuted: found, unusable, passed }: JudgedSegments,
  { gone, silent }: Unanswered,
): Pick<Ended, "outcome" | "because"> {
  if (found !== undefined) return { outcome: "refuted", because: found };
  const missing = [...gone, ...unusable];
  if (missing.length > 0) return { outcome: "not-available", because: missing.slice(0, 5).join("; ") };
  if (silent.length > 0) return { outcome: "asked", because: silent.slice(0, 5).join("; ") };
  return {
    outcome: "passed",
    because:
      passed === 1
        ? "a segment was run again, and gave the state that was committed to"
        : `${counted(passed, "segment was", "segments were")} run again, and each gave the state that was committed to`,
  };
}

/** Segments of a check that did not pass are asked for until they do: else a device could wait for others. */
async function chosen(
  { context, repository, summary, commitment }: Check,
  count: number,
): Promise<readonly number[]> {
  const of = segmentCount(commitment);
  const { versionId } = summary;
  const latest = repository.get(versionId)?.spotCheck;
  if (latest !== undefined && latest.outcome !== "passed" && latest.segments.length > 0)
    return latest.segments;
  const segments = chooseSegments(context.home.ports.random, count, of);
  await repository.append({
    type: "spot-checked",
    atMs: context.home.ports.clock.now(),
    versionId,
    outcome: "asked",
    segments,
    of,
    engineId: commitment.engine,
    because: "chosen at random, after the device had committed to its states",
  });
  return segments;
}

const beforeFirstStep: RunSegment = { index: undefined, job: { fromStep: 0, toStep: 0, isLast: false } };

function runOf(commitment: StateCommitment, index: number, folder: string): RunSegment {
  const { everySteps, steps } = commitment;
  const job: JobSegment = {
    ...(index === 0 ? {} : { file: stateFile(folder, index) }),
    fromStep: index * everySteps,
    toStep: Math.min(steps, (index + 1) * everySteps),
    isLast: index === segmentCount(commitment) - 1,
  };
  return { index, job };
}
