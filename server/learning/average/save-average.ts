/** Saves an average as a version whose bases are all of its models, with the provenance that a replay needs. */
import { objectId, tensorIdOfSource } from "../../../shared/tensor/hash.js";
import { defined } from "../../../shared/defined.js";
import { encodeEnvironment } from "../../../shared/model/environment.js";
import type { Leaf, ModelSource } from "../../../shared/model/model.js";
import { averageRecord } from "../../../shared/average/average-record.js";
import type { AverageRule } from "../../../shared/average/average-numbers.js";
import { makeProvenance } from "../../../shared/provenance/make-provenance.js";
import type { AverageRecord } from "../../../shared/provenance/provenance.js";
import type { TensorSource } from "../../../shared/tensor/tensor.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { layoutFrom } from "../../services/context/inherited-layout.js";
import { requireRoom } from "../../services/context/room-for-models.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { checkExactness } from "../../storage/repository/state/exactness.js";
import { checkName } from "../../storage/repository/state/naming.js";
import { headersOf, sourcesOf, type AverageBases } from "./average-bases.js";

export interface Average {
  readonly name: string;
  readonly opened: AverageBases;
  readonly rule: AverageRule;
  readonly chosen?: AverageRecord["chosen"];
}

/**
 * Computes it twice: once for the ids of its tensors, so that nothing is stored that did not come out twice, and once
 * for the store.
 * @throws NOT_A_NUMBER; NAME_INVALID, MODEL_REDUCED for a name of reduced versions; DISK_FULL, MEMORY_FULL; what
 * reading damaged tensors throws
 */
export async function saveAverage(
  { home, caller, live }: OperationsContext,
  repository: FleetRepository,
  { name, opened, rule, chosen }: Average,
  signal?: AbortSignal,
): Promise<VersionSummary> {
  const { clock, environment = { backend: "none" }, random } = home.ports;
  // Before anything is computed: it may take minutes.
  checkName("model", name);
  checkExactness(name, undefined, repository.versions({ name, includeRetired: true }).at(-1));
  const startedMs = clock.monotonic();
  const sources = sourcesOf(opened, rule, signal);
  await requireRoom(
    home,
    sources.reduce((sum, { byteLength }) => sum + byteLength, 0),
  );
  const model = await modelOf(opened, sources);
  const bases = opened.bases.map(({ versionId }) => versionId);
  const { summary } = await repository.save(model, {
    name,
    bases,
    environment,
    ...(await layoutFrom(repository, opened.bases[0], model)),
    ...makeProvenance(
      {
        engine: undefined,
        recipe: undefined,
        exactness: "none",
        bases,
        data: [],
        environment: objectId("environment", encodeEnvironment(environment)),
      },
      {
        average: averageRecord(rule, defined({ chosen })),
        times: {
          endedAtMs: Math.round(clock.now()),
          workMs: Math.round(clock.monotonic() - startedMs),
        },
        by: caller ?? null,
      },
      random,
    ),
  });
  (await live?.fleet(repository.fleet))?.saved(summary.versionId);
  return summary;
}

async function modelOf(opened: AverageBases, sources: readonly TensorSource[]): Promise<ModelSource> {
  const { architecture, names } = opened;
  const { fileHeader: _, fileMetadata: __, ...ownNames } = names;
  const leaves: Leaf[] = [];
  for (const [i, header] of headersOf(opened).entries())
    leaves.push({ ...header, tensor: await tensorIdOfSource(sources[i] as TensorSource) });
  return {
    kind: architecture === undefined ? "opaque" : "architecture",
    ...defined({ architecture }),
    leaves,
    sources,
    names: ownNames,
  };
}
