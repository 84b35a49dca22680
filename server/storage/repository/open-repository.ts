/**
 * Opens one fleet of a home: its packs, its journal, and the state that follows from the journal. Composes
 * the FleetRepository from the functions of this folder.
 */
import { join } from "node:path";
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { defined } from "../../../shared/defined.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { makeFolderDurably } from "../../../shared/files/make-folder.js";
import type { Fact } from "../../../shared/journal/fact.js";
import type { FileJournal } from "../../../shared/journal/file-journal.js";
import { openJournal } from "../../../shared/journal/open-journal.js";
import { openPackStore, type PackStore } from "../../../shared/objects/pack-store.js";
import type { Files } from "../../../shared/ports.js";
import { appendFacts, checkRetirable } from "./state/append-facts.js";
import { numberKey } from "../../access/identity/trusted-authority.js";
import { PostingIndex } from "../lineage/posting-index.js";
import { commonAncestorOf, descendantsOf, generationsTo } from "./state/ancestry.js";
import { predecessorsOf, successorsOf } from "./state/successors.js";
import { fleetAsOf } from "./state/as-of.js";
import { fleetCheckpoints } from "./checkpoints.js";
import { CatalogKeeper } from "./catalog-keeper.js";
import { ModelLeases } from "./model-leases.js";
import { IdentityCache } from "./identity-cache.js";
import { DecodedArchitectures } from "../../../shared/model/kept-architectures.js";
import { PrefixKeeper } from "./prefix-keeper.js";
import type { RowKeeper } from "./row-keeper.js";
import { collect, liveObjects, planCollection } from "./collection.js";
import { CommitQueue } from "./commit-queue.js";
import type { RepositoryContext } from "./context.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import {
  activeOn,
  hasActivation,
  isAssignedByEnrolment,
  lineKey,
  nextGeneration,
} from "./state/device-state.js";
import { deviceSummary } from "./state/device-summary.js";
import { diffVersions, requireKept } from "./versions/diff-versions.js";
import { requireRollout, stagedFor } from "./state/rollout-state.js";
import { isStillGiven } from "./state/rollout-switches.js";
import { factCodec } from "./state/fact-codec.js";
import type { KnownDamage } from "./answers/store-answers.js";
import type { FleetRepository } from "./fleet-repository.js";
import { findDataObject, pushDataset, removeDataset, versionsWithData } from "./datasets.js";
import {
  approveRecipe,
  giveRecipe,
  knownRecipes,
  readApprovedRecipe,
  recipeSummaries,
  revokeRecipe,
  wasGivenRecipe,
} from "./recipes.js";
import { engineSummaries, removeEngine, storeEngine } from "./engines.js";
import { evaluationsOf, storeEvaluation } from "./evaluations.js";
import { publishReleases, readReleases } from "./releases.js";
import type { Home, DiskReserve } from "./home.js";
import { headSigner, noteKeyChanges } from "./journal-key.js";
import { fleetStats } from "./fleet-stats.js";
import { journalFolderOf, refuseLostJournal, setJournalAside } from "./lost-journal.js";
import { indexEveryFacts, IndexWriting, readHistory, type History } from "./read-history.js";
import { versionsOnLine } from "./state/versions-in-use.js";
import { linesOf, recordVersion } from "./versions/record-version.js";
import { endClaim, findClaim, giveUpClaim, listClaims, proveClaim, recordClaim } from "./versions/claims.js";
import { DroppedTensors, type RebuildTensors } from "./versions/dropped-tensors.js";
import { dataDropCandidates, dropData } from "./versions/drop-data.js";
import { weighDrops } from "./versions/weigh-drops.js";
import { dropCandidates, dropTensors, keepTensors } from "./versions/drop-version.js";
import { confirmStored, recoverVersion, releaseVersion } from "./versions/recover-version.js";
import { verifyVersion } from "./versions/verify-version.js";
import { readLeaves, ReferenceIndex } from "./state/references.js";
import { deleteQuery, savedQueries, saveQuery } from "./saved-queries.js";
import { dropPolicies, setDropPolicy } from "./retention/drop-policies.js";
import { fleetRetention } from "./retention/retention.js";
import { fleetTiers } from "./tiers/fleet-tiers.js";
import { saveVersion } from "./versions/save-version.js";
import { backedUpTo } from "./state/restore-state.js";
import { headOfLine, selectVersions, versionNumbered } from "./state/select-versions.js";
import {
  countVersions,
  findVersion,
  lineageOf,
  listVersions,
  requireVersion,
  resolveReference,
  hasHad,
  hasSent,
  unreadableVersions,
  type VersionTable,
} from "./state/version-table.js";

/**
 * Maximum time between a pack's commit and the fact that refers to it; collections keep packs for this time.
 */
const recordGraceMs = 60_000;

/**
 * Opens a fleet; creates it where there is none. A fleet needs no registration; only devices are enrolled.
 * @param rebuild makes dropped tensors again; absent: versions without tensors cannot be recovered
 * @throws NAME_INVALID, JOURNAL_CORRUPT, PACK_CORRUPT, HEAD_SIGNATURE_INVALID
 */
export async function openRepository(
  home: Home,
  fleet: string,
  rebuild?: RebuildTensors,
): Promise<FleetRepository> {
  return await openRepositoryIn(home, fleet, home.fleetFolder(fleet), rebuild);
}

/**
 * Opens a repository like openRepository, for a fleet that is in another folder of the home while it is being restored.
 */
export async function openRepositoryIn(
  home: Home,
  fleet: string,
  folder: string,
  rebuild?: RebuildTensors,
): Promise<FleetRepository> {
  const context = await openContext(home, { fleet, folder, rebuild });
  const repository = repositoryOf(context, home);
  if (home.changes === undefined) await noteKeyChanges(context.state, home, repository);
  return repository;
}

async function openFleetJournal(
  files: Files,
  folder: string,
  home: Pick<Home, "signer" | "keyChanges" | "ports">,
): Promise<FileJournal> {
  try {
    return await openJournal<Fact>(files, journalFolderOf(folder), {
      signer: headSigner(home),
      codec: factCodec,
      blockLevel: home.ports.journalBlockLevel,
    });
  } catch (error) {
    if (!isStemmaError(error, "JOURNAL_CORRUPT")) throw error;
    throw new StemmaError(
      "JOURNAL_CORRUPT",
      `${error.message} Without a backup, \`stemma journal salvage\` keeps what verifies.`,
      { ...error.details, cause: error },
    );
  }
}

async function openContext(
  home: Home,
  {
    fleet,
    folder,
    rebuild,
  }: { readonly fleet: string; readonly folder: string; readonly rebuild: RebuildTensors | undefined },
): Promise<RepositoryContext> {
  const { ports } = home;
  const { files, clock, random, log } = ports;
  await home.changes?.begin(folder);
  await makeFolderDurably(files, folder);
  // A pack is there before the facts that name it: who reads beside a writer reads the facts first.
  const earlyJournal = home.changes === undefined ? undefined : await openFleetJournal(files, folder, home);
  const objects = await openObjects(home, fleet, folder);
  let opened = earlyJournal;
  let index: RepositoryContext["index"] | undefined;
  try {
    await setJournalAside(files, folder, clock.now());
    await refuseLostJournal(files, folder, objects);
    const journal = (opened ??= await openFleetJournal(files, folder, home));
    const history = await readHistory(home, { fleet, folder, journal, objects });
    ({ index } = history);
    const { state, records } = history;
    const writing = new IndexWriting(history, journal, indexEveryFacts(home), log);
    const keepers = keepersOf(history, { files, folder, objects, log });
    let rows: Promise<RowKeeper> | undefined;
    return {
      fleet,
      folder,
      files,
      clock,
      random,
      log,
      objects,
      journal,
      ...history,
      environment: ports.environment ?? { backend: "none" },
      queue: new CommitQueue(objects, journal, state, () => {
        writing.applied();
      }),
      endIndex: () => writing.end(),
      references: new ReferenceIndex(objects, state, records),
      ...keepers,
      rows: () => (rows ??= openRows(history)),
      droppedTensors: new DroppedTensors(rebuild),
      leases: await ModelLeases.open({ objects, files, folder, clock, random, log }),
      versionsChanged: (versionIds) => {
        keepers.catalog.changed(versionIds);
        keepers.prefixes.changed(versionIds);
        void rows?.then((keeper) => {
          keeper.changed(versionIds);
        });
      },
      maintenanceQueue: new SerialQueue(),
      checkpointQueue: new SerialQueue(),
    };
  } catch (error) {
    await index?.close();
    await opened?.close();
    await objects.close();
    throw error;
  }
}

async function openObjects({ ports, tiers }: Home, fleet: string, folder: string): Promise<PackStore> {
  const { files, clock, random, log, onOpening } = ports;
  onOpening?.({ fleet });
  return await openPackStore(files, join(folder, "packs"), {
    clock,
    random,
    graceMs: recordGraceMs,
    tiers: () => tiers.of(fleet),
    onPacks: (packs) => onOpening?.({ fleet, packs }),
    ...defined({ log }),
  });
}

/** Loaded when first queried: most commands never do. */
async function openRows(table: VersionTable): Promise<RowKeeper> {
  const { RowKeeper: Keeper } = await import("./row-keeper.js");
  return new Keeper(table);
}

/** The indexes in memory, which are made at the first question. */
function keepersOf(
  table: VersionTable & Pick<History, "candidates">,
  { files, folder, objects, log }: Pick<RepositoryContext, "files" | "folder" | "objects" | "log">,
): Pick<RepositoryContext, "catalog" | "prefixes" | "architectures"> {
  const architectures = new DecodedArchitectures(objects);
  return {
    architectures,
    catalog: new CatalogKeeper({
      table,
      objects,
      // Loaded when first queried: most commands never do.
      open: async () => (await import("../catalog/nedb-catalog.js")).openNedbCatalog(),
      log,
    }),
    prefixes: new PrefixKeeper({
      table,
      candidates: table.candidates,
      architectures,
      cache: new IdentityCache(files, folder),
      createIndex: () => new PostingIndex(),
      log,
    }),
  };
}

// eslint-disable-next-line max-lines-per-function -- a table: one line for most methods
function repositoryOf(context: RepositoryContext, home: Home): FleetRepository {
  const { state, objects, journal, clock } = context;
  const append = (...facts: readonly Fact[]): Promise<readonly number[]> => appendFacts(context, facts);
  const now = (): number => clock.now();
  const freeing = <T>(work: () => Promise<T>): Promise<T> => withReserve(home.ports.reserve, home.path, work);
  return {
    fleet: context.fleet,
    home: home.path,
    objects,
    journal,
    failed: Promise.race([journal.stopped, objects.failed, context.index.failed]),
    ...lookups(context),
    save: (model, options) => saveVersion(context, model, options),
    record: (recordBytes, options) => recordVersion(context, recordBytes, options),
    recordClaim: (recordBytes, options) => recordClaim(context, recordBytes, options),
    prepareBundle: async (bundle) =>
      (await import("./versions/record-bundle.js")).prepareBundle(context, bundle),
    recordBundle: async (prepared) =>
      (await import("./versions/record-bundle.js")).recordBundle(context, prepared),
    listings: () => state.listings.values(),
    listing: (versionId) => state.listings.get(versionId),
    claim: (versionId) => findClaim(context, versionId),
    claims: () => listClaims(context),
    proveClaim: (proof, writtenBytes) => proveClaim(context, proof, writtenBytes),
    endClaim: (fact) => endClaim(context, fact),
    giveUpClaim: (versionId, because) => giveUpClaim(context, versionId, because),
    confirmStored: (versionId) => confirmStored(context, versionId),
    release: (versionId, because) => releaseVersion(context, versionId, because),
    recover: (versionId, options) => recoverVersion(context, versionId, options),
    verify: (versionId, options) => verifyVersion(context, versionId, options),
    diff: (a, b) => diffVersions(context, a, b),
    append,
    tag: async (name, tag, versionId) => {
      await append({ type: "tagged", atMs: now(), name, tag, versionId });
    },
    retire: async (versionId, because) => {
      if (requireVersion(context, versionId).state !== "retired")
        await freeing(() => append({ type: "retired", atMs: now(), versionId, because }));
    },
    planErasure: async (devices) =>
      (await import("./erasure/erase-devices.js")).planErasure(context, devices),
    eraseDevices: (devices, because) =>
      freeing(async () =>
        (await import("./erasure/erase-devices.js")).eraseDevices(context, devices, because),
      ),
    checkRetirable: (versionId) => {
      checkRetirable(state, versionId);
    },
    hold: async (versionId, because) => {
      await append({ type: "held", atMs: now(), versionId, because });
    },
    unhold: async (versionId, because) => {
      await append({ type: "unheld", atMs: now(), versionId, because });
    },
    retention: fleetRetention(context),
    dropPolicies: () => dropPolicies(context),
    setDropPolicy: (scope, policy) => setDropPolicy(context, scope, policy),
    leases: context.leases,
    ensureTensors: (versionId, signal) => context.droppedTensors.ensure(context, versionId, signal),
    dropTensors: (request) => dropTensors(context, request),
    keepTensors: (versionId, because) => freeing(() => keepTensors(context, versionId, because)),
    lines: () => linesOf(context),
    versionsOnLine: (line) => versionsOnLine(state, line),
    dropCandidates: (busy) => dropCandidates(context, busy),
    weighDrops: (drops) => weighDrops(context, drops),
    dataDropCandidates: () => dataDropCandidates(context),
    dropData: (versionId, because) => freeing(() => dropData(context, versionId, because)),
    tiers: fleetTiers(context, home.tiers),
    isRedacted: (object) => state.redacted.has(object),
    storeEvaluation: (evaluation, predictions) => storeEvaluation(context, evaluation, predictions),
    evaluations: (versionIds) => evaluationsOf(context, versionIds),
    ownerTime: () => state.ownerTime,
    releases: () => readReleases(context),
    publishReleases: (change) => publishReleases(context, change),
    engines: () => engineSummaries(context),
    storeEngine: (archive, approval) => storeEngine(context, archive, approval),
    removeEngine: (engine, because) => removeEngine(context, engine, because),
    recipes: () => recipeSummaries(context),
    knownRecipes: () => knownRecipes(context),
    approveRecipe: (bundle, approval) => approveRecipe(context, bundle, approval),
    revokeRecipe: (recipe, because) => revokeRecipe(context, recipe, because),
    readRecipe: (recipe) => readApprovedRecipe(context, recipe),
    giveRecipe: (device, recipe) => giveRecipe(context, device, recipe),
    wasGivenRecipe: (device, recipe) => wasGivenRecipe(context, device, recipe),
    dataObject: (content) => findDataObject(context, content),
    versionsWithData: (content) => versionsWithData(context, content),
    pushDataset: (name, pieces, options) => pushDataset(context, name, pieces, options),
    removeDataset: (name, options) => removeDataset(context, name, options),
    savedQueries: () => savedQueries(context),
    saveQuery: (name, text) => saveQuery(context, name, text),
    deleteQuery: (name) => deleteQuery(context, name),
    liveObjects: () => liveObjects(context),
    planCollection: () => planCollection(context),
    collect: (plan) => freeing(() => collect(context, plan)),
    // Packs are not merged beside a backup or a check, which read the packs that it would remove.
    mergePacks: (options) => context.maintenanceQueue.run(() => objects.merging.merge(options)),
    check: async (options) => (await import("./check-fleet.js")).checkFleet(context, options),
    reindex: async () => ({
      versions: await context.catalog.rebuild(),
      unreadable: unreadableVersions(context),
    }),
    knownDamage: () => knownDamage(context),
    stats: () => fleetStats(context),
    backup: async (folder, passphrase) =>
      (await import("./backup/backup.js")).backupFleet(context, home, folder, passphrase),
    backedUpTo: () => backedUpTo(state),
    restores: () => state.restores,
    checkpoints: fleetCheckpoints(context, home),
    as: (caller, request) => repositoryOf({ ...context, queue: context.queue.as(caller, request) }, home),
    close: async () => {
      await context.droppedTensors.close();
      await context.queue.settled();
      await context.endIndex();
      await context.index.close();
      await context.recordCache.flush();
      await journal.close();
      await objects.close();
    },
  };
}

function hasSwitched(
  context: Pick<RepositoryContext, "state" | "records">,
  {
    device: name,
    line,
    versionId,
  }: { readonly device: string; readonly line: string; readonly versionId: Hash },
): boolean {
  const device = context.state.devices.get(name);
  if (device?.assignments.get(line)?.versionId !== versionId || device.unanswered.has(line)) return false;
  if (!isAssignedByEnrolment(device, line)) return true;
  const active = activeOn(device, line)?.versionId;
  return active !== undefined && generationsTo(context, active).has(versionId);
}

function knownDamage(context: RepositoryContext): KnownDamage {
  return {
    packs: context.objects.problems().map(({ pack, id = null, error: { code, message } }) => ({
      pack,
      id,
      code,
      message,
    })),
    versions: unreadableVersions(context),
  };
}

type Lookups = Pick<
  FleetRepository,
  | "batches"
  | "authorities"
  | "authority"
  | "hasHadAuthority"
  | "isEndedCertificate"
  | "resolve"
  | "get"
  | "versions"
  | "lineage"
  | "descendants"
  | "commonAncestor"
  | "generations"
  | "successors"
  | "predecessors"
  | "nearest"
  | "rankedSource"
  | "leaves"
  | "list"
  | "rows"
  | "asOf"
  | "devices"
  | "device"
  | "nextGeneration"
  | "ran"
  | "rollouts"
  | "rollout"
  | "stagedFor"
  | "assignment"
  | "isAssignmentAnswered"
  | "hasSwitched"
  | "architecture"
  | "isStillGiven"
  | "hasHad"
  | "hasSent"
  | "deliveries"
  | "versionCount"
  | "select"
  | "numbered"
  | "headOfLine"
  | "hasActivation"
  | "datasets"
>;

// eslint-disable-next-line max-lines-per-function -- a table: one line for most methods
function lookups(context: RepositoryContext): Lookups {
  const { state, clock } = context;
  return {
    resolve: (reference) => resolveReference(context, reference),
    get: (versionId) => findVersion(context, versionId),
    versions: (filter) => listVersions(context, filter),
    versionCount: () => countVersions(context),
    select: (selection, range) => selectVersions(context, selection, range),
    numbered: (place, sequence) => versionNumbered(context, place, sequence),
    headOfLine: (place, generation) => headOfLine(context, place, generation),
    lineage: (versionId, page) => lineageOf(context, versionId, page),
    descendants: (versionId, page) => descendantsOf(context, versionId, page),
    commonAncestor: (a, b) => commonAncestorOf(context, a, b),
    generations: (versionId) => generationsTo(context, versionId),
    successors: (versionId) => successorsOf(context, versionId),
    predecessors: (versionId) => predecessorsOf(context, versionId),
    architecture: (id) => context.architectures.read(id),
    rankedSource: (architecture, weights, except) => context.prefixes.ranked(architecture, weights, except),
    nearest: (architecture, except) => context.prefixes.nearest(architecture, except),
    rows: context.rows,
    leaves: async (versionId, lease) =>
      await readLeaves(context.objects, requireKept(context, versionId, lease).record),
    list: async (query) => {
      const { versionIds, total } = await context.catalog.find(query);
      return {
        versions: versionIds.map((versionId) => requireVersion(context, versionId)),
        total,
        unreadable:
          (query.offset ?? 0) > 0
            ? []
            : unreadableVersions(context).filter(
                ({ name }) => query.name === undefined || query.name === name,
              ),
      };
    },
    asOf: (atMs) => {
      if (!Number.isFinite(atMs))
        throw new StemmaError(
          "USAGE",
          "A moment is milliseconds since 1970. Give a time such as 2026-03-01T12:00:00Z.",
        );
      return fleetAsOf(state, atMs, clock.now());
    },
    devices: () =>
      [...state.devices.values()].filter(({ removed }) => removed === undefined).map(deviceSummary),
    device: (name) => {
      const device = state.devices.get(name);
      return device === undefined ? undefined : deviceSummary(device);
    },
    batches: () => [...state.batches.values()],
    authorities: () => [...state.authorities.values()].filter(({ removed }) => removed === undefined),
    hasHadAuthority: () => state.authorities.size > 0,
    authority: (name) => {
      const authority = state.authorities.get(name);
      return authority?.removed === undefined ? authority : undefined;
    },
    isEndedCertificate: (certificate) => state.endedCertificates.has(numberKey(certificate)),
    nextGeneration: (name) => nextGeneration(state.devices.get(name), state.generationFloor),
    ran: (device, line) => [...state.activations.of(lineKey(device, line))].map(({ versionId }) => versionId),
    rollouts: () => [...state.rollouts.values()],
    rollout: (name) => requireRollout(state.rollouts, name),
    stagedFor: (device) => [...stagedFor(state.rollouts, device)],
    assignment: (device, line) => state.devices.get(device)?.assignments.get(line)?.versionId,
    isAssignmentAnswered: (device, line) => state.devices.get(device)?.unanswered.has(line) !== true,
    hasSwitched: (device, line, versionId) => hasSwitched(context, { device, line, versionId }),
    isStillGiven: (device, rollout) => isStillGiven(state.devices.get(device), rollout),
    hasHad: (device, versionId) => hasHad(context, device, versionId),
    hasSent: (device, versionId) => hasSent(context, device, versionId),
    deliveries: (device) => state.devices.get(device)?.deliveries ?? [],
    hasActivation: (name, activation) => {
      const device = state.devices.get(name);
      return device !== undefined && hasActivation(device, state.activations, activation);
    },
    datasets: () => [...state.datasets.values()],
  };
}

/**
 * Runs `work`, which frees space, and once more without the reserve where the disk is full. A command that takes the
 * lock on a full disk gets the reserve beside the lock; a server holds the lock already, so it gives the reserve up
 * here. `work` must change nothing where it fails with DISK_FULL. Afterwards the reserve is made again where there is
 * space.
 */
async function withReserve<T>(
  reserve: DiskReserve | undefined,
  home: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isStemmaError(error, "DISK_FULL") || reserve === undefined || !(await reserve.claim(home)))
      throw error;
    return await work();
  } finally {
    await reserve?.keep(home);
  }
}
