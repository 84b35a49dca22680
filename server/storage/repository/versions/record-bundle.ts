/**
 * Records versions of another repository, with what was said of them: all in one append, once everything that they
 * refer to was read and checked. Their records stay as they are, so they have the same ids here.
 */
import { defined } from "../../../../shared/defined.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { Fact } from "../../../../shared/journal/fact.js";
import type { SaveRecord } from "../../../../shared/model/model.js";
import { decodeSaveRecord, versionIdOf } from "../../../../shared/model/save-record.js";
import { mayBeAbsent, requiredReferencesOf } from "../../../../shared/objects/references.js";
import { usedDataOf } from "../../../../shared/data/stored-data.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { Draft } from "../commit-queue.js";
import type { RepositoryContext } from "../context.js";
import { readEvaluation } from "../evaluations.js";
import { candidateOf, type ReadCandidate } from "../prefix-candidate.js";
import { checkName, checkTag } from "../state/naming.js";
import type { Listing } from "../state/state.js";
import { applySucceeded, checkSuccessors, type SuccessorFacts } from "../state/successors.js";
import { checkVersion, noteRecorded, recordedFact, type CheckedVersion } from "./record-version.js";

/** The versions that arrived: records in the order in which they are numbered, and what is said of their versions. */
export interface ReceivedBundle {
  readonly records: readonly Uint8Array[];
  /** Every object that comes with it. */
  readonly objects: { has(id: Hash): boolean };
  /** Parents that the bundle leaves out. */
  readonly absent: ReadonlySet<Hash>;
  /** Openings that were redacted where it comes from. */
  readonly redacted: ReadonlySet<Hash>;
  readonly tags: readonly { readonly versionId: Hash; readonly tag: string }[];
  readonly evaluations: readonly { readonly versionId: Hash; readonly object: Hash }[];
  readonly listings: readonly {
    readonly versionId: Hash;
    readonly license?: string | undefined;
    readonly task?: string | undefined;
  }[];
  /** Declarations that a version comes after another, which are not in its record. */
  readonly succeeded: readonly {
    readonly versionId: Hash;
    readonly successor: Hash;
    readonly because: string;
  }[];
  /** Throws where the sender may not change what was stated of a version here; absent: it may. */
  readonly checkListing?: ((before: Listing, license: string | undefined) => void) | undefined;
  /** True of a caller who is this sender; absent: the sender may speak for all. */
  readonly isSender?: ((by: string | undefined) => boolean) | undefined;
}

interface PreparedVersion extends Omit<CheckedVersion, "allLeaves"> {
  readonly recordBytes: Uint8Array;
  readonly candidate: ReadCandidate | undefined;
  /** True if stored samples of its training do not come with it. */
  readonly isWithoutData: boolean;
}

export interface PreparedBundle {
  readonly bundle: ReceivedBundle;
  /** The versions that are not here yet. */
  readonly versions: readonly PreparedVersion[];
  /** Every object that they need but their records. */
  readonly required: ReadonlySet<Hash>;
}

export interface RecordedBundle {
  /** Versions that were recorded now. */
  readonly recorded: readonly Hash[];
  /** Tags that were not given: another version has them here, or somebody else sent the version. */
  readonly tagsKept: readonly { readonly versionId: Hash; readonly tag: string }[];
}

const invalid = (what: string, details: Readonly<Record<string, unknown>> = {}): StemmaError =>
  new StemmaError(
    "BUNDLE_INVALID",
    `${what}. Nothing of it was recorded; have its sender make it again.`,
    details,
  );

/** See FleetRepository.prepareBundle. Trees are read one version after the other, and not kept. */
export async function prepareBundle(
  context: RepositoryContext,
  bundle: ReceivedBundle,
): Promise<PreparedBundle> {
  const { state, objects } = context;
  const records = new Map<Hash, { readonly record: SaveRecord; readonly bytes: Uint8Array }>();
  for (const bytes of bundle.records)
    records.set(versionIdOf(bytes), { record: decodeSaveRecord(bytes), bytes });
  if (records.size < bundle.records.length) throw invalid("The bundle has a record twice");
  const isKnown = (id: Hash): boolean => records.has(id) || state.versions.has(id);
  const required = new Set<Hash>();
  const versions: PreparedVersion[] = [];
  const isOptional = mayBeAbsent({ has: (id) => state.redacted.has(id) || bundle.redacted.has(id) });
  for (const [versionId, { record, bytes }] of records) {
    if (state.versions.has(versionId)) continue;
    checkName("model", record.name);
    for (const parent of [...record.bases, ...(record.successorOf === undefined ? [] : [record.successorOf])])
      if (!isKnown(parent) && !bundle.absent.has(parent))
        throw invalid(
          `${versionId.slice(0, 12)} of the bundle comes from ${parent.slice(0, 12)}, which is neither in it nor here, ` +
            "and which it does not name as left out",
          { versionId, parent },
        );
    const { allLeaves, ...checked } = await checkVersion(objects, bytes);
    const { chunks } = await usedDataOf(objects, record.uses?.data);
    const isWithoutData = !chunks.every((id) => bundle.objects.has(id));
    const dataChunks = isWithoutData ? [] : chunks;
    const needs = { state: "kept", versionId, record, leaves: allLeaves, dataChunks } as const;
    for (const id of requiredReferencesOf(needs, isOptional)) if (id !== versionId) required.add(id);
    const candidate = await candidateOf(context, versionId, record);
    versions.push({ ...checked, recordBytes: bytes, candidate, isWithoutData });
  }
  await checkStatements(context, bundle, records);
  for (const { object } of bundle.evaluations) required.add(object);
  return { bundle, versions, required };
}

/**
 * A bundle says nothing of versions whose records are not in it: others have them here.
 * @throws BUNDLE_INVALID, NAME_INVALID, EVALUATION_INVALID
 */
async function checkStatements(
  { objects }: RepositoryContext,
  { tags, evaluations, listings, succeeded }: ReceivedBundle,
  records: { has(id: Hash): boolean },
): Promise<void> {
  const successors = succeeded.map(({ successor }) => ({ versionId: successor }));
  for (const { versionId } of [...tags, ...evaluations, ...listings, ...succeeded, ...successors])
    if (!records.has(versionId))
      throw invalid(`The bundle says something of ${versionId.slice(0, 12)}, which is not in it`, {
        versionId,
      });
  for (const { tag } of tags) checkTag(tag);
  for (const { versionId, object } of evaluations) await readEvaluation(objects, versionId, { object });
}

/** See FleetRepository.recordBundle. */
export async function recordBundle(
  context: RepositoryContext,
  { bundle, versions, required }: PreparedBundle,
): Promise<RecordedBundle> {
  await keepRecords(context, versions);
  let recorded: readonly PreparedVersion[] = [];
  let tagsKept: RecordedBundle["tagsKept"] = [];
  await context.queue.submit({
    requiredObjects: [...required, ...versions.map(({ versionId }) => versionId)],
    isExclusive: true,
    decide: (draft) => {
      recorded = versions.filter(({ versionId }) => !draft.state.versions.has(versionId));
      const decided = decideBundle(context, draft, bundle, recorded);
      tagsKept = decided.tagsKept;
      return decided.facts;
    },
    onApplied: () => {
      for (const version of recorded) noteRecorded(context, version);
      // Their objects are counted when they are next asked for, from the trees in the store.
      context.versionsChanged([
        ...recorded.map(({ versionId }) => versionId),
        ...bundle.tags.map(({ versionId }) => versionId),
        ...bundle.evaluations.map(({ versionId }) => versionId),
        ...bundle.succeeded.flatMap(({ versionId, successor }) => [versionId, successor]),
      ]);
    },
  });
  return { recorded: recorded.map(({ versionId }) => versionId), tagsKept };
}

/** Makes the facts from the state that they are appended to. */
function decideBundle(
  { clock, objects }: RepositoryContext,
  draft: Draft,
  bundle: ReceivedBundle,
  recorded: readonly PreparedVersion[],
): { readonly facts: readonly Fact[]; readonly tagsKept: RecordedBundle["tagsKept"] } {
  const { state } = draft;
  const atMs = clock.now();
  const facts: Fact[] = [];
  const redacted = new Set<Hash>();
  for (const version of recorded) {
    const { openings } = version.record.objects;
    const isRedacted = openings !== undefined && bundle.redacted.has(openings);
    if (isRedacted && !redacted.has(openings) && !state.redacted.has(openings)) {
      // Others have them here, for whom this sender cannot speak.
      if (objects.has(openings))
        throw invalid(
          `The bundle states that the story of ${version.versionId.slice(0, 12)} was redacted, which is here`,
        );
      redacted.add(openings);
      facts.push({
        type: "redacted",
        atMs,
        object: openings,
        because: "it was redacted where it comes from",
      });
    }
    const { versionId, record } = version;
    facts.push({ ...recordedFact(atMs, version, draft.takeVersion(record.name)), received: true });
    if (version.isWithoutData)
      facts.push({
        type: "data-dropped",
        critical: true,
        atMs,
        versionId,
        because: "its samples did not come with it",
      });
  }
  const names = new Map(recorded.map(({ versionId, record }) => [versionId, record.name]));
  const isOwn = (versionId: Hash): boolean =>
    names.has(versionId) || bundle.isSender?.(state.versions.get(versionId)?.by) !== false;
  const tagsKept: { readonly versionId: Hash; readonly tag: string }[] = [];
  for (const { versionId, tag } of bundle.tags) {
    const name = names.get(versionId) ?? state.versions.get(versionId)?.name ?? "";
    const present = state.tags.get(name)?.get(tag);
    if (present === undefined && isKept(state, versionId) && isOwn(versionId))
      facts.push({ type: "tagged", atMs, name, tag, versionId });
    else if (present !== versionId) tagsKept.push({ versionId, tag });
  }
  for (const { versionId, object } of bundle.evaluations) {
    const known = state.versions.get(versionId)?.evaluations ?? [];
    if (isKept(state, versionId) && known.every((each) => each.object !== object))
      facts.push({ type: "evaluated", atMs, versionId, object });
  }
  for (const { versionId, license, task } of bundle.listings) {
    const known = state.listings.get(versionId);
    if (known !== undefined) bundle.checkListing?.(known, license);
    if (known === undefined || known.license !== license || known.task !== task)
      facts.push({ type: "listed", atMs, versionId, ...defined({ license, task }) });
  }
  const succeeded = bundle.succeeded.filter(({ successor }) => isOwn(successor));
  return { facts: [...facts, ...succeededFacts(state.successors, succeeded, atMs)], tagsKept };
}

/**
 * The facts of declared successors; a declaration about the same two versions here stays.
 * @throws NOT_ALLOWED for a cycle
 */
function succeededFacts(
  present: SuccessorFacts,
  succeeded: ReceivedBundle["succeeded"],
  atMs: number,
): readonly Fact[] {
  if (succeeded.length === 0) return [];
  const successors: SuccessorFacts = {
    after: new Map([...present.after].map(([id, after]) => [id, new Map(after)])),
    before: new Map([...present.before].map(([id, before]) => [id, new Set(before)])),
  };
  const facts = succeeded.flatMap((declared) => {
    if (successors.after.get(declared.versionId)?.has(declared.successor) === true) return [];
    const fact = { type: "succeeded", atMs, ...declared } as const;
    applySucceeded(successors, fact);
    return [fact];
  });
  checkSuccessors(
    successors,
    facts.map(({ versionId }) => versionId),
  );
  return facts;
}

/** True also of a version that is recorded with these facts. */
function isKept(state: Draft["state"], versionId: Hash): boolean {
  return state.versions.get(versionId)?.retired === undefined;
}

/** Stores the records in one pack, each as it came. */
async function keepRecords(
  { objects }: RepositoryContext,
  versions: readonly PreparedVersion[],
): Promise<void> {
  const writer = await objects.begin();
  try {
    for (const { recordBytes } of versions) await writer.put("record", recordBytes);
    await writer.commit();
  } catch (error) {
    await writer.abort();
    throw error;
  }
}
