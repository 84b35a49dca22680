/** What a replay proves: its tensors, its numbers and its measures against those that were recorded. */
import { readFile } from "node:fs/promises";
import { nodeFiles } from "../../shared/files/node-files.js";
import { decodeArchitecture } from "../../shared/model/architecture.js";
import { decodeMetadata } from "../../shared/model/metadata.js";
import { decodeNames } from "../../shared/model/names.js";
import type { OpenedProvenance } from "../../shared/provenance/openings.js";
import { openProvenance } from "../../shared/provenance/openings.js";
import { provenanceOfTraining } from "../../shared/provenance/training-provenance.js";
import { modelToSaveOfSafetensors } from "../../shared/save/model-source.js";
import type { TensorSource } from "../../shared/tensor/tensor.js";
import { metadataOfResult } from "../../shared/train/result-metadata.js";
import type { TrainingOutcome } from "../../shared/train/train-in-child.js";
import { environmentOfTraining } from "../../shared/train/training-environment.js";
import { programVersion } from "../../shared/adapters/program-version.js";
import type { ReplayReport } from "../api/evaluation-schemas.js";
import type { FleetRepository } from "../repository/fleet-repository.js";
import { readLeaves } from "../repository/state/references.js";
import { differingMembers } from "./compare-stories.js";
import { compareTensors, type TensorDifference } from "./compare-tensors.js";
import type { Story } from "./story.js";
import type { Replay, TrainedAgain } from "./train-again.js";

export type Judgement = Omit<ReplayReport, "versionId" | "name" | "version">;

interface Judged extends TrainedAgain {
  readonly story: Story;
  readonly opened: OpenedProvenance;
}

/**
 * Compares what the replay gave with what was recorded. Tensors that differ refute the story only where the same
 * engine must give the same bits (wasm); elsewhere they show that this machine is of another exactness class.
 */
export async function judgeReplay(
  { context, repository, summary }: Replay,
  { outcome, story, opened, dataFrom }: Judged,
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
  const difference = await compareWithRecorded(repository, summary, outcome);
  const mustBeEqual = story.exactness === "wasm" && result.backend.backend === "wasm";
  const isRepeated = difference === undefined && members.length === 0;
  const hasRepeatedMeasures = members.length === 0 && (await hasSameMeasures(repository, summary, outcome));
  const verdict = isRepeated ? "proved" : mustBeEqual ? "refuted" : "unreplayable";
  return {
    verdict,
    grade: difference === undefined ? "bit-exact" : hasRepeatedMeasures ? "execution-exact" : "different",
    ...(verdict === "unreplayable" ? { reason: "other-class" as const } : {}),
    text: describe(verdict, difference, members),
    ...(difference === undefined ? {} : { difference }),
    ...(members.length === 0 ? {} : { members }),
    engineId: result.engine,
    dataFrom,
    workMs: Math.round(result.durationMs),
  };
}

async function compareWithRecorded(
  repository: FleetRepository,
  { record }: Replay["summary"],
  { modelFile, architectureFile }: TrainingOutcome,
): Promise<TensorDifference | undefined> {
  const leaves = await readLeaves(repository.objects, record);
  const names = decodeNames(await repository.objects.read("names", record.objects.names), leaves.length);
  const file = await nodeFiles().open(modelFile, "read");
  try {
    const architecture = decodeArchitecture(await readFile(architectureFile));
    const model = await modelToSaveOfSafetensors(file, modelFile, { architecture: { architecture } });
    const replayed = new Map(
      ("unhashedLeaves" in model ? model.unhashedLeaves : model.leaves).map(
        ({ path }, i) => [path, model.sources[i] as TensorSource] as const,
      ),
    );
    return await compareTensors(
      leaves.map(({ path, tensor }, i) => ({
        path,
        name: names.leaves[i] ?? path,
        id: tensor,
        // Those of a claim are not here.
        source: repository.objects.has(tensor) ? repository.objects.openTensor(tensor) : undefined,
      })),
      replayed,
    );
  } finally {
    await file.close();
  }
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

async function hasSameMeasures(
  { objects }: FleetRepository,
  { record }: Replay["summary"],
  { result }: TrainingOutcome,
): Promise<boolean> {
  const { metadata } = record.objects;
  if (metadata === undefined || !objects.has(metadata)) return false;
  const recorded = decodeMetadata(await objects.read("metadata", metadata));
  const replayed = metadataOfResult(result);
  return repeatedMeasures.every((name) => Object.is(recorded[name], replayed[name]));
}

function describe(
  verdict: ReplayReport["verdict"],
  difference: TensorDifference | undefined,
  members: readonly string[],
): string {
  if (verdict === "proved") return "the training was repeated, and every tensor has the recorded bytes.";
  const tensors =
    difference === undefined
      ? "every tensor has the recorded bytes"
      : `${difference.tensors} tensors have other bytes, the first is ${JSON.stringify(difference.first)}`;
  const story = members.length === 0 ? "" : `; the replay had other values of ${members.join(", ")}`;
  return verdict === "refuted"
    ? `the training was repeated, and ${tensors}${story}. Do not trust what the record says of its making.`
    : `the training was repeated on a machine of another exactness class, and ${tensors}${story}. That proves nothing.`;
}
