/** Requires that a version has an architecture. */
import { StemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";

/**
 * @returns id of the version's architecture object
 * @throws MODEL_OPAQUE where the version was imported without an architecture
 */
export function requireArchitecture({ name, version, versionId, record }: VersionSummary): Hash {
  const { architecture } = record.objects;
  if (architecture === undefined)
    throw new StemmaError(
      "MODEL_OPAQUE",
      `${name}:${version} was imported without an architecture, so how its tensors form a network is unknown: it can be stored, compared and recovered as safetensors, but not trained, evaluated or written as model.json. Import it again with --arch model.json.`,
      { versionId },
    );
  return architecture;
}
