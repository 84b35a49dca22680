/** Saves a model of this process: writes its pack, then appends its fact. */
import { defined } from "../../../../shared/defined.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { ModelSource, UnhashedModel } from "../../../../shared/model/model.js";
import type { SaveBase } from "../../../../shared/save/plan-save.js";
import { loadSaveBase, saveModel, type SavedModel } from "../../../../shared/save/save-model.js";
import { leavesOfSave, usedObjectIds } from "../../../../shared/save/save-uses.js";
import { usedDataOf } from "../../../../shared/data/stored-data.js";
import type { RepositoryContext } from "../context.js";
import { checkExactness } from "../state/exactness.js";
import { factCodec } from "../state/fact-codec.js";
import type { SaveOptions, SaveReport } from "../answers/save-answers.js";
import type { VersionSummary } from "../answers/version-answers.js";
import { checkName, ownDevice, ownLine } from "../state/naming.js";
import { appendRecorded, recordedFact, sequenceKey } from "./record-version.js";
import { requireVersion } from "../state/version-table.js";

/** The time after which a collection may delete a save's objects; recording then fails with REFERENCE_MISSING. */
const saveLeaseMs = 60 * 60 * 1000;

/** See FleetRepository.save. */
export async function saveVersion(
  context: RepositoryContext,
  model: ModelSource | UnhashedModel,
  options: SaveOptions,
): Promise<SaveReport> {
  checkName("model", options.name);
  const newest = context.state.names.last(options.name)?.value;
  checkExactness(options.name, options.scheme, newest && requireVersion(context, newest));
  const bases = await loadBases(context, options);
  if (options.successorOf !== undefined) requireVersion(context, options.successorOf);
  // Tensors that are already in the store are not written again, so they must not be collected before the
  // fact refers to them. Those of an unhashed model are pinned as they are hashed.
  const known = "unhashedLeaves" in model ? { leaves: [] } : model;
  const usedData = await usedDataOf(
    context.objects,
    options.uses?.data?.flatMap(({ id }) => id ?? []),
  );
  const lease = context.objects.lease(
    [
      ...[...leavesOfSave(known, options.uses), ...bases.flatMap(({ leaves }) => leaves)].map(
        ({ tensor }) => tensor,
      ),
      ...usedObjectIds(options.uses),
      ...usedData.chunks,
    ].filter((id) => context.objects.has(id)),
    saveLeaseMs,
  );
  try {
    return await saveOnce(context, model, options, bases);
  } finally {
    context.objects.release(lease.id);
  }
}

async function loadBases(
  context: RepositoryContext,
  { bases = [], lease }: Pick<SaveOptions, "bases" | "lease">,
): Promise<readonly SaveBase[]> {
  return await Promise.all(
    bases.map(async (versionId) => {
      const base = requireVersion(context, versionId);
      if (base.state === "retired" && !context.leases.covers(lease, versionId))
        throw new StemmaError(
          "MODEL_RETIRED",
          `The base ${base.name}:${base.version} is retired, so its tensors are gone and nothing can be compared with it. Name another base, or none.`,
          { versionId },
        );
      return await loadSaveBase(context.objects, versionId);
    }),
  );
}

async function saveOnce(
  context: RepositoryContext,
  model: ModelSource | UnhashedModel,
  options: SaveOptions,
  bases: readonly SaveBase[],
): Promise<SaveReport> {
  const device = options.device ?? ownDevice;
  const line = options.line ?? ownLine;
  const saved = await saveModel(
    context.objects,
    model,
    defined({
      name: options.name,
      fleet: context.fleet,
      device,
      line,
      sequence: takeSequence(context, device, line),
      bases,
      environment: options.environment ?? context.environment,
      successorOf: options.successorOf,
      approach: options.approach,
      scheme: options.scheme,
      measurements: options.measurements,
      checkpoints: options.checkpoints,
      provenance: options.provenance,
      metadata: options.metadata,
      openings: options.openings,
      attachments: options.attachments,
      uses: options.uses,
    }),
    context.clock,
  );
  const ownBytes = saved.plan.changed.reduce((sum, leaf) => sum + (model.sources[leaf]?.byteLength ?? 0), 0);
  const summary = await appendRecorded(
    context,
    {
      versionId: saved.versionId,
      record: saved.record,
      allLeaves: leavesOfSave(saved, options.uses),
      tensorBytes: saved.tensorBytes,
      ownBytes,
      storedBytes: saved.packBytes,
      data: await usedDataOf(context.objects, saved.record.uses?.data),
    },
    saved.recordBytes,
  );
  return {
    summary,
    leaves: saved.leaves,
    changed: saved.plan.changed.length,
    approach: saved.plan.approach,
    newTensorBytes: saved.newTensorBytes,
    packBytes: saved.packBytes,
    steps: saved.steps,
    overheadBytes: saved.recordBytes.length + saved.ownerMapBytes + factBytes(saved, summary),
  };
}

function factBytes(
  { versionId, record }: SavedModel,
  { recordedAtMs, version, tensorBytes, ownBytes, storedBytes }: VersionSummary,
): number {
  return factCodec.encode(
    recordedFact(recordedAtMs, { versionId, record, tensorBytes, ownBytes, storedBytes }, version),
  ).length;
}

/** Concurrent saves of one line get different numbers. A failed save leaves a gap, which has no effect. */
function takeSequence({ lastSequences }: RepositoryContext, device: string, line: string): number {
  const key = sequenceKey({ device, line });
  const sequence = (lastSequences.get(key) ?? 0) + 1;
  lastSequences.set(key, sequence);
  return sequence;
}
