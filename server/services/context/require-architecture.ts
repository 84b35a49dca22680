/** Requires that a version has an architecture. */
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import { withoutArchitecture } from "./context-errors.js";

/**
 * @returns id of the version's architecture object
 * @throws MODEL_OPAQUE where the version was imported without an architecture
 */
export function requireArchitecture({ name, version, versionId, record }: VersionSummary): Hash {
  const { architecture } = record.objects;
  if (architecture === undefined) throw withoutArchitecture(name, version, versionId);
  return architecture;
}
