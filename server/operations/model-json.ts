/** A version's model.json, by which TensorFlow.js loads its weights. */
import { StemmaError } from "../../shared/errors.js";
import { decodeArchitecture } from "../../shared/model/architecture.js";
import { writeModelJson } from "../../shared/model/model-json-export.js";
import { decodeNames } from "../../shared/model/names.js";
import type { ModelJson } from "../api/version-schemas.js";
import { requireArchitecture } from "../context/require-architecture.js";
import type { VersionSummary } from "../repository/answers/version-answers.js";
import type { FleetRepository } from "../repository/fleet-repository.js";

/**
 * @param weightsFile name of the file that will hold the weights
 * @throws MODEL_RETIRED, MODEL_OPAQUE, ARCHITECTURE_INVALID for an element type that TensorFlow.js lacks
 */
export async function modelJsonOf(
  { objects, leaves }: Pick<FleetRepository, "objects" | "leaves">,
  summary: VersionSummary,
  weightsFile?: string,
): Promise<ModelJson> {
  const { versionId, record, retired } = summary;
  if (retired !== undefined)
    throw new StemmaError(
      "MODEL_RETIRED",
      `${summary.name}:${summary.version} is retired: its name, parents and times are kept, its tensors are not. Name another version.`,
      { versionId },
    );
  const architecture = decodeArchitecture(await objects.read("architecture", requireArchitecture(summary)));
  const names = decodeNames(
    await objects.read("names", record.objects.names),
    (await leaves(versionId)).length,
  );
  return writeModelJson(architecture, names, weightsFile);
}
