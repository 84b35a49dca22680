/**
 * Claims: versions of which a device reported record, story and data, and whose tensors a replay has yet to give
 * (docs/provenance.md, "Claims"). A claim is no version: it has no number, nothing serves it, and nothing is released
 * because of it. It becomes a version when its tensors are in the store, proved or sent.
 */
import { defined } from "../../../../shared/defined.js";
import { StemmaError } from "../../../../shared/errors.js";
import { usedDataOf } from "../../../../shared/data/stored-data.js";
import type { Fact } from "../../../../shared/journal/fact.js";
import { objectsOf } from "../../../../shared/model/record-objects.js";
import type { SaveRecord } from "../../../../shared/model/model.js";
import type { ObjectReader } from "../../../../shared/objects/object-store.js";
import { decodeSaveRecord, versionIdOf } from "../../../../shared/model/save-record.js";
import { mayBeAbsent, requiredReferencesOf } from "../../../../shared/objects/references.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { RepositoryContext } from "../context.js";
import type { ClaimSummary } from "../claim.js";
import type { VersionSummary } from "../answers/version-answers.js";
import { currentGeneration } from "../state/device-state.js";
import type { ClaimState } from "../state/claim-state.js";
import { checkVersion, recordVersion, requireRecordable } from "./record-version.js";

type ProvedFact = Extract<Fact, { readonly type: "proved" }>;
type EndOfClaim = Extract<Fact, { readonly type: "refuted" | "unreplayable" }>;

/** The records of claims that can be read; `onDamaged` gets the others. */
export async function loadClaimRecords(
  objects: Pick<ObjectReader, "read">,
  versionIds: Iterable<Hash>,
  onDamaged: (versionId: Hash, error: unknown) => void,
): Promise<Map<Hash, SaveRecord>> {
  const records = new Map<Hash, SaveRecord>();
  for (const versionId of versionIds)
    try {
      records.set(versionId, decodeSaveRecord(await objects.read("record", versionId)));
    } catch (error) {
      onDamaged(versionId, error);
    }
  return records;
}

/** Finds a claim; undefined where it is none, or none any more; also where its record cannot be read. */
export function findClaim(context: RepositoryContext, versionId: Hash): ClaimSummary | undefined {
  const claim = context.state.claims.get(versionId);
  return claim === undefined ? undefined : summaryOfClaim(context, claim);
}

/** Lists claims in journal order. */
export function listClaims(context: RepositoryContext): readonly ClaimSummary[] {
  return [...context.state.claims.values()].flatMap((claim) => summaryOfClaim(context, claim) ?? []);
}

function summaryOfClaim(context: RepositoryContext, claim: ClaimState): ClaimSummary | undefined {
  const { claimRecords, state } = context;
  const record = claimRecords.get(claim.versionId);
  if (record === undefined) return undefined;
  const device = state.devices.get(record.device);
  const isGone =
    device === undefined ||
    device.status === "revoked" ||
    currentGeneration(device).generation !== claim.generation;
  return { ...claim, record, isRecoverable: claim.ended === undefined || !isGone, isDeviceGone: isGone };
}

/** See FleetRepository.recordClaim. */
export async function recordClaim(
  context: RepositoryContext,
  recordBytes: Uint8Array,
  { generation, writtenBytes }: { readonly generation: number; readonly writtenBytes?: number | undefined },
): Promise<ClaimSummary | VersionSummary> {
  const versionId = versionIdOf(recordBytes);
  if (context.state.versions.has(versionId))
    return await recordVersion(context, recordBytes, { generation, writtenBytes });
  const { record, tensorBytes } = await checkVersion(context.objects, recordBytes);
  const data = await usedDataOf(context.objects, record.uses?.data);
  requireRecordable(context, { record, versionId, data, generation });
  const version = { state: "kept", versionId, record, leaves: [], dataChunks: data.chunks } as const;
  await context.queue.submit({
    requiredObjects: [...requiredReferencesOf(version, mayBeAbsent(context.state.redacted))],
    decide: ({ state }) =>
      state.versions.has(versionId) || state.claims.has(versionId)
        ? []
        : [
            {
              type: "recorded",
              critical: true,
              atMs: context.clock.now(),
              versionId,
              name: record.name,
              version: 0,
              claim: true,
              ...(tensorBytes === 0 ? {} : { tensorBytes }),
              ...defined({ storedBytes: writtenBytes }),
              generation,
            },
          ],
    onApplied: () => {
      if (context.state.claims.has(versionId)) context.claimRecords.set(versionId, record);
    },
  });
  return requireClaim(context, versionId);
}

/** @throws MODEL_NOT_FOUND */
function requireClaim(context: RepositoryContext, versionId: Hash): ClaimSummary {
  const claim = findClaim(context, versionId);
  if (claim === undefined)
    throw new StemmaError(
      "MODEL_NOT_FOUND",
      `No claim of the version ${versionId} waits in this fleet any more. \`stemma model show\` shows the version.`,
      { versionId },
    );
  return claim;
}

/** See FleetRepository.proveClaim. */
export async function proveClaim(
  context: RepositoryContext,
  fact: Omit<ProvedFact, "type" | "atMs">,
  writtenBytes?: number,
): Promise<VersionSummary> {
  const { generation } = requireClaim(context, fact.versionId);
  const recordBytes = await context.objects.read("record", fact.versionId);
  const proved = { type: "proved", atMs: context.clock.now(), ...fact } as const;
  return await recordVersion(context, recordBytes, { generation, before: [proved], writtenBytes });
}

/** See FleetRepository.endClaim. */
export async function endClaim(
  context: RepositoryContext,
  fact: EndOfClaim,
): Promise<ClaimSummary | undefined> {
  await context.queue.submit({
    requiredObjects: [],
    // The tensors may have been sent meanwhile.
    decide: ({ state, recordedHere }) =>
      state.claims.has(fact.versionId) && !recordedHere.has(fact.versionId) ? [fact] : [],
  });
  return findClaim(context, fact.versionId);
}

/** See FleetRepository.giveUpClaim. */
export async function giveUpClaim(
  context: RepositoryContext,
  versionId: Hash,
  because: string,
): Promise<void> {
  requireClaim(context, versionId);
  await context.queue.submit({
    requiredObjects: [],
    decide: ({ state, recordedHere }) =>
      state.claims.has(versionId) && !recordedHere.has(versionId)
        ? [{ type: "retired", atMs: context.clock.now(), versionId, because }]
        : [],
    onApplied: () => {
      context.claimRecords.delete(versionId);
    },
  });
}

/** Returns the objects that collections keep for claims, as far as the store has them. */
export function claimedObjects({ claimRecords, objects, state }: RepositoryContext): ReadonlySet<Hash> {
  const kept = new Set<Hash>();
  for (const versionId of state.claims.keys()) {
    if (objects.has(versionId)) kept.add(versionId);
    const record = claimRecords.get(versionId);
    if (record === undefined) continue;
    for (const { id, presence } of objectsOf(record))
      if (objects.has(id) && !(presence === "redactable" && state.redacted.has(id))) kept.add(id);
  }
  return kept;
}
