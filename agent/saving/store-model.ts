/**
 * Puts a model that Stemma did not train into the outbox, as the next version of its line. `stemma agent
 * save` and external trainers have this in common.
 */
import { defined } from "../../shared/defined.js";
import { encodeEnvironment, type Environment } from "../../shared/model/environment.js";
import type { ModelSource } from "../../shared/model/model.js";
import { captureNodeEnvironment } from "../../shared/model/node-environment.js";
import type { Log, Random } from "../../shared/ports.js";
import { makeProvenance } from "../../shared/provenance/make-provenance.js";
import type { Attachment } from "../../shared/programs/read-output.js";
import type { CommittedMembers } from "../../shared/provenance/provenance.js";
import type { UsedObject } from "../../shared/save/save-uses.js";
import { objectId } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import type { SampleRange } from "../outbox/outbox-state.js";
import type { Outbox } from "../outbox/outbox.js";
import { judgeDisk, type DiskUse, noDiskFor } from "../resources/disk-budget.js";
import type { AgentConfig } from "../settings/config.js";
import type { Profile } from "../settings/profile.js";
import type { Metrics } from "../../shared/programs/metrics.js";

export interface StoreModelOptions {
  readonly outbox: Outbox;
  readonly profile: Profile;
  readonly enrolment: Pick<Enrolment, "fleet" | "device">;
  readonly config: AgentConfig;
  readonly log: Log;
  /** Version of this program. */
  readonly version: string;
  readonly diskUse: () => Promise<DiskUse>;
  readonly clockErrorMs: () => number | null;
  readonly random: Pick<Random, "bytes">;
}

/** The data of a training as its version names them, and the samples where they may be sent. */
export interface DataUsed {
  readonly objects: readonly UsedObject[];
  /** Bytes of all of them. */
  readonly bytes: number;
  /** The reason why samples that may be sent are not; undefined where they are, or may not be. */
  readonly whyNot?: string;
}

const noData: DataUsed = { objects: [], bytes: 0 };

export interface ModelDetails {
  readonly line: string;
  readonly base: Hash | undefined;
  readonly metrics: Metrics;
  readonly attachments: readonly Attachment[];
  /** Samples that it was trained on, of the line's own. */
  readonly samples: SampleRange | null;
  /** The training that made it; absent where the agent began none. */
  readonly invocation?: number;
  /** Content hashes of the data that it was trained on, where they are known. */
  readonly data?: readonly Hash[];
  /** The objects of its data, where a server may replay it. */
  readonly used?: DataUsed;
  /** The known members of its provenance. No engine of Stemma trained it, so it cannot be replayed. */
  readonly provenance: CommittedMembers;
  /** Fields of the environment that this machine cannot tell. */
  readonly environment?: Environment;
}

export interface StoredModel {
  readonly versionId: Hash;
  readonly sequence: number;
  readonly tensors: number;
  /** Tensors that differ from the base. */
  readonly changed: number;
  readonly tensorBytes: number;
  /** Bytes of the tensors that this device did not have. */
  readonly newTensorBytes: number;
}

/**
 * Saves a model; resolves once it is durable.
 * @throws DISK_BUDGET_EXHAUSTED, DISK_FULL, FILE_FAILED; nothing is saved then
 */
export async function storeModel(
  options: StoreModelOptions,
  model: ModelSource,
  details: ModelDetails,
): Promise<StoredModel> {
  const { outbox, enrolment, config, profile } = options;
  const { line, base, metrics, attachments, samples, invocation, used = noData } = details;
  await requireSpace(options, model, details);
  const { metric, metadata, measurements } = metrics;
  const environment = {
    ...captureNodeEnvironment({ backend: "external", stemma: options.version }),
    ...details.environment,
  };
  const saved = await outbox.saveTrained(model, {
    name: config.lines[line]?.name ?? `${line}-${enrolment.device}`,
    fleet: enrolment.fleet,
    device: enrolment.device,
    line,
    base,
    // Without a base every tensor is its own.
    ...(base === undefined ? {} : { approach: profile.save.approach }),
    clockErrorMs: options.clockErrorMs(),
    metric,
    samples,
    ...defined({ invocation }),
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
    ...defined({ measurements }),
    ...makeProvenance(
      {
        engine: undefined,
        recipe: undefined,
        exactness: "none",
        bases: base === undefined ? [] : [base],
        data: details.data ?? [],
        environment: objectId("environment", encodeEnvironment(environment)),
      },
      details.provenance,
      options.random,
    ),
    ...(used.objects.length === 0 ? {} : { uses: { data: used.objects } }),
    environment,
    attachments,
  });
  const { versionId, record, plan, tensorBytes, newTensorBytes } = saved;
  return {
    versionId,
    sequence: record.sequence,
    tensors: model.leaves.length,
    changed: plan.changed.length,
    tensorBytes,
    newTensorBytes,
  };
}

async function requireSpace(
  { outbox, profile, diskUse }: StoreModelOptions,
  model: ModelSource,
  { line, attachments, used }: Pick<ModelDetails, "line" | "attachments" | "used">,
): Promise<void> {
  const neededBytes = new Map(
    model.leaves.map(({ tensor }, at) => [
      tensor,
      outbox.objects.has(tensor) ? 0 : (model.sources[at]?.byteLength ?? 0),
    ]),
  );
  const bytes =
    [...neededBytes.values()].reduce((sum, one) => sum + one, 0) +
    attachments.reduce((sum, one) => sum + one.bytes.length, 0) +
    (used?.bytes ?? 0);
  const verdict = judgeDisk(profile.disk, await diskUse(), "report", bytes);
  if (!verdict.allowed)
    throw noDiskFor(`The model cannot be saved for ${line}`, verdict, "Nothing was saved.", { line });
}
