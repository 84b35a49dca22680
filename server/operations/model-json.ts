/** A version's model.json, by which TensorFlow.js loads its weights. */
import { StemmaError } from "../../shared/errors.js";
import { decodeArchitecture } from "../../shared/model/architecture.js";
import { writeModelJson } from "../../shared/model/model-json-export.js";
import { decodeNames } from "../../shared/model/names.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { ModelJson } from "../api/version-schemas.js";
import type { FleetRepository, VersionSummary } from "../repository/fleet-repository.js";

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
  const architecture = decodeArchitecture(await objects.read("architecture", refuseOpaque(summary)));
  const names = decodeNames(
    await objects.read("names", record.objects.names),
    (await leaves(versionId)).length,
  );
  return writeModelJson(architecture, names, weightsFile);
}

/** @returns the architecture's hash @throws MODEL_OPAQUE where there is none */
export function refuseOpaque({ name, version, versionId, record }: VersionSummary): Hash {
  const { architecture } = record.objects;
  if (architecture === undefined)
    throw new StemmaError(
      "MODEL_OPAQUE",
      `${name}:${version} was imported without an architecture, so no model.json can be written for it. Recover it as safetensors, or import it again with --arch model.json.`,
      { versionId },
    );
  return architecture;
}
