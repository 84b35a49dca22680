/**
 * Replays the story of an exported file, or of a record alone, against the data, bases and engines that are here
 * (ME6). Saves nothing: the version need not be known here.
 */
import { decodeArchitecture, architectureHash, weightSlots } from "../../../shared/model/architecture.js";
import { decodeEnvironment } from "../../../shared/model/environment.js";
import { decodeMetadata } from "../../../shared/model/metadata.js";
import type { Architecture, Leaf } from "../../../shared/model/model.js";
import { encodeTree } from "../../../shared/model/tree-object.js";
import { treeRoot } from "../../../shared/model/tree.js";
import { decodeStory, type ExportedStory } from "../../../shared/provenance/exported-story.js";
import { objectId, tensorIdOfSource } from "../../../shared/tensor/hash.js";
import type { Hash, TensorSource } from "../../../shared/tensor/tensor.js";
import type { ReplayReport } from "../../interface/api/models/evaluation-schemas.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { openRepositoryIn } from "../../storage/repository/open-repository.js";
import { averageStoryOf } from "./average-story.js";
import { compareTensors } from "./compare-tensors.js";
import { judgeReplay, type RecordedModel } from "./judge-replay.js";
import { boundedCost } from "../training/bounded-cost.js";
import { tooLong, withinTime } from "../training/training-cost.js";
import { tensorsNotOfStory } from "./replay-errors.js";
import { inWorkFolder, tookTooLong, unreplayable, withinReplayLimit } from "./replay-version.js";
import { programStoryOf } from "./program-story.js";
import { storyOf } from "./story.js";
import { trainAgain } from "./train-again.js";

type FileTensors = NonNullable<OperationInput<"replayStory">["tensors"]>;

/**
 * @throws STORY_INVALID; STORY_MISMATCH where the tensors of the file are not those of its story; REPLAY_TOO_LONG,
 * MEMORY_EXHAUSTED, QUOTA_EXCEEDED, DISK_FULL, TRAINING_STOPPED when aborted
 */
export async function replayStory(
  context: OperationsContext,
  { fleet, ...given }: OperationInput<"replayStory">,
  signal?: AbortSignal,
): Promise<ReplayReport> {
  return await withFleet(context, fleet, (inFleet, repository) =>
    replayIn(inFleet, repository, { ...given, signal }),
  );
}

/** Gives `work` the fleet; in a home that has none at all, an empty one that is removed afterwards. */
async function withFleet<T>(
  context: OperationsContext,
  fleet: string,
  work: (context: OperationsContext, repository: FleetRepository) => Promise<T>,
): Promise<T> {
  const { fleets, home, grant } = context;
  if (grant?.fleets !== undefined || (await fleets.names()).length > 0)
    return await work(context, await fleets.get(fleet));
  return await inWorkFolder(context, {}, async (folder) => {
    const repository = await openRepositoryIn(home, fleet, folder);
    try {
      const get = (): Promise<FleetRepository> => Promise.resolve(repository);
      return await work({ ...context, fleets: { ...fleets, get } }, repository);
    } finally {
      await repository.close();
    }
  });
}

async function replayIn(
  context: OperationsContext,
  repository: FleetRepository,
  {
    story: text,
    tensors,
    data,
    maxMinutes,
    signal,
  }: Omit<OperationInput<"replayStory">, "fleet"> & { readonly signal?: AbortSignal | undefined },
): Promise<ReplayReport> {
  const told = decodeStory(text);
  const { versionId, record, opened, bases, objects } = told;
  const { name } = record;
  if (tensors !== undefined && objects.architecture !== undefined)
    requireOwnTensors(told, decodeArchitecture(objects.architecture), tensors);
  const ofProgram = programStoryOf(opened);
  if (ofProgram !== undefined)
    return { versionId, name, version: 0, ...unreplayable(ofProgram.unreplayable ?? programLeftOut) };
  const ofAverage = averageStoryOf(opened);
  if (ofAverage !== undefined)
    return { versionId, name, version: 0, ...unreplayable(ofAverage.unreplayable ?? averageOfFile) };
  const read = storyOf(opened);
  const named = { versionId, name, version: 0 };
  if ("unreplayable" in read) return { ...named, ...unreplayable(read.unreplayable) };
  const { architecture } = objects;
  const limits = await boundedCost(context, repository, { what: name, opened, architecture, maxMinutes });
  const { memoryLimitMb } = limits;
  const ended = await withinReplayLimit(context, () =>
    withinTime(context.home.ports.clock, { ...limits, signal }, (ending) =>
      inWorkFolder(context, { signal }, async (folder) => {
        const task = {
          context,
          repository,
          summary: { versionId, record },
          baseRecords: bases,
          dataAt: data,
          memoryLimitMb,
          signal: ending,
        };
        const trained = await trainAgain(task, read.story, folder);
        if ("reason" in trained)
          return unreplayable(
            trained.reason === "data-missing" && data === undefined
              ? {
                  ...trained,
                  text: `${trained.text} Or name the file that it was trained with: --data LOCATION.`,
                }
              : trained,
          );
        const recorded = recordedInStory(told, tensors);
        return await judgeReplay(task, { ...trained, opened, story: read.story, recorded });
      }),
    ),
  );
  return { ...named, ...(ended === tooLong ? unreplayable(tookTooLong(limits.maxMinutes)) : ended) };
}

const programLeftOut = {
  reason: "program-missing",
  text:
    "a program of its owner's own made it, and a file's story leaves that out. Replay the version itself, where it is " +
    "stored with its program.",
} as const;

const averageOfFile = {
  reason: "unsupported",
  text: "it is an average, which is computed again where it is stored. Import the file, and replay the version.",
} as const;

/** Returns the recorded model of a story; for a record alone, only the root and the architecture can be compared. */
function recordedInStory(told: ExportedStory, tensors: FileTensors | undefined): RecordedModel {
  const { record, objects } = told;
  return {
    compare: async ({ architecture, tensors: replayed }) => {
      const isSameForm = architectureHash(architecture) === record.architecture;
      if (tensors !== undefined && isSameForm) {
        requireOwnTensors(told, architecture, tensors);
        const difference = await compareTensors(comparedOf(told, architecture, tensors), replayed);
        if (difference !== undefined) return { isEqual: false, difference };
      }
      const leaves = await leavesOf(architecture, replayed);
      const isSameTree = objectId("tree", encodeTree("architecture", leaves)) === record.objects.tree;
      return { isEqual: isSameForm && isSameTree && treeRoot(leaves) === record.root, difference: undefined };
    },
    parts: () =>
      Promise.resolve({
        record,
        ...(objects.metadata && { metadata: decodeMetadata(objects.metadata) }),
        ...(objects.environment && { environment: decodeEnvironment(objects.environment) }),
      }),
  };
}

async function leavesOf(
  architecture: Architecture,
  tensors: ReadonlyMap<string, TensorSource>,
): Promise<readonly Leaf[]> {
  const leaves: Leaf[] = [];
  for (const { path, dtype, shape } of weightSlots(architecture))
    leaves.push({ path, dtype, shape, tensor: await tensorIdOfSource(tensors.get(path) as TensorSource) });
  return leaves;
}

/** The tensors of the file, each at its path. */
function comparedOf(
  { objects: { fileOrder } }: ExportedStory,
  architecture: Architecture,
  tensors: FileTensors,
): readonly {
  readonly path: string;
  readonly name: string;
  readonly id: Hash;
  readonly source: undefined;
}[] {
  const byLeaf = new Map(tensors.map((tensor, position) => [fileOrder?.[position] ?? position, tensor]));
  return weightSlots(architecture).flatMap(({ path }, leaf) => {
    const tensor = byLeaf.get(leaf);
    return tensor === undefined ? [] : [{ path, ...tensor, source: undefined }];
  });
}

/** @throws STORY_MISMATCH */
function requireOwnTensors(told: ExportedStory, architecture: Architecture, tensors: FileTensors): void {
  const compared = comparedOf(told, architecture, tensors);
  const slots = weightSlots(architecture);
  const leaves = compared.map(({ path, id }, i) => ({
    ...(slots[i] as (typeof slots)[number]),
    path,
    tensor: id,
  }));
  if (tensors.length === slots.length && treeRoot(leaves) === told.record.root) return;
  throw tensorsNotOfStory(told.record.root);
}
