/**
 * Replays a claim: a version of which the server has everything but the tensors. Where the training gives the recorded
 * root, its tensors are stored and the claim becomes a version; else the fact of how it ended is written, upon which
 * the device is asked for them.
 */
import { readFile } from "node:fs/promises";
import { isStemmaError } from "../../../shared/errors.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { readManifest } from "../../../shared/data/stored-data.js";
import { decodeArchitecture } from "../../../shared/model/architecture.js";
import { modelToSaveOfSafetensors } from "../../../shared/save/model-source.js";
import type { Hash, TensorSource } from "../../../shared/tensor/tensor.js";
import type { TrainingOutcome } from "../../../shared/train/train-in-child.js";
import type { ReplayReport } from "../../interface/api/models/evaluation-schemas.js";
import { readOpenedProvenance } from "../../services/context/opened-provenance.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { ClaimSummary } from "../../storage/repository/claim.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { readLeaves } from "../../storage/repository/state/references.js";
import { predictedCost } from "../training/bounded-cost.js";
import type { ClaimRules } from "./claim-rules.js";
import { judgeReplay, type Judgement } from "./judge-replay.js";
import {
  inWorkFolder,
  measuredBy,
  unreplayable,
  withinReplayLimit,
  type ReplayOptions,
} from "./replay-version.js";
import { storyOf } from "./story.js";
import { trainAgain } from "./train-again.js";

/** Milliseconds for which what a proof needs is protected against collection while it is written. */
const leaseMs = 3_600_000;
/** Bytes of the samples of a claim; they are written to the disk for its training. */
const maxDataBytes = 1024 ** 3;

export interface ClaimOptions extends ReplayOptions {
  readonly rules: Pick<ClaimRules, "maxMs" | "memoryLimitMb" | "charge">;
}

/**
 * @returns undefined where it is no claim any more: its device sent the tensors meanwhile
 * @throws QUOTA_EXCEEDED, DISK_FULL, TRAINING_STOPPED when aborted
 */
export async function replayClaim(
  context: OperationsContext,
  { fleet, versionId }: { readonly fleet: string; readonly versionId: Hash },
  options: ClaimOptions,
): Promise<ReplayReport | undefined> {
  const repository = await context.fleets.get(fleet);
  return await withinReplayLimit(context, () =>
    inWorkFolder(context, options, async (folder) => {
      const claim = repository.claim(versionId);
      if (claim === undefined || claim.ended !== undefined) return undefined;
      const startedMs = context.home.ports.clock.monotonic();
      const judged = await replay({ context, repository, claim, folder }, options);
      options.rules.charge(fleet, claim.record.device, context.home.ports.clock.monotonic() - startedMs);
      const ended = await settle(context, repository, claim, judged);
      return { versionId, name: claim.name, version: repository.get(versionId)?.version ?? 0, ...ended };
    }),
  );
}

interface ClaimTask {
  readonly context: OperationsContext;
  readonly repository: FleetRepository;
  readonly claim: ClaimSummary;
  readonly folder: string;
}

interface Judged {
  readonly judgement: Judgement;
  /** The training's outcome; absent where nothing was trained. */
  readonly outcome?: TrainingOutcome;
}

async function replay(
  { context, repository, claim, folder }: ClaimTask,
  options: ClaimOptions,
): Promise<Judged> {
  const opened = await readOpenedProvenance(repository, claim.record.objects);
  const read = storyOf(opened);
  if ("unreplayable" in read) return { judgement: unreplayable(read.unreplayable) };
  const { story } = read;
  const dataBytes = await bytesOfData(repository, claim);
  if (dataBytes > maxDataBytes)
    return {
      judgement: unreplayable({
        reason: "unsupported",
        text: `its samples have ${dataBytes} bytes; those of a claim may have ${maxDataBytes}.`,
      }),
    };
  // Others may have been measured since it was queued.
  const cost = await predictedCost(repository, { opened: read.opened, record: claim.record });
  const { memoryLimitMb } = options.rules;
  const maxMs = options.rules.maxMs(read.opened, cost);
  const limit = new AbortController();
  const cancelLimit = context.home.ports.clock.after(maxMs, () => {
    limit.abort();
  });
  const { signal = new AbortController().signal } = options;
  const task = { ...options, context, repository, summary: claim, memoryLimitMb, isOwnDataOnly: true };
  try {
    const trained = await trainAgain(
      { ...task, signal: AbortSignal.any([signal, limit.signal]) },
      story,
      folder,
    );
    if ("reason" in trained) return { judgement: unreplayable(trained) };
    const judgement = await judgeReplay(task, { ...trained, opened: read.opened, story });
    return { judgement, outcome: trained.outcome };
  } catch (error) {
    if (signal.aborted || !limit.signal.aborted || !isStemmaError(error, "TRAINING_STOPPED")) throw error;
    return {
      judgement: unreplayable({
        reason: "too-long",
        text: `its training took longer than ${maxMs} ms here, which is more than was predicted.`,
      }),
    };
  } finally {
    cancelLimit();
  }
}

/** Bytes of the samples, which may be coded in far fewer. */
async function bytesOfData({ objects }: FleetRepository, { record }: ClaimSummary): Promise<number> {
  let bytes = 0;
  for (const id of record.uses?.data ?? []) bytes += (await readManifest(objects, id))?.byteLength ?? 0;
  return bytes;
}

/** Writes the facts of how it ended; before a proof the tensors. */
async function settle(
  { home }: OperationsContext,
  repository: FleetRepository,
  claim: ClaimSummary,
  { judgement, outcome }: Judged,
): Promise<Judgement> {
  const { versionId } = claim;
  const { verdict, grade, engineId, text } = judgement;
  const atMs = home.ports.clock.now();
  if (grade === undefined || engineId === undefined || verdict === "unreplayable") {
    await repository.endClaim({ type: "unreplayable", atMs, versionId, because: text });
    return judgement;
  }
  if (verdict === "proved" && outcome !== undefined) {
    await storeTrained(repository, claim, outcome, (writtenBytes) =>
      repository.proveClaim(
        { versionId, grade, engineId, because: text, ...measuredBy(judgement) },
        writtenBytes,
      ),
    );
    return judgement;
  }
  await repository.endClaim({ type: "refuted", atMs, versionId, grade, engineId, because: text });
  return judgement;
}

/**
 * Stores the tensors of a training, each of which must be the recorded one, and protects them until `thenDo` has ended.
 * @throws OBJECT_HASH_MISMATCH where one is another; then none is stored
 */
export async function storeTrained(
  { objects }: FleetRepository,
  { record }: Pick<ClaimSummary, "record">,
  { modelFile, architectureFile }: TrainingOutcome,
  thenDo: (writtenBytes: number | undefined) => Promise<unknown>,
): Promise<void> {
  const leaves = await readLeaves(objects, record);
  const lease = objects.lease(
    leaves.map(({ tensor }) => tensor),
    leaseMs,
  );
  const file = await nodeFiles().open(modelFile, "read");
  try {
    const architecture = decodeArchitecture(await readFile(architectureFile));
    const model = await modelToSaveOfSafetensors(file, modelFile, { architecture: { architecture } });
    const sources = new Map(
      ("unhashedLeaves" in model ? model.unhashedLeaves : model.leaves).map(
        ({ path }, index) => [path, model.sources[index] as TensorSource] as const,
      ),
    );
    const pack = await objects.begin();
    let written: { readonly pack: string | null; readonly bytes: number };
    try {
      for (const { path, tensor } of leaves) await pack.putTensor(sources.get(path) as TensorSource, tensor);
      written = await pack.commit();
    } catch (error) {
      await pack.abort();
      throw error;
    }
    await thenDo(written.pack === null ? undefined : written.bytes);
  } finally {
    await file.close();
    objects.release(lease.id);
  }
}
