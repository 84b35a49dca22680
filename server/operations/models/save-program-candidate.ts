/** Saves what a user's own program left of a candidate. Nothing of Stemma trained it: its exactness class is "none". */
import { programVersion } from "../../../shared/adapters/program-version.js";
import { defined } from "../../../shared/defined.js";
import { layoutName } from "../../../shared/layouts/layout.js";
import type { ModelOfBase } from "../../../shared/layouts/model-of-base.js";
import { architectureHash } from "../../../shared/model/architecture.js";
import { encodeEnvironment } from "../../../shared/model/environment.js";
import type { ModelSource } from "../../../shared/model/model.js";
import { captureNodeEnvironment } from "../../../shared/model/node-environment.js";
import { contentId, treeRoot } from "../../../shared/model/tree.js";
import type { GivenSamples } from "../../../shared/programs/job-folder.js";
import { orderText } from "../../../shared/programs/program-libraries.js";
import { programAttachments, type RecordedProgram } from "../../../shared/programs/record-program.js";
import type { TrainerOutput } from "../../../shared/programs/read-output.js";
import type { CommandIdentity } from "../../../shared/programs/trusted-command.js";
import { makeProvenance } from "../../../shared/provenance/make-provenance.js";
import type { ProgramRecord } from "../../../shared/provenance/provenance.js";
import { parametersWithOrigin } from "../../../shared/provenance/training-provenance.js";
import { objectId } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { DatasetSummary } from "../../interface/api/models/dataset-schemas.js";
import { parametersOf, type PlannedCandidate } from "../../learning/query/evaluate/plan-evaluation.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { baseVersionOf, metadataOf, savedBefore } from "./candidate-versions.js";
import type { CandidateWorkOptions } from "./candidate-work.js";

/** The members of the record of a program that one run of it has. */
export type ProgramRan = Pick<ProgramRecord, "job" | "limits" | "libraries">;

export interface ProgramCandidate {
  readonly candidate: PlannedCandidate;
  readonly command: CommandIdentity;
  readonly output: TrainerOutput;
  readonly found: ModelOfBase;
  readonly samples: GivenSamples | undefined;
  /** The registered data; undefined: the program has data of its own. */
  readonly data: DatasetSummary | undefined;
  readonly workMs: number;
  /** The program and its run, where its owner has it recorded and its base is a version. */
  readonly recorded?: Pick<RecordedProgram, "bytes" | "id" | "machine"> & ProgramRan;
}

/** @returns the version, also where a killed process had saved it */
export async function saveProgramCandidate(
  context: OperationsContext,
  options: Pick<CandidateWorkOptions, "repository" | "query" | "seed" | "lease">,
  trained: ProgramCandidate,
): Promise<Hash> {
  const { repository, lease } = options;
  const { candidate, command, output, found, samples, workMs, recorded } = trained;
  const { model } = found;
  const base = await baseVersionOf(context, options, candidate.model);
  const name = candidate.model.keptName;
  const known = savedBefore(repository, { name, base: base.versionId, contentId: contentOf(model) });
  if (known !== undefined) return known;
  const { metadata, measurements } = output.metrics;
  const environment = {
    ...captureNodeEnvironment({ backend: "external", stemma: programVersion() }),
    "trainer.program": command.program,
    "trainer.command": command.sha256,
    ...(recorded?.libraries && { loadOrder: orderText(recorded.libraries) }),
  };
  const layout = found.layout === undefined ? [] : [{ name: layoutName, bytes: found.layout }];
  const { summary } = await repository.save(model, {
    ...{ name, lease, environment, bases: [base.versionId] },
    attachments: [...output.attachments, ...layout, ...programAttachments(recorded)],
    ...defined({ measurements }),
    metadata: {
      ...metadata,
      "trainer.program": command.program,
      "trainer.command": command.sha256,
      "training.ms": workMs,
      ...defined({ "training.samples": samples?.train }),
      ...metadataOf(candidate, options),
    },
    ...provenanceOf(context, options.seed, { ...trained, base: base.versionId, environment }),
  });
  (await context.live?.fleet(repository.fleet))?.saved(summary.versionId);
  return summary.versionId;
}

export function contentOf({ architecture, leaves }: ModelSource): Hash {
  if (architecture === undefined) throw new TypeError("a candidate has an architecture");
  return contentId(architectureHash(architecture), treeRoot(leaves));
}

function provenanceOf(
  { home, caller }: OperationsContext,
  seed: string,
  {
    candidate,
    command,
    samples,
    data,
    workMs,
    recorded,
    base,
    environment,
  }: ProgramCandidate & { readonly base: Hash; readonly environment: Readonly<Record<string, string>> },
) {
  const { random, clock } = home.ports;
  const parameters = parametersOf(candidate);
  return makeProvenance(
    {
      ...{ engine: undefined, recipe: undefined, exactness: "none", bases: [base] },
      data: samples === undefined ? [] : [samples.hash],
      environment: objectId("environment", encodeEnvironment(environment)),
    },
    {
      parameters: parametersWithOrigin(parameters, Object.keys(parameters)),
      random: { seed, invocation: candidate.number },
      ...(samples &&
        data && {
          data: [
            {
              ...{ reader: data.kind, name: data.name },
              ...(recorded && { parameters: data.parameters }),
              samples: { train: samples.train, validation: samples.validation, heldOut: samples.heldOut },
            },
          ],
        }),
      ...(recorded && { program: programOf(recorded) }),
      course: { kind: "external trainer", command },
      times: { endedAtMs: Math.round(clock.now()), workMs },
      by: caller ?? null,
    },
    random,
  );
}

function programOf({
  id,
  job,
  limits,
  machine,
  libraries,
}: NonNullable<ProgramCandidate["recorded"]>): ProgramRecord {
  return { bundle: id, job, limits, machine, ...defined({ libraries }) };
}
