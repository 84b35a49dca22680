/** Judges what a replay proves: its tensors, its numbers and its measures against those that were recorded. */
import { readFile } from "node:fs/promises";
import { defined } from "../../../shared/defined.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { decodeArchitecture } from "../../../shared/model/architecture.js";
import type { Architecture } from "../../../shared/model/model.js";
import { decodeMetadata, type ModelMetadata } from "../../../shared/model/metadata.js";
import { decodeNames } from "../../../shared/model/names.js";
import type { OpenedProvenance } from "../../../shared/provenance/openings.js";
import { openProvenance } from "../../../shared/provenance/openings.js";
import { provenanceOfTraining } from "../../../shared/provenance/training-provenance.js";
import { modelToSaveOfSafetensors } from "../../../shared/save/model-source.js";
import type { TensorSource } from "../../../shared/tensor/tensor.js";
import { metadataOfResult } from "../../../shared/train/result-metadata.js";
import type { TrainingOutcome } from "../../../shared/train/train-in-child.js";
import { environmentOfTraining } from "../../../shared/train/training-environment.js";
import { programVersion } from "../../../shared/adapters/program-version.js";
import type { ReplayReport } from "../../interface/api/models/evaluation-schemas.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { readLeaves } from "../../storage/repository/state/references.js";
import { differingMembers } from "./compare-stories.js";
import { compareTensors, type TensorDifference } from "./compare-tensors.js";
import type { Story } from "./story.js";
import type { Replay, TrainedAgain } from "./train-again.js";

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
  { outcome, story, opened, dataFrom, recorded = recordedVersion(repository, summary) }: Judged,
): Promise<Judgement> {
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
  const members = differingMembers(opened, openProvenance(replayed.provenance, replayed.openings));
  const { isEqual, difference } = await compareWithRecorded(recorded, outcome);
  const isOtherEngine = result.engine !== story.engineId;
  const mustBeEqual = story.exactness === "wasm" && result.backend.backend === "wasm" && !isOtherEngine;
  const isRepeated = isEqual && members.length === 0;
  const hasRepeatedMeasures = members.length === 0 && (await hasSameMeasures(recorded, outcome));
  const verdict = isRepeated ? "proved" : mustBeEqual ? "refuted" : "unreplayable";
  return {
    verdict,
    grade: isEqual ? "bit-exact" : hasRepeatedMeasures ? "execution-exact" : "different",
    ...(verdict === "unreplayable"
      ? { reason: isOtherEngine ? ("other-engine" as const) : ("other-class" as const) }
      : {}),
    text: describe(verdict, { isEqual, difference, isOtherEngine }, members),
    ...defined({ difference }),
    ...(members.length === 0 ? {} : { members }),
    engineId: result.engine,
    dataFrom,
    workMs: Math.round(result.durationMs),
  };
}

/** The recorded model that a replay is compared with. */
export interface RecordedModel {
  /** @param replayed tensors by path */
  compare(replayed: ReplayedModel): Promise<Comparison>;
  /** The metadata of the version; undefined where they are not here. */
  metadata(): Promise<ModelMetadata | undefined>;
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

/** A version or a claim of this fleet. */
function recordedVersion({ objects }: FleetRepository, { record }: Replay["summary"]): RecordedModel {
  return {
    compare: async ({ tensors }) => {
      const leaves = await readLeaves(objects, record);
      const names = decodeNames(await objects.read("names", record.objects.names), leaves.length);
      const difference = await compareTensors(
        leaves.map(({ path, tensor }, i) => ({
          path,
          name: names.leaves[i] ?? path,
          id: tensor,
          // The tensors of a claim are not here.
          source: objects.has(tensor) ? objects.openTensor(tensor) : undefined,
        })),
        tensors,
      );
      return { isEqual: difference === undefined, difference };
    },
    metadata: async () => {
      const { metadata } = record.objects;
      if (metadata === undefined || !objects.has(metadata)) return undefined;
      return decodeMetadata(await objects.read("metadata", metadata));
    },
  };
}

/** The measures of the training that must be the same where the same operations ran. */
const repeatedMeasures = [
  "metric.name",
  "metric.before",
  "metric.after",
  "training.epochs",
  "training.stoppedEarly",
  "training.samples",
] as const;

async function hasSameMeasures(recorded: RecordedModel, { result }: TrainingOutcome): Promise<boolean> {
  const metadata = await recorded.metadata();
  if (metadata === undefined) return false;
  const replayed = metadataOfResult(result);
  return repeatedMeasures.every((name) => Object.is(metadata[name], replayed[name]));
}

function describe(
  verdict: ReplayReport["verdict"],
  { isEqual, difference, isOtherEngine }: Comparison & { readonly isOtherEngine: boolean },
  members: readonly string[],
): string {
  if (verdict === "proved") return "the training was repeated, and every tensor has the recorded bytes.";
  const tensors = isEqual
    ? "every tensor has the recorded bytes"
    : difference === undefined
      ? "the model has another root than the record"
      : `${difference.tensors} tensors have other bytes, the first is ${JSON.stringify(difference.first)}`;
  const story = members.length === 0 ? "" : `; the replay had other values of ${members.join(", ")}`;
  const where = isOtherEngine ? "by another engine" : "on a machine of another exactness class";
  return verdict === "refuted"
    ? `the training was repeated, and ${tensors}${story}. Do not trust what the record says of its making.`
    : `the training was repeated ${where}, and ${tensors}${story}. That proves nothing.`;
}
