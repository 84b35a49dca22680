/** Saves what a training on the server made as a version. */
import { readFile } from "node:fs/promises";
import { programVersion } from "../../../shared/adapters/program-version.js";
import { defined } from "../../../shared/defined.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { decodeArchitecture } from "../../../shared/model/architecture.js";
import type { ModelMetadata } from "../../../shared/model/metadata.js";
import { maxCheckpoints } from "../../../shared/model/record-uses.js";
import { canonicalMeasurements } from "../../../shared/provenance/measurement-forms.js";
import { provenanceOfTraining } from "../../../shared/provenance/training-provenance.js";
import { modelToSaveOfSafetensors } from "../../../shared/save/model-source.js";
import { usesOfResult } from "../../../shared/save/result-uses.js";
import type { UsedObject } from "../../../shared/save/save-uses.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { reportedBundle } from "../../../shared/train/own-recipes/reported-bundle.js";
import { metadataOfResult } from "../../../shared/train/result-metadata.js";
import type { TrainingOutcome } from "../../../shared/train/train-in-child.js";
import { environmentOfTraining } from "../../../shared/train/training-environment.js";
import { layoutFrom } from "../../services/context/inherited-layout.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

/** A server keeps everything that a training leaves. */
const stateLimits = { checkpoints: maxCheckpoints, optimizer: true, bytes: Infinity };

export interface FinishedTraining {
  readonly repository: FleetRepository;
  readonly engine: { readonly id: Hash } | undefined;
  /** The name of the new version. */
  readonly name: string;
  /** Parameters that the call named; others that were passed come from a configuration file. */
  readonly called: readonly string[];
  /** Name under which the data are registered. */
  readonly dataName: string | undefined;
  readonly notes?: Readonly<Record<string, string>>;
  /** Metadata of the version beside those of its training. */
  readonly metadata?: ModelMetadata;
  readonly base: VersionSummary | undefined;
  /** A lease on the base, which may be retired meanwhile. */
  readonly lease?: string;
  readonly outcome: TrainingOutcome;
  readonly data: readonly UsedObject[];
}

/** Saves what a training on the server made, with its lineage, measurements, checkpoints and provenance. */
export async function saveOutcome(
  { home, caller }: OperationsContext,
  {
    repository,
    engine,
    name,
    called,
    dataName,
    notes,
    metadata,
    base,
    lease,
    outcome,
    data,
  }: FinishedTraining,
): Promise<VersionSummary> {
  const { result } = outcome;
  const recipe = reportedBundle(result.provenance);
  const files = nodeFiles();
  const file = await files.open(outcome.modelFile, "read");
  const closing = [() => file.close()];
  try {
    const architecture = decodeArchitecture(await readFile(outcome.architectureFile));
    const names =
      base === undefined ? undefined : (await repository.recover(base.versionId, defined({ lease }))).names;
    const model = await modelToSaveOfSafetensors(file, outcome.modelFile, {
      architecture: { architecture, ...defined({ names }) },
    });
    const described = { architecture, ...defined({ names }) };
    const { uses, dropped, close } = await usesOfResult(files, described, outcome, stateLimits);
    closing.push(close);
    const environment = environmentOfTraining(result, programVersion());
    const report = await repository.save(model, {
      name,
      bases: base === undefined ? [] : [base.versionId],
      ...defined({ lease }),
      environment,
      ...(await layoutFrom(repository, base, model)),
      measurements: canonicalMeasurements(result.measurements),
      ...provenanceOfTraining(
        {
          result,
          bases: base === undefined ? [] : [base.versionId],
          environment,
          called,
          dataName,
          notes,
          endedAtMs: home.ports.clock.now(),
          by: caller ?? null,
        },
        home.ports.random,
      ),
      metadata: { ...metadata, ...metadataOfResult(result, dropped) },
      uses: {
        ...uses,
        data,
        ...defined({ engine, recipe: recipe && { id: recipe } }),
      },
    });
    return report.summary;
  } finally {
    for (const close of closing) await close();
  }
}
