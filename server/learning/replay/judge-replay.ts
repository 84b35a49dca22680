/** Judges what a replay proves: its tensors, its numbers and its measures against those that were recorded. */
import { readFile } from "node:fs/promises";
import { defined } from "../../../shared/defined.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { decodeArchitecture } from "../../../shared/model/architecture.js";
import type { Architecture, SaveRecord } from "../../../shared/model/model.js";
import { decodeNames } from "../../../shared/model/names.js";
import type { OpenedProvenance } from "../../../shared/provenance/openings.js";
import { openProvenance, valueOf } from "../../../shared/provenance/openings.js";
import { measurementForms } from "../../../shared/provenance/measurement-forms.js";
import type { DataDescription } from "../../../shared/provenance/provenance.js";
import { provenanceOfTraining } from "../../../shared/provenance/training-provenance.js";
import { modelToSaveOfSafetensors } from "../../../shared/save/model-source.js";
import { objectId } from "../../../shared/tensor/hash.js";
import type { TensorSource } from "../../../shared/tensor/tensor.js";
import { metadataOfResult } from "../../../shared/train/result-metadata.js";
import type { TrainingOutcome } from "../../../shared/train/train-in-child.js";
import type { TrainingResult } from "../../../shared/train/training.js";
import { environmentOfTraining } from "../../../shared/train/training-environment.js";
import { programVersion } from "../../../shared/adapters/program-version.js";
import type { ReplayReport } from "../../interface/api/models/evaluation-schemas.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { readLeaves } from "../../storage/repository/state/references.js";
import { compareKeptStates } from "./compare-kept-states.js";
import { differingMembers } from "./compare-stories.js";
import { compareTensors, type TensorDifference } from "./compare-tensors.js";
import type { StoredDescription } from "../../services/data/locate-data.js";
import { storedParts } from "./recorded-proof.js";
import type { Story } from "./story.js";
import {
  proofOfMembers,
  treeOfStory,
  type DescriptionSource,
  type MemberTree,
  type StoryParts,
} from "./told-story.js";
import type { Replay, TrainedAgain } from "./train-again.js";
import { counted } from "../../../shared/printable.js";

export type Judgement = Omit<ReplayReport, "versionId" | "name" | "version">;

interface Judged extends TrainedAgain {
  readonly story: Story;
  readonly opened: OpenedProvenance;
  /** Default: the version, as it is in the store. */
  readonly recorded?: RecordedModel | undefined;
}

/**
 * Compares what the replay gave with what was recorded. Tensors that differ refute the story only where the same
 * engine must give the same bits (wasm); elsewhere they show that this machine is of another exactness class.
 */
export async function judgeReplay(
  { context, repository, summary }: Replay,
  judged: Judged,
): Promise<Judgement> {
  const { outcome, story, opened, dataFrom, storedDescription } = judged;
  const { recorded = recordedVersion(repository, summary) } = judged;
  const { result } = outcome;
  const replayed = provenanceOfTraining(
    {
      result,
      bases: opened.provenance.bases,
      environment: environmentOfTraining(result, programVersion()),
      called: [],
      endedAtMs: 0,
      by: null,
    },
    context.home.ports.random,
  );
  const again = openProvenance(replayed.provenance, replayed.openings);
  const isOtherEngine = result.engine !== story.engineId;
  const description = isOtherEngine ? "none" : descriptionSource(opened, again, storedDescription);
  const parts: StoryParts = { ...(await recorded.parts()), opened };
  const states = await compareKeptStates(parts.record?.uses, outcome);
  const ofStory = [
    ...differingMembers(
      treeOfStory(parts),
      withDescription(
        treeOfStory({ opened: again, metadata: { ...metadataOfResult(result) } }),
        description === "stored" || description === "sent" ? storedDescription?.description : undefined,
      ),
      description,
    ),
    ...(hasSameMeasurements(parts, result) ? [] : [measurementsMember]),
  ];
  const members = [...ofStory, ...states.members];
  const { isEqual, difference } = await compareWithRecorded(recorded, outcome);
  const mustBeEqual = story.exactness === "wasm" && result.backend.backend === "wasm" && !isOtherEngine;
  const isRepeated = isEqual && members.length === 0;
  const hasRepeatedMeasures =
    ofStory.every((member) => member === measurementsMember) && parts.metadata !== undefined;
  const verdict = isRepeated ? "proved" : mustBeEqual ? "refuted" : "unreplayable";
  return {
    verdict,
    grade: isEqual ? "bit-exact" : hasRepeatedMeasures ? "execution-exact" : "different",
    ...(verdict === "unreplayable"
      ? { reason: isOtherEngine ? ("other-engine" as const) : ("other-class" as const) }
      : {}),
    text: describe(verdict, { isEqual, difference, isOtherEngine, description }, members),
    ...defined({ difference, checkpoints: states.checkpoints }),
    ...(members.length === 0 ? {} : { members }),
    ...(verdict === "proved" ? { proof: proofOfMembers(parts, { description }), description } : {}),
    engineId: result.engine,
    dataFrom,
    workMs: Math.round(result.durationMs),
  };
}

/** A reader is compared with itself only: another one has another form of the same samples. */
function descriptionSource(
  opened: OpenedProvenance,
  replayed: OpenedProvenance,
  stored: StoredDescription | undefined,
): DescriptionSource {
  const reader = readerOf(opened);
  if (reader === undefined) return "none";
  if (reader === readerOf(replayed)) return "reader";
  if (reader !== stored?.description.reader) return "none";
  return stored.isOwn ? "stored" : "sent";
}

/** The replay's members, with what is stored of the data in the place of what stored samples say. */
function withDescription(tree: MemberTree, stored: DataDescription | undefined): MemberTree {
  const data = tree["data"];
  if (stored === undefined || !Array.isArray(data)) return tree;
  return { ...tree, data: [{ ...stored, samples: (data[0] as DataDescription | undefined)?.samples }] };
}

function readerOf(opened: OpenedProvenance): unknown {
  const data: unknown = valueOf(opened, "data");
  const [first] = (Array.isArray(data) ? data : []) as readonly ({ readonly reader?: unknown } | null)[];
  return first?.reader;
}

export const measurementsMember = "record.objects.measurements";

/** The losses and rates of the training's course; a story has their hash alone. */
function hasSameMeasurements({ record }: StoryParts, { measurements }: TrainingResult): boolean {
  const expected = record?.objects.measurements;
  return (
    expected === undefined ||
    measurementForms(measurements).some((bytes) => objectId("measurements", bytes) === expected)
  );
}

/** The recorded model that a replay is compared with. */
export interface RecordedModel {
  /** @param replayed tensors by path */
  compare(replayed: ReplayedModel): Promise<Comparison>;
  /** Record, metadata and environment of the model, as far as they are here. */
  parts(): Promise<Omit<StoryParts, "opened">>;
}

export interface ReplayedModel {
  readonly architecture: Architecture;
  readonly tensors: ReadonlyMap<string, TensorSource>;
}

export interface Comparison {
  readonly isEqual: boolean;
  /** The difference; undefined where all are equal, and where only the root of the recorded model is known. */
  readonly difference: TensorDifference | undefined;
}

async function compareWithRecorded(
  recorded: RecordedModel,
  { modelFile, architectureFile }: TrainingOutcome,
): Promise<Comparison> {
  const file = await nodeFiles().open(modelFile, "read");
  try {
    const architecture = decodeArchitecture(await readFile(architectureFile));
    const model = await modelToSaveOfSafetensors(file, modelFile, { architecture: { architecture } });
    const tensors = new Map(
      ("unhashedLeaves" in model ? model.unhashedLeaves : model.leaves).map(
        ({ path }, i) => [path, model.sources[i] as TensorSource] as const,
      ),
    );
    return await recorded.compare({ architecture, tensors });
  } finally {
    await file.close();
  }
}

/** @param tensors of a replay, by path */
export async function compareWithStored(
  objects: FleetRepository["objects"],
  record: SaveRecord,
  tensors: ReadonlyMap<string, TensorSource>,
): Promise<TensorDifference | undefined> {
  const leaves = await readLeaves(objects, record);
  const names = decodeNames(await objects.read("names", record.objects.names), leaves.length);
  return await compareTensors(
    leaves.map(({ path, tensor }, i) => ({
      path,
      name: names.leaves[i] ?? path,
      id: tensor,
      // The tensors of a claim are not here.
      source: objects.has(tensor) ? objects.openTensor(tensor) : undefined,
    })),
    tensors,
  );
}

/** A version or a claim of this fleet. */
function recordedVersion({ objects }: FleetRepository, { record }: Replay["summary"]): RecordedModel {
  return {
    compare: async ({ tensors }) => {
      const difference = await compareWithStored(objects, record, tensors);
      return { isEqual: difference === undefined, difference };
    },
    parts: () => storedParts({ objects }, record),
  };
}

interface Compared extends Comparison {
  readonly isOtherEngine: boolean;
  readonly description: DescriptionSource;
}

const repeated = "the training was repeated, and every tensor has the recorded bytes";
const provedText: Readonly<Record<DescriptionSource, string>> = {
  reader: `${repeated}; its measurements, numbers and data are as the record describes them.`,
  stored:
    `${repeated}; its measurements and numbers are the recorded ones, and the description of its data is the one ` +
    "that a reader here gave when the samples were stored.",
  sent:
    `tensors and measurements proved, description stated: ${repeated}; columns, words, scales and split of its ` +
    "data are what came with the samples, which nothing here can check.",
  none:
    `tensors and measurements proved, description stated: ${repeated}; columns, words, scales and split of its ` +
    "data could not be rebuilt here.",
};

function describe(
  verdict: ReplayReport["verdict"],
  { isEqual, difference, isOtherEngine, description }: Compared,
  members: readonly string[],
): string {
  if (verdict === "proved") return provedText[description];
  const tensors =
    isEqual || difference !== undefined
      ? describeTensors(difference)
      : "the model has another root than the record";
  const story = members.length === 0 ? "" : `; the replay had other values of ${members.join(", ")}`;
  const where = isOtherEngine ? "by another engine" : "on a machine of another exactness class";
  return verdict === "refuted"
    ? `the training was repeated, and ${tensors}${story}. Do not trust what the record says of its making.`
    : `the training was repeated ${where}, and ${tensors}${story}. That proves nothing.`;
}

/** Says which tensors differ from the recorded ones. */
export function describeTensors(difference: TensorDifference | undefined): string {
  return difference === undefined
    ? "every tensor has the recorded bytes"
    : `${counted(difference.tensors, "tensor has", "tensors have")} other bytes, the first is ${JSON.stringify(difference.first)}`;
}
