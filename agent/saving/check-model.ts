/**
 * Proves before a model is saved that the engine computes of it what the tool computed that trained it. A check is the
 * server's of `model import --check`.
 */
import { StemmaError } from "../../shared/errors.js";
import { openRegularFile } from "../../shared/files/regular-file.js";
import type { ModelMetadata } from "../../shared/model/metadata.js";
import type { ModelSource } from "../../shared/model/model.js";
import type { Files } from "../../shared/ports.js";
import type { OutputCheck } from "../../shared/programs/check-outputs.js";
import type { evaluateInChild } from "../../shared/train/evaluate-in-child.js";
import { judgeDisk, noDiskFor, type DiskUse } from "../resources/disk-budget.js";
import type { Profile } from "../settings/profile.js";

export interface CheckOptions {
  readonly files: Pick<Files, "makeFolder" | "remove">;
  readonly profile: Profile;
  readonly diskUse: () => Promise<DiskUse>;
  readonly evaluate: typeof evaluateInChild;
}

export interface ModelCheck extends OutputCheck {
  readonly line: string;
  /** A folder of its own, which is removed. */
  readonly workFolder: string;
  readonly signal?: AbortSignal | undefined;
}

export interface CheckedModel {
  /** A sentence that states the largest difference. */
  readonly note: string;
  /** The same as members of the version's metadata. */
  readonly metadata: ModelMetadata;
}

/**
 * @throws MODEL_OPAQUE for a model without an architecture, FILE_MISSING, FILE_NOT_REGULAR, DISK_BUDGET_EXHAUSTED, what
 * checkOutputs throws: ARCHITECTURE_MISMATCH naming the largest difference and its place
 */
export async function checkModel(
  { files, profile, diskUse, evaluate }: CheckOptions,
  model: ModelSource,
  { line, workFolder, signal, ...check }: ModelCheck,
): Promise<CheckedModel> {
  const { architecture } = model;
  if (architecture === undefined)
    throw new StemmaError(
      "MODEL_OPAQUE",
      `The model of ${line} has no architecture, so the engine cannot compute the outputs that ${check.samples} has. ` +
        "Leave the check out.",
      { line },
    );
  const modelBytes = model.sources.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const { file, size } = await openRegularFile(check.samples, { followLinks: true });
  await file.close();
  // The samples are written twice, as those to train on and those that are held out, and the outputs once more.
  const verdict = judgeDisk(profile.disk, await diskUse(), "train", modelBytes + 3 * size);
  if (!verdict.allowed)
    throw noDiskFor(`The model of ${line} cannot be checked`, verdict, "Nothing was saved.", { line });
  // A device that checks nothing does not load it.
  const { checkOutputs } = await import("../../shared/programs/check-outputs.js");
  await files.remove(workFolder);
  await files.makeFolder(workFolder);
  try {
    const { memoryLimitMb, threads } = profile.training;
    const options = { evaluate, workFolder, signal, memoryLimitMb, threads };
    const found = await checkOutputs({ ...model, architecture }, check, options);
    return {
      note: found.text,
      metadata: {
        "trainer.check.samples": found.samples,
        "trainer.check.largest": found.largest,
        "trainer.check.tolerance": found.tolerance,
      },
    };
  } finally {
    await files.remove(workFolder);
  }
}
