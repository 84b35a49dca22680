/**
 * Replays a changed story and saves the new model with a record of its own (ME2). It has the same engine,
 * base, data and random numbers, and other parameters. Pure but for the training and the save.
 */
import { parametersLike } from "../../../shared/train/declared-parameters.js";
import { StemmaError } from "../../../shared/errors.js";
import { decodeStory } from "../../../shared/provenance/exported-story.js";
import { valueOf, type OpenedProvenance } from "../../../shared/provenance/openings.js";
import { usedEngine } from "../../../shared/train/own-engine.js";
import { readOpenedProvenance } from "../../services/context/opened-provenance.js";
import { storeNamedEngine } from "../../services/context/own-engine.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { ChangedReplayReport } from "../../interface/api/models/replay-schemas.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import { dataOfTraining } from "../../services/data/data-of-training.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { checkExactness } from "../../storage/repository/state/exactness.js";
import { saveOutcome } from "../training/save-outcome.js";
import { boundedCost } from "../training/bounded-cost.js";
import { minutesText, tooLong, withinTime } from "../training/training-cost.js";
import { endedForTime } from "../training/training-errors.js";
import { replayIncomplete } from "./replay-errors.js";
import { inWorkFolder, withinReplayLimit } from "./replay-version.js";
import { storyOf, type Story } from "./story.js";
import { findBase } from "../../services/data/find-base.js";
import { trainAgain, type Replay } from "./train-again.js";

type Scalar = string | number | boolean;

/**
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED, RECIPE_PARAMETERS_INVALID for parameters that the recipe does not have or
 * values of another type, with the list; REPLAY_TOO_LONG, MEMORY_EXHAUSTED, REPLAY_INCOMPLETE where the story cannot
 * be replayed here, QUOTA_EXCEEDED, DISK_FULL, TRAINING_STOPPED when aborted
 */
export async function replayChanged(
  context: OperationsContext,
  { fleet, model, ...change }: OperationInput<"replayChanged">,
  signal?: AbortSignal,
): Promise<ChangedReplayReport> {
  const repository = await context.fleets.get(fleet);
  const original = repository.resolve(model);
  const what = `${original.name}:${original.version}`;
  const opened = await readOpenedProvenance(repository, original.record.objects);
  return await trainChanged(context, { repository, original, what, opened }, { ...change, signal });
}

/**
 * Replays the story of an exported file with other parameters. The version of the story need not be known here.
 * @throws STORY_INVALID, and what `replayChanged` throws
 */
export async function replayChangedStory(
  context: OperationsContext,
  { fleet, story, data, ...change }: OperationInput<"replayChangedStory">,
  signal?: AbortSignal,
): Promise<ChangedReplayReport> {
  const { versionId, record, opened, bases: baseRecords } = decodeStory(story);
  const what = `${record.name} (${versionId.slice(0, 12)})`;
  changesOf(what, opened, change.set);
  const repository = await context.fleets.get(fleet, { create: true });
  const original = { versionId, record, name: record.name, version: 0 };
  const changed = { repository, original, what, opened, baseRecords, dataAt: data };
  return await trainChanged(context, changed, { ...change, signal });
}

interface Original extends Pick<Replay, "repository" | "baseRecords" | "dataAt"> {
  readonly original: Replay["summary"] & Pick<VersionSummary, "name" | "version">;
  readonly what: string;
  readonly opened: OpenedProvenance | undefined;
}

async function trainChanged(
  context: OperationsContext,
  { repository, original, what, opened: found, baseRecords, dataAt }: Original,
  {
    name,
    set,
    maxMinutes,
    signal,
  }: Omit<OperationInput<"replayChanged">, "fleet" | "model"> & { readonly signal?: AbortSignal | undefined },
): Promise<ChangedReplayReport> {
  checkExactness(name, undefined, repository.versions({ name, includeRetired: true }).at(-1));
  const read = storyOf(found);
  if ("unreplayable" in read) throw replayIncomplete(what, read.unreplayable.text);
  const changes = changesOf(what, read.opened, set);
  const changed = Object.fromEntries(changes.map(({ parameter, after }) => [parameter, after]));
  const { opened } = read;
  const { record } = original;
  const limits = await boundedCost(context, repository, { what, opened, record, changed, maxMinutes });
  const { memoryLimitMb } = limits;
  const story: Story = { ...read.story, parameters: { ...read.story.parameters, ...changed } };
  const ended = await withinReplayLimit(context, () =>
    withinTime(context.home.ports.clock, { ...limits, signal }, (ending) =>
      inWorkFolder(context, { signal }, async (folder) => {
        const trained = await trainAgain(
          {
            context,
            repository,
            summary: original,
            baseRecords,
            dataAt,
            memoryLimitMb,
            signal: ending,
          },
          story,
          folder,
        );
        if ("reason" in trained) throw replayIncomplete(what, trained.text);
        const base =
          story.base === undefined
            ? undefined
            : await findBase(repository, story.base, baseRecords?.get(story.base));
        return await save(context, { repository, original, name, changes, opened, story, base }, trained);
      }),
    ),
  );
  if (ended === tooLong)
    throw endedForTime("REPLAY_TOO_LONG", what, minutesText(limits.maxMinutes * 60_000), limits);
  return {
    ...ended,
    of: { versionId: original.versionId, name: original.name, version: original.version },
    changes,
  };
}

interface Change {
  readonly parameter: string;
  readonly before: Scalar;
  readonly after: Scalar;
}

/** The prefix that MERIT's records have. */
const prefix = "trainer.";

/** @throws RECIPE_PARAMETERS_INVALID */
export function changesOf(
  what: string,
  opened: OpenedProvenance,
  set: Readonly<Record<string, Scalar>>,
): readonly Change[] {
  const known = new Map(
    Object.entries((valueOf(opened, "parameters") ?? {}) as Record<string, { readonly value: unknown }>).map(
      ([name, { value }]) => [name, (typeof value === "bigint" ? Number(value) : value) as Scalar] as const,
    ),
  );
  const refuse = (reason: string, parameter: string): never => {
    const list = [...known].map(([name, value]) => `${name}=${String(value)}`).join(", ");
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `${reason} The parameters of ${what} are ${list}. Write --set ${prefix}NAME=VALUE.`,
      { parameter },
    );
  };
  const changes = Object.entries(set).map(([given, passed]): Change => {
    const parameter = given.startsWith(prefix) ? given.slice(prefix.length) : given;
    const before = known.get(parameter);
    const after = parametersLike({ [given]: before }, { [given]: passed })[given] ?? passed;
    if (before === undefined)
      return refuse(`There is no parameter ${JSON.stringify(given.slice(0, 60))}.`, given);
    if (typeof before !== typeof after)
      return refuse(`${given} takes a ${typeof before}, not ${JSON.stringify(after).slice(0, 60)}.`, given);
    return { parameter, before, after };
  });
  const first = changes.find(({ before, after }) => before === after);
  if (changes.length === 0) return refuse("Nothing is changed.", "");
  if (first !== undefined)
    return refuse(
      `${first.parameter} is ${String(first.before)} already, so nothing is changed.`,
      first.parameter,
    );
  return changes;
}

interface NewVersion {
  readonly repository: FleetRepository;
  readonly original: Original["original"];
  readonly base: VersionSummary | undefined;
  readonly name: string;
  readonly changes: readonly Change[];
  readonly opened: OpenedProvenance;
  readonly story: Story;
}

async function save(
  context: OperationsContext,
  { repository, original, name, changes, opened, story, base }: NewVersion,
  { outcome }: Exclude<Awaited<ReturnType<typeof trainAgain>>, { readonly reason: string }>,
): Promise<Pick<ChangedReplayReport, "summary" | "result">> {
  const { result } = outcome;
  const engine = original.record.uses?.engine ?? (await usedEngine(result.engine))?.id;
  await storeNamedEngine(repository, engine);
  const description = story.data.description;
  const summary = await saveOutcome(context, {
    repository,
    engine: engine === undefined ? undefined : { id: engine },
    name,
    called: [...calledBefore(opened), ...changes.map(({ parameter }) => parameter)],
    dataName: description?.name,
    notes: {
      "replay.of": original.versionId,
      "replay.changed": changes
        .map(({ parameter, before, after }) => `${parameter}: ${String(before)} → ${String(after)}`)
        .join(", "),
    },
    base,
    outcome,
    data: await dataOfTraining(repository, result.datasetHash, description?.reader ?? ""),
  });
  (await context.live?.fleet(repository.fleet))?.saved(summary.versionId);
  return { summary, result };
}

/** Parameters that the original call named. */
function calledBefore(opened: OpenedProvenance): readonly string[] {
  const parameters = (valueOf(opened, "parameters") ?? {}) as Record<string, { readonly from?: unknown }>;
  return Object.entries(parameters).flatMap(([name, { from }]) => (from === "call" ? [name] : []));
}
