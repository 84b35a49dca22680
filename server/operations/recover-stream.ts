/**
 * A recovery as one safetensors stream whose end is the proof: the report resolves when every tensor was read
 * and found to be the recorded one.
 */
import { StemmaError } from "../../shared/errors.js";
import { captureNodeEnvironment } from "../../shared/model/node-environment.js";
import { treeRoot } from "../../shared/model/tree.js";
import { safetensorsOfModel } from "../../shared/recover/recovered-file.js";
import type { SaveRecord } from "../../shared/model/model.js";
import { environmentForTraining } from "../../shared/train/training-environment.js";
import type { Environment, EnvironmentPolicy } from "../../shared/model/environment.js";
import type { RecoveredModel } from "../../shared/recover/recovery.js";
import { safetensorsByteLength, safetensorsChunks } from "../../shared/tensor/safetensors.js";
import { tensorIdOfSource } from "../../shared/tensor/hash.js";
import { programVersion } from "../../shared/adapters/program-version.js";
import type { FleetRepository, VersionSummary } from "../repository/fleet-repository.js";
import type { RecoveryReport } from "../api/version-schemas.js";
import type { RecoveryStream } from "../api/server-operations.js";

/**
 * What this machine offers for what was done: a training is compared with what a training would have here, an
 * import with this process.
 */
async function here(record: SaveRecord): Promise<Environment> {
  return record.objects.provenance === undefined
    ? captureNodeEnvironment({ backend: "none", stemma: programVersion() })
    : environmentForTraining(programVersion());
}

function reportOf(summary: VersionSummary, model: RecoveredModel): RecoveryReport {
  return {
    versionId: summary.versionId,
    name: summary.name,
    version: summary.version,
    root: model.verifiedRoot,
    byteLength: model.byteLength,
    tensors: model.leaves.length,
    steps: model.steps,
    environment: model.environment,
    ...(summary.record.scheme === undefined ? {} : { scheme: summary.record.scheme }),
  };
}

/** @throws MODEL_RETIRED, ROOT_MISMATCH, ENVIRONMENT_DIFFERENT, OBJECT_MISSING */
export async function recoverAsStream(
  repository: Pick<FleetRepository, "recover">,
  summary: VersionSummary,
  environment: EnvironmentPolicy = "report",
): Promise<RecoveryStream> {
  const model = await repository.recover(summary.versionId, {
    environment,
    here: await here(summary.record),
  });
  const { tensors, options } = safetensorsOfModel(model);
  const expected = reportOf(summary, model);
  let settle: { resolve(report: RecoveryReport): void; reject(error: unknown): void } | undefined;
  const report = new Promise<RecoveryReport>((resolve, reject) => {
    settle = { resolve, reject };
  });
  report.catch(() => undefined); // its reader may come later, or never
  return {
    byteLength: safetensorsByteLength(tensors, options),
    expected,
    report,
    chunks: (async function* () {
      try {
        yield* safetensorsChunks(tensors, options);
        settle?.resolve(expected);
      } catch (error) {
        settle?.reject(error);
        throw error;
      } finally {
        settle?.reject(new StemmaError("RECOVERY_INCOMPLETE", "The recovery was not read to its end."));
      }
    })(),
  };
}

/**
 * Recovers, and hashes once more what would be handed out, without handing it out. @throws ROOT_MISMATCH and
 * what recovery throws
 */
export async function verifyModel(
  repository: Pick<FleetRepository, "recover">,
  summary: VersionSummary,
): Promise<RecoveryReport> {
  const model = await repository.recover(summary.versionId, {
    environment: "report",
    here: await here(summary.record),
  });
  const leaves = [];
  for (const [index, source] of model.sources.entries()) {
    const leaf = model.leaves[index];
    if (leaf !== undefined) leaves.push({ ...leaf, tensor: await tensorIdOfSource(source) });
  }
  const root = treeRoot(leaves);
  if (root !== summary.record.root)
    throw new StemmaError(
      "ROOT_MISMATCH",
      `What was recovered of ${summary.name}:${summary.version} has the root ${root.slice(0, 16)}…, recorded is ${summary.record.root.slice(0, 16)}…. Restore its objects from a backup; \`stemma storage check\` says what else is damaged.`,
      { expected: summary.record.root, actual: root },
    );
  return reportOf(summary, model);
}
