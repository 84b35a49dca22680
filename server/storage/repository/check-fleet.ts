/**
 * Checks a fleet on disk. It reads the journal's chain, the index of the state, the header, trailer and index of every
 * pack, every version's record, tree and small objects, the presence of every tensor, and the bytes of all objects or
 * of a sample. Repairs nothing unless asked: then damaged packs are rewritten with what is intact in them.
 */
import { inSteps } from "../../../shared/concurrency/in-steps.js";
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { objectKinds, type ObjectKind, type SaveRecord } from "../../../shared/model/model.js";
import { objectsOf, smallObjectsOf, type RecordObject } from "../../../shared/model/record-objects.js";
import { decodeSaveRecord } from "../../../shared/model/save-record.js";
import { usedDataOf } from "../../../shared/data/stored-data.js";
import type { PackStore } from "../../../shared/objects/pack-store.js";
import { mayBeAbsent } from "../../../shared/objects/references.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { restoreAdvice } from "../../../shared/objects/object-errors.js";
import { checkObjects } from "./check-objects.js";
import { lacksEngine } from "./engine-needs.js";
import type { RepositoryContext } from "./context.js";
import type { CheckReport } from "./answers/store-answers.js";
import type { Dropped } from "./answers/version-answers.js";
import { readEvaluation } from "./evaluations.js";
import { listClaims } from "./versions/claims.js";
import { checkVersion } from "./versions/record-version.js";
import { findUnrecoverable } from "./lost-models.js";
import { isKeptIn, keptVersions, neededByReplay } from "./state/references.js";
import type { VersionState } from "./state/version-state.js";
import { unreadableVersions } from "./state/version-table.js";
import { counted } from "../../../shared/printable.js";

type Problem = CheckReport["problems"][number];

/** The findings of a check so far. */
interface Findings {
  readonly problems: Problem[];
  /** Objects with a problem of their own. */
  readonly reported: Set<Hash>;
  /** Version that cannot be read → the object that its error names, else itself. */
  readonly unreadable: Map<Hash, string>;
}

const checkedKinds: ReadonlySet<string> = new Set([...objectKinds, "tensor"]);

/** @param subject put before the message */
export function problemOf(what: string, id: string, error: unknown, subject = ""): Problem {
  const message = subject + messageOf(error);
  return { what: isStemmaError(error) ? `${what}: ${error.code}` : what, id, message };
}

/** @param pack where the object is stored; named where the error does not name the object */
export function objectProblem(pack: string, error: StemmaError): Problem {
  const { id } = error.details;
  return problemOf("object", typeof id === "string" ? id : pack, error);
}

/** The parts in which missing objects are looked for: a fleet's store, or that of a backup. */
export type CheckedStore = Pick<RepositoryContext, "objects" | "state">;

export interface CheckOptions {
  /** Number of objects to read and hash; all when absent. */
  readonly sample?: number;
  /** Rewrite damaged packs; the report is of the state after that. */
  readonly repair?: boolean;
}

export async function checkFleet(
  context: RepositoryContext,
  { sample, repair = false }: CheckOptions = {},
): Promise<CheckReport> {
  // The check waits its turn on the maintenance queue, because a concurrent collection would remove objects
  // that were listed.
  return await context.maintenanceQueue.run(async () => {
    const report = await checkNow(context, sample);
    if (!repair || context.objects.problems().length === 0) return report;
    const repaired = await context.objects.maintenance.repair();
    return { ...(await checkNow(context, sample)), repaired };
  });
}

async function checkNow(context: RepositoryContext, sample: number | undefined): Promise<CheckReport> {
  const findings: Findings = { problems: [], reported: new Set(), unreadable: new Map() };
  const { problems, reported } = findings;
  context.objects.forgetReadAhead();
  await checkJournal(context, problems);
  await context.index.verify();
  problems.push(...(await packProblems(context)));
  const versions = keptVersions(context.state);
  for (const versionId of versions) await checkOne(context, versionId, findings);
  for (const { versionId, name, version, message } of unreadableVersions(context))
    if (!versions.has(versionId))
      problems.push({ what: "version", id: versionId, message: `${name}:${version}: ${message}` });
  for (const { versionId, name, record, isRecoverable } of listClaims(context))
    if (!isRecoverable)
      problems.push({
        what: "claim",
        id: versionId,
        message:
          `LOST: ${name}, number ${record.sequence} of ${record.device}/${record.line}, was reported without its ` +
          "parameters and not proved, and its device is revoked or replaced. If that device still has its home, " +
          "recover the model there.",
      });
  const { notLookedAt, ...read } = await checkObjects(context, sample, reported, (kind, id, error) => {
    problems.push(problemOf(kind, id, error));
  });
  const unrecoverable = await findUnrecoverable(context, damagedObjects(findings));
  return {
    versions: versions.size,
    ...read,
    problems,
    ...(unrecoverable.length === 0 ? {} : { unrecoverable }),
    absentEngines: absentEngines(context, versions),
    ...(notLookedAt.length === 0 ? {} : { notLookedAt }),
  };
}

/** Object that is damaged or missing → its kind. */
function damagedObjects({ problems, unreadable }: Findings): ReadonlyMap<string, string> {
  const damaged = new Map<string, string>();
  for (const [versionId, id] of unreadable) damaged.set(id, versionId === id ? "record" : "object");
  for (const { what, id } of problems) {
    const [kind = ""] = what.split(":");
    if (checkedKinds.has(kind)) damaged.set(id, kind);
  }
  return damaged;
}

/**
 * Reads the header, trailer and index of every pack. Damaged objects are found by reading them.
 * @param unread packs of which only the size is compared, unless damage is known of them
 */
export async function packProblems(
  { objects }: Pick<CheckedStore, "objects">,
  unread?: ReadonlySet<string>,
): Promise<readonly Problem[]> {
  await objects.maintenance.inspect(unread);
  return objects
    .problems()
    .filter(({ id }) => id === undefined)
    .map(({ pack, error }) => problemOf("pack", pack, error));
}

/**
 * Finds what kept versions need and the store lacks. Reads no tensor.
 * @param versions those that are looked at; default all
 */
export async function findMissing(
  context: CheckedStore,
  versions: Iterable<VersionState> = context.state.versions.values(),
): Promise<readonly Problem[]> {
  const findings: Findings = { problems: [], reported: new Set(), unreadable: new Map() };
  const isKept = isKeptIn(context.state);
  for await (const version of inSteps(versions))
    if (isKept(version)) await checkOne(context, version.versionId, findings);
  return findings.problems;
}

async function checkJournal(
  { journal, state, fleet }: RepositoryContext,
  problems: Problem[],
): Promise<void> {
  let length = 0;
  let chain = "";
  // Taken before the entries are read: entries appended meanwhile may or may not be among them.
  const head = journal.head();
  try {
    for await (const entry of journal.entries()) {
      length++;
      if (length === head.length) chain = entry.chain;
    }
  } catch (error) {
    problems.push(problemOf("journal", fleet, error));
    return;
  }
  if (length < head.length || (head.length > 0 && chain !== head.chain))
    problems.push({
      what: "journal",
      id: fleet,
      message: `The journal on disk has ${length} entries and does not lead to the head of ${head.length}. Stop the server, and restore the journal from a backup.`,
    });
  if (state.ignoredFacts > 0)
    problems.push({
      what: "facts",
      id: fleet,
      message: `${counted(state.ignoredFacts, "fact refers", "facts refer")} to versions or devices that the journal does not know and ${state.ignoredFacts === 1 ? "was" : "were"} ignored. Report this.`,
    });
}

async function checkOne(
  context: CheckedStore,
  versionId: Hash,
  { problems, reported, unreadable }: Findings,
): Promise<void> {
  const { name, version } = context.state.versions.get(versionId) as VersionState;
  try {
    const recordBytes = await context.objects.read("record", versionId);
    const record = decodeSaveRecord(recordBytes);
    // Named one by one, so that one missing object does not hide the others.
    const absent = absentObjects(context, record);
    for (const { kind, id } of absent) {
      if (reported.has(id)) continue;
      reported.add(id);
      problems.push({
        what: `${kind}: OBJECT_MISSING`,
        id,
        message:
          `${name}:${version} (${versionId.slice(0, 16)}) needs this object of the kind ${kind}, and it ` +
          `is not in this store. ${restoreAdvice(kind)}`,
      });
    }
    const { dataDropped } = context.state.versions.get(versionId) as VersionState;
    const neededData = dataDropped === undefined ? record.uses?.data : [];
    for (const chunk of (await usedDataOf(context.objects, neededData)).chunks) {
      if (context.objects.stat(chunk) !== undefined || reported.has(chunk)) continue;
      reported.add(chunk);
      problems.push({
        what: "data: OBJECT_MISSING",
        id: chunk,
        message:
          `${name}:${version} (${versionId.slice(0, 16)}) was trained with a data set that has this chunk, and it ` +
          "is not in this store. Push the data set again, or put the chunk back from a backup.",
      });
    }
    problems.push(...(await evaluationProblems(context, versionId)));
    if (absent.some(({ kind }) => decodedKinds.has(kind))) return;
    const { allLeaves } = await checkVersion(context.objects, recordBytes);
    const { dropped } = context.state.versions.get(versionId) as VersionState;
    if (dropped !== undefined)
      problems.push(...(await replayProblems(context, versionId, dropped, reported)));
    for (const { tensor, path } of dropped === undefined ? allLeaves : []) {
      if (context.objects.has(tensor) || reported.has(tensor)) continue;
      reported.add(tensor);
      const error = unreadableError(context.objects, tensor);
      problems.push({
        what: `tensor: ${error.code}`,
        id: tensor,
        message: `${record.name} (${versionId.slice(0, 16)}) needs it at ${path}. ${error.message}`,
      });
    }
    for (const { kind, id } of smallObjectsOf(record))
      if (!decodedKinds.has(kind) && context.objects.stat(id) !== undefined)
        await context.objects.read(kind, id);
  } catch (error) {
    const id = isStemmaError(error) ? error.details["id"] : undefined;
    unreadable.set(versionId, typeof id === "string" ? id : versionId);
    problems.push(problemOf("version", versionId, error, `${name}:${version}: `));
  }
}

/** Finds what the replay of a dropped version needs and the store lacks; all others are read for their bytes. */
async function replayProblems(
  { objects, state }: CheckedStore,
  versionId: Hash,
  dropped: Dropped,
  reported: Set<Hash>,
): Promise<readonly Problem[]> {
  const { name, version } = state.versions.get(versionId) as VersionState;
  const missing: { readonly id: Hash; readonly kind: string }[] = [];
  const { engine, data, dataChunks } = await neededByReplay(objects, dropped);
  if (objects.stat(engine) === undefined) missing.push({ id: engine, kind: "engine" });
  for (const id of data === null ? [] : [data, ...dataChunks])
    if (objects.stat(id) === undefined) missing.push({ id, kind: "data" });
  const base = dropped.base === null ? undefined : state.versions.get(dropped.base);
  if (dropped.base !== null && (base === undefined || base.retired !== undefined))
    missing.push({ id: dropped.base, kind: "record" });
  return missing
    .filter(({ id }) => !reported.has(id))
    .map(({ id, kind }) => {
      reported.add(id);
      return {
        what: `${kind}: OBJECT_MISSING`,
        id,
        message:
          `${name}:${version} (${versionId.slice(0, 16)}) has no tensors here and is recovered by a replay, which ` +
          `needs this ${kind === "record" ? "base" : kind}. Put it back from a backup, or restore its tensors from one.`,
      };
    });
}

/** Stored evaluations of a version that are missing, or are not of it. */
async function evaluationProblems(
  { objects, state }: CheckedStore,
  versionId: Hash,
): Promise<readonly Problem[]> {
  const found: Problem[] = [];
  const { name, version, evaluations = [] } = state.versions.get(versionId) as VersionState;
  for (const evaluation of evaluations)
    try {
      await readEvaluation(objects, versionId, evaluation);
      // Only whether they are here: a check reads all objects anyway, and a backup is not to read them twice.
      if (evaluation.predictions !== undefined) objects.openStream("predictions", evaluation.predictions);
    } catch (error) {
      found.push(
        problemOf("evaluation", evaluation.object, error, `An evaluation of ${name}:${version} is damaged. `),
      );
    }
  return found;
}

/** Kinds that are decoded when a version is checked. */
const decodedKinds: ReadonlySet<ObjectKind> = new Set([
  "tree",
  "architecture",
  "names",
  "owner-map",
  "environment",
  "metadata",
]);

/** Returns what a version needs and the store lacks, except tensors, absent engines and redacted openings. */
function absentObjects({ objects, state }: CheckedStore, record: SaveRecord): readonly RecordObject[] {
  const isOptional = mayBeAbsent(state.redacted);
  return objectsOf(record).filter((object) => objects.stat(object.id) === undefined && !isOptional(object));
}

/** Engines that versions name and the store lacks, where no other one here can replay these versions. */
function absentEngines(
  context: RepositoryContext,
  versions: ReadonlySet<Hash>,
): CheckReport["absentEngines"] {
  const { objects, records, state } = context;
  const counts = new Map<Hash, number>();
  for (const versionId of versions) {
    const engine = records.get(versionId)?.uses?.engine;
    const version = state.versions.get(versionId);
    if (engine === undefined || objects.has(engine) || version === undefined) continue;
    // The absence of the engine that a recovery needs is a problem of its own.
    if (version.dropped !== undefined) continue;
    if (lacksEngine(context, version)) counts.set(engine, (counts.get(engine) ?? 0) + 1);
  }
  return [...counts].map(([engine, count]) => ({ engine, versions: count }));
}

/** Returns why a tensor cannot be read: it, or a tensor that it is encoded against, is missing or damaged. */
function unreadableError(objects: Pick<PackStore, "openTensor" | "damageOf">, tensor: Hash): StemmaError {
  const known = objects.damageOf(tensor);
  if (known !== undefined) return known;
  try {
    objects.openTensor(tensor);
  } catch (error) {
    if (isStemmaError(error)) return error;
    throw error;
  }
  return new StemmaError(
    "OBJECT_MISSING",
    `The tensor ${tensor} could not be read a moment ago. Check again.`,
    { id: tensor },
  );
}
