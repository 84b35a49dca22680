/** Refuses to give a reduced (lossy) model to a device unless the user allows it. Pure. */
import { StemmaError } from "../../../shared/errors.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";

/** @throws MODEL_REDUCED */
export function refuseReduced(
  { name, version, versionId, record }: Pick<VersionSummary, "name" | "version" | "versionId" | "record">,
  allowed = false,
): void {
  if (record.scheme === undefined || allowed) return;
  throw new StemmaError(
    "MODEL_REDUCED",
    `${name}:${version} is a reduced model (${record.scheme}): its numbers are not those that were trained. Use the exact one (see \`stemma model log ${name}:${version}\`), or pass --allow-reduced to use this one.`,
    { versionId, scheme: record.scheme },
  );
}
