/** Saves what a training produced: the model against its base, with its measurements and provenance. */
import { defined } from "../../shared/defined.js";
import { inheritedLayout, layoutIdOf } from "../../shared/layouts/base-layout.js";
import { layoutName } from "../../shared/layouts/layout.js";
import { architectureHash, decodeArchitecture } from "../../shared/model/architecture.js";
import type { Architecture, ModelSource, SaveRecord } from "../../shared/model/model.js";
import { decodeNames } from "../../shared/model/names.js";
import type { Clock, Files, Log } from "../../shared/ports.js";
import { commitmentName, encodeCommitment } from "../../shared/provenance/state-commitment.js";
import { plainMeasurements } from "../../shared/provenance/measurement-forms.js";
import { provenanceOfTraining } from "../../shared/provenance/training-provenance.js";
import { requestField } from "../../shared/request-id.js";
import { modelSourceOfSafetensors } from "../../shared/save/model-source.js";
import { usesOfResult, type ResultUses } from "../../shared/save/result-uses.js";
import { bytesOfSources, usedTreeSources } from "../../shared/save/save-uses.js";
import type { SavedModel } from "../../shared/save/save-model.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { describeMetric, metadataOfResult } from "../../shared/train/result-metadata.js";
import type { TrainingOutcome } from "../../shared/train/train-in-child.js";
import { usedEngine } from "../../shared/train/own-engine.js";
import { reportedBundle } from "../../shared/train/own-recipes/reported-bundle.js";
import { environmentOfTraining } from "../../shared/train/training-environment.js";
import type { TrainedOptions } from "../outbox/outbox.js";
import type { BegunTraining } from "../outbox/outbox-state.js";
import { judgeDisk, noDiskFor } from "../resources/disk-budget.js";
import { heldBytes } from "../resources/held-bytes.js";
import type { StoreModelOptions } from "../saving/store-model.js";
import type { DataUsed } from "../saving/store-model.js";
import { settingsOf, stateLimitsOf } from "./training-settings.js";

export interface Trained {
  readonly versionId: Hash;
  readonly sequence: number;
  /** Null where an external trainer stated none. */
  readonly metric: {
    readonly name: string;
    readonly unit: string;
    readonly before: number;
    readonly after: number;
  } | null;
}

export interface SaveResultOptions extends StoreModelOptions {
  readonly files: Files;
  readonly clock: Pick<Clock, "now">;
  readonly onEvent: (name: string, text: string, line: string) => void;
}

export interface TrainingResultOf {
  readonly line: string;
  readonly begun: Pick<BegunTraining, "invocation" | "job">;
  readonly outcome: TrainingOutcome;
  readonly data: DataUsed;
}

/**
 * Puts the result of a training into the outbox.
 * @throws DISK_BUDGET_EXHAUSTED; the result is then dropped
 */
export async function saveResult(options: SaveResultOptions, trained: TrainingResultOf): Promise<Trained> {
  const { outbox, files, profile } = options;
  const { line, begun, outcome, data } = trained;
  const { record } = await outbox.record(begun.job.base);
  const leaves = await outbox.leaves(record);
  const names = decodeNames(await outbox.objects.read("names", record.objects.names), leaves.length);
  const file = await files.open(outcome.modelFile, "read");
  const closing = [() => file.close()];
  try {
    const architecture = decodeArchitecture(await files.read(outcome.architectureFile));
    // The names of the base stay, so that a fine-tuned model keeps the names that the base came with.
    const model = await modelSourceOfSafetensors(file, outcome.modelFile, {
      architecture: { architecture, names },
      holdBytes: heldBytes(profile),
    });
    const trees = await usesOfResult(files, { architecture, names }, outcome, stateLimitsOf(profile));
    const { uses } = trees;
    closing.push(() => trees.close());
    const older = outcome.result.checkpointsDropped;
    const dropped = older === undefined ? trees.dropped : [...trees.dropped, `${older} older checkpoints`];
    const bytes = [model, ...usedTreeSources(uses)].reduce(
      (sum, { sources }) => sum + bytesOfSources(sources),
      data.bytes,
    );
    await requireSpace(options, line, bytes);
    const saved = await outbox.saveTrained(model, {
      ...(await describeTrained(options, trained, { uses, dropped })),
      ...attached(await layoutOfBase(outbox, model, record), commitmentTo(outcome)),
    });
    const { sequence } = saved.record;
    reportWithoutStates(options, { line, sequence }, outcome);
    if (dropped.length > 0) reportDropped(options, { line, sequence, dropped });
    if (data.whyNot !== undefined) reportKeptSamples(options, { line, sequence, whyNot: data.whyNot });
    logTrained(options.log, trained, saved);
    return { versionId: saved.versionId, sequence, metric: outcome.result.metric };
  } finally {
    for (const close of closing) await close();
  }
}

type Attachment = NonNullable<TrainedOptions["attachments"]>[number];

function attached(...found: readonly (Attachment | undefined)[]): Pick<TrainedOptions, "attachments"> {
  const attachments = found.filter((each) => each !== undefined);
  return attachments.length === 0 ? {} : { attachments };
}

/** The commitment to the states of a training, where it has any. The version has it before anybody hears of that. */
function commitmentTo({ result: { leaves, engine } }: TrainingOutcome): Attachment | undefined {
  if (leaves === undefined || "none" in leaves) return undefined;
  return { name: commitmentName, bytes: encodeCommitment({ ...leaves, engine }) };
}

/** The base's layout with the tensors of the model, so that programs in PyTorch go on with it. */
async function layoutOfBase(
  { objects }: Pick<StoreModelOptions["outbox"], "objects">,
  model: ModelSource,
  base: SaveRecord,
): Promise<Attachment | undefined> {
  const id = layoutIdOf(base);
  if (id === undefined || base.architecture !== architectureHash(model.architecture as Architecture))
    return undefined;
  const bytes = await inheritedLayout(model, await objects.read("attachment", id));
  return { name: layoutName, bytes };
}

/** @throws DISK_BUDGET_EXHAUSTED */
async function requireSpace(
  { profile, diskUse }: Pick<SaveResultOptions, "profile" | "diskUse">,
  line: string,
  bytes: number,
): Promise<void> {
  const verdict = judgeDisk(profile.disk, await diskUse(), "report", bytes);
  if (!verdict.allowed)
    throw noDiskFor(
      `The model that ${line} trained cannot be kept`,
      verdict,
      "It is dropped; earlier models stay.",
      { line },
    );
}

/**
 * Describes what is stored beside the model: whose it is, how it was made, measurements, and what its training used.
 */
async function describeTrained(
  options: SaveResultOptions,
  { line, begun, outcome: { result, environment: known }, data }: TrainingResultOf,
  { uses, dropped }: Pick<ResultUses, "uses" | "dropped">,
): Promise<TrainedOptions> {
  const { profile, enrolment, config } = options;
  const { base, samples } = begun.job;
  const environment = environmentOfTraining(result, options.version, known);
  const engine = await usedEngine(result.engine);
  const recipe = reportedBundle(result.provenance);
  return {
    name: config.lines[line]?.name ?? `${line}-${enrolment.device}`,
    fleet: enrolment.fleet,
    device: enrolment.device,
    line,
    base,
    approach: settingsOf(profile).approach,
    clockErrorMs: options.clockErrorMs(),
    metric: result.metric,
    samples,
    invocation: begun.invocation,
    metadata: { ...metadataOfResult(result, dropped) },
    measurements: plainMeasurements(result.measurements),
    ...provenanceOfTraining(
      {
        result,
        bases: [base],
        environment,
        called: begun.job.called ?? [],
        endedAtMs: options.clock.now(),
        by: begun.job.by ?? null,
      },
      options.random,
    ),
    uses: {
      ...uses,
      ...(data.objects.length === 0 ? {} : { data: data.objects }),
      ...defined({ engine, recipe: recipe && { id: recipe } }),
    },
    environment,
  };
}

/** A model as events name it. */
interface SavedSequence {
  readonly line: string;
  readonly sequence: number;
}

function reportDropped(
  { profile, onEvent }: Pick<SaveResultOptions, "profile" | "onEvent">,
  { line, sequence, dropped }: SavedSequence & { readonly dropped: readonly string[] },
): void {
  const { checkpoints, optimizer, bytes } = stateLimitsOf(profile);
  onEvent(
    "checkpoints-dropped",
    `model ${sequence} of ${line} is saved ` +
      `without ${dropped.join(", ").slice(0, 500)}: the profile keeps ${checkpoints} ` +
      `checkpoints, ${optimizer ? "the" : "no"} optimizer's state, ` +
      `and ${bytes} bytes of both. Save fewer checkpoints (checkpointEveryEpochs), or ` +
      "raise keepCheckpoints or stateBytes in the profile.",
    line,
  );
}

/** A line that is to commit to its states, and whose recipe has none. */
function reportWithoutStates(
  { onEvent }: Pick<SaveResultOptions, "onEvent">,
  { line, sequence }: SavedSequence,
  { result: { leaves } }: TrainingOutcome,
): void {
  if (leaves === undefined || !("none" in leaves)) return;
  onEvent(
    "states-not-committed",
    `model ${sequence} of ${line} cannot be spot-checked: it is of ${leaves.none}, which gives no states between steps. ` +
      "A replay of the whole training checks it.",
    line,
  );
}

function reportKeptSamples(
  { onEvent }: Pick<SaveResultOptions, "onEvent">,
  { line, sequence, whyNot }: SavedSequence & { readonly whyNot: string },
): void {
  onEvent(
    "samples-kept",
    `the samples of model ${sequence} of ${line} are not sent with it, and stay on this ` +
      `device: ${whyNot}. To send them, train with fewer (dataset.parameters.newest).`,
    line,
  );
}

function logTrained(
  log: Log,
  { line, begun, outcome: { result } }: TrainingResultOf,
  saved: SavedModel,
): void {
  const { metric } = result;
  log.info("trained", {
    line,
    versionId: saved.versionId,
    invocation: begun.invocation,
    ...requestField(begun.job),
    sequence: saved.record.sequence,
    ...(metric === null
      ? {}
      : { metric: metric.name, before: metric.before, after: metric.after, unit: metric.unit }),
    newBytes: saved.newTensorBytes,
    tensorBytes: saved.tensorBytes,
    ms: Math.round(result.durationMs),
    text: `${line} trained model ${saved.record.sequence}: ${describeMetric(metric)}`,
  });
}
