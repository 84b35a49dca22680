/**
 * An in-toto statement with SLSA provenance 1 of a version's file: the engine is the builder, recipe and parameters are
 * external, bases and data are dependencies by hash. Their digests have names of their own, since they are of tensors
 * and samples and not of files. Pure.
 */
import { defined } from "../../../shared/defined.js";
import {
  provenancePredicate,
  statementType,
  type AttestedFile,
  type Statement,
} from "../../../shared/trust/attestations/statement.js";
import type { ModelDescription } from "../../interface/api/models/version-schemas.js";
import { membersOf, textOf } from "./statement.js";
import { trainingFacts } from "./training-facts.js";

/** The build type that docs/formats.md defines ("Attestations"). */
const buildType = "stemma:training/v1";

/** @throws NOT_FOUND where no training is recorded */
export function provenanceStatement(described: ModelDescription, { name, sha256 }: AttestedFile): Statement {
  const { members, bases, data, redacted, endedAtMs } = trainingFacts(described);
  const { engine, recipe, parameters, program, exactness, random, state, course, environment } = members;
  const programHash = textOf(membersOf(program)["bundle"]);
  return {
    _type: statementType,
    subject: [{ name, digest: { sha256 } }],
    predicateType: provenancePredicate,
    predicate: {
      buildDefinition: {
        buildType,
        externalParameters: defined({ recipe, parameters, program }),
        internalParameters: defined({ exactness, random, state, course }),
        resolvedDependencies: [
          ...bases.map((base) => ({
            uri: `stemma:version/${base.id}`,
            ...defined({ name: base.name }),
            digest: { stemmaVersion: base.id },
          })),
          ...data.map((set) => ({
            uri: `stemma:data/${set.hash}`,
            ...defined({ name: set.name }),
            digest: { stemmaSamples: set.hash },
          })),
          ...(typeof environment === "string"
            ? [{ uri: `stemma:environment/${environment}`, digest: { stemmaEnvironment: environment } }]
            : []),
        ],
      },
      runDetails: {
        builder: {
          id:
            typeof engine === "string"
              ? `stemma:engine/${engine}`
              : `stemma:program/${programHash ?? "redacted"}`,
        },
        metadata: {
          invocationId: `stemma:version/${described.versionId}`,
          ...(endedAtMs === undefined ? {} : { finishedOn: new Date(endedAtMs).toISOString() }),
        },
        ...knownBy(described, redacted),
      },
    },
  };
}

/** Extension fields: how it is known that the training was as stated, and which members cannot be read any more. */
function knownBy({ replayed }: ModelDescription, redacted: readonly string[]): object {
  return {
    stemma_known: replayed?.verdict ?? "recorded",
    ...(replayed === undefined ? {} : { stemma_replayedBy: `stemma:engine/${replayed.engineId}` }),
    ...(redacted.length === 0 ? {} : { stemma_redacted: redacted }),
  };
}
