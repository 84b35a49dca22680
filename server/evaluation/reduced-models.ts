/** Keeps reduced models (through a float scheme, lossy) apart from exact ones, wherever one could be taken for the other. Pure. */
import { StemmaError } from "../../shared/errors.js";
import type { VersionSummary } from "../repository/fleet-repository.js";

/** What is given to devices is exact, unless somebody says so. @throws MODEL_REDUCED */
export function refuseReduced({ name, version, versionId, record }: Pick<VersionSummary, "name" | "version" | "versionId" | "record">, allowed = false): void {
  if (record.scheme === undefined || allowed) return;
  throw new StemmaError("MODEL_REDUCED", `${name}:${version} is a reduced model (${record.scheme}): its numbers are not those that were trained. Name the exact one (see \`stemma model log ${name}:${version}\`), or say --allow-reduced if this one is meant.`, { versionId, scheme: record.scheme });
}

/** Versions of one name are all exact or all reduced: NAME alone means the newest, and must not change from one to the other. @throws MODEL_REDUCED */
export function refuseMixedName(name: string, versions: readonly Pick<VersionSummary, "record">[]): void {
  if (versions.every(({ record }) => record.scheme !== undefined)) return;
  throw new StemmaError("MODEL_REDUCED", `There are exact versions named ${JSON.stringify(name)}, and a reduced one among them could be taken for exact. Choose another --name, such as ${JSON.stringify(`${name}-small`)}.`, { name });
}
