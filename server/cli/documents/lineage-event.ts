/**
 * The training of a version as an event of OpenLineage (2-0-2): a run that is complete, with bases and data as inputs
 * and the version as output. A namespace is the fleet's, and a dataset's version its hash. Pure.
 */
import { defined } from "../../../shared/defined.js";
import type { ModelDescription } from "../../interface/api/models/version-schemas.js";
import { shownText } from "./card-text.js";
import { membersOf, textOf } from "./statement.js";
import { trainingFacts } from "./training-facts.js";
import { uuidOf } from "./uuid.js";

const spec = "https://openlineage.io/spec";
/** The facets that are used, each by the schema that defines it. */
const facets = {
  version: `${spec}/facets/1-0-1/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet`,
  processing_engine: `${spec}/facets/1-1-1/ProcessingEngineRunFacet.json#/$defs/ProcessingEngineRunFacet`,
  jobType: `${spec}/facets/2-0-4/JobTypeJobFacet.json#/$defs/JobTypeJobFacet`,
  /** Facets of Stemma's own, by the base of all facets. */
  run: `${spec}/2-0-2/OpenLineage.json#/$defs/RunFacet`,
} as const;
/** The producer, by the version of Stemma that trained where the record has it. */
const producerOf = (stemma: string | undefined): string =>
  `stemma:producer${stemma === undefined ? "" : `/${encodeURIComponent(shownText(stemma))}`}`;

interface LineageDataset {
  readonly namespace: string;
  readonly name: string;
  readonly facets: object;
}

interface LineageEvent {
  readonly eventType: "COMPLETE";
  readonly eventTime: string;
  readonly producer: string;
  readonly schemaURL: string;
  readonly run: { readonly runId: string; readonly facets: object };
  readonly job: { readonly namespace: string; readonly name: string; readonly facets: object };
  readonly inputs: readonly LineageDataset[];
  readonly outputs: readonly LineageDataset[];
}

/**
 * The event has the time when the training ended; where that is redacted, the time of the save by the saver's clock.
 * @throws NOT_FOUND where no training is recorded
 */
export function lineageEvent(described: ModelDescription): LineageEvent {
  const { versionId, record, environment } = described;
  const training = trainingFacts(described);
  const { engine, recipe, parameters, exactness, random, course, program } = training.members;
  const producer = producerOf(environment["stemma"]);
  const namespace = `stemma://${encodeURIComponent(shownText(record.fleet))}`;
  const facet = (kind: keyof typeof facets, content: object): object => ({
    _producer: producer,
    _schemaURL: facets[kind],
    ...content,
  });
  const dataset = (name: string, datasetVersion: string): LineageDataset => ({
    namespace,
    name: shownText(name),
    facets: { version: facet("version", { datasetVersion }) },
  });
  const recipeName = textOf(membersOf(recipe)["name"]) ?? textOf(recipe) ?? "program";
  const { redacted } = training;
  return {
    eventType: "COMPLETE",
    eventTime: timeOf(training.endedAtMs ?? record.savedAtMs),
    producer,
    schemaURL: `${spec}/2-0-2/OpenLineage.json#/$defs/RunEvent`,
    run: {
      // A training has one, however often it is asked for.
      runId: uuidOf(`stemma-run-1\0${versionId}`),
      facets: {
        ...(typeof engine === "string"
          ? {
              processing_engine: facet("processing_engine", {
                name: "stemma training engine",
                version: engine,
              }),
            }
          : {}),
        stemma_training: facet("run", {
          versionId,
          ...defined({ recipe, parameters, exactness, random, course, program }),
          ...(redacted.length === 0 ? {} : { redacted }),
        }),
      },
    },
    job: {
      namespace,
      name: shownText(`train ${described.name} by ${recipeName}`),
      facets: {
        jobType: facet("jobType", { processingType: "BATCH", integration: "STEMMA", jobType: "TRAINING" }),
      },
    },
    inputs: [
      ...training.bases.map(({ id, name }) => dataset(`model/${name ?? id}`, id)),
      ...training.data.map(({ hash, name }) => dataset(`data/${name ?? hash}`, hash)),
    ],
    outputs: [dataset(`model/${described.name}:${described.version}`, versionId)],
  };
}

function timeOf(ms: number): string {
  return new Date(Math.min(ms, Date.UTC(9999, 11, 31))).toISOString();
}
