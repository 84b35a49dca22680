/**
 * Keeps what can be read of a fleet's damaged journal (`stemma journal salvage`). The journal as it was is set
 * aside, never deleted. The new one has the same entries up to the damage, so its chain and head stay provable
 * up to there; then, where something is lost, the fact `restored`, so that devices announce again what they
 * have; then the intact facts from after the damage. Versions whose records are in the store and that no fact
 * names are recorded again.
 *
 *     journal.next.tmp/           being written
 *     journal.next/               complete; takes the place of journal/, also after a crash
 *     journal-set-aside-<time>/   the journal as it was found
 */
import { join } from "node:path";
import { isStemmaError } from "../../../shared/errors.js";
import { messageOf } from "../../../shared/error-text.js";
import type { Caller } from "../../../shared/journal/caller.js";
import type { Fact } from "../../../shared/journal/fact.js";
import { newestHead, type KeptHead } from "../../../shared/journal/head.js";
import { headMessage } from "../../../shared/journal/head-message.js";
import type { FactCodec } from "../../../shared/journal/journal.js";
import { headName, openJournal } from "../../../shared/journal/open-journal.js";
import { loadSegments } from "../../../shared/journal/load-segments.js";
import { readDamagedJournal, type SalvagedEntries } from "../../../shared/journal/salvage.js";
import { decodeSaveRecord } from "../../../shared/model/save-record.js";
import { openPacksReadOnly, type PackStore } from "../../../shared/objects/pack-store.js";
import type { Files } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { FleetRepository } from "./fleet-repository.js";
import { requireFleet, type Home } from "./home.js";
import { headSigner } from "./journal-key.js";
import { openRepositoryIn } from "./open-repository.js";
import { restoredFact } from "./restored-fact.js";
import { factCodec } from "./state/fact-codec.js";
import { journalFolderOf, nextJournalFolderOf, setJournalAside, unrecordedVersions } from "./lost-journal.js";
import { applyFact } from "./state/apply-fact.js";
import { emptyState } from "./state/state.js";

export interface SalvageReport {
  readonly fleet: string;
  /** Facts whose chain verifies. */
  readonly verified: number;
  /** Positions of facts in which a flipped bit was put right. */
  readonly repaired: readonly number[];
  /** Facts after the damage that are intact; their place in the history cannot be proven. */
  readonly later: number;
  /** Places where facts are lost; how many facts is not known. */
  readonly gaps: number;
  /** True if the facts agree with the signed head; null where there is none to compare with. */
  readonly agreesWithHead: boolean | null;
  /** Versions in the store that no fact named; recorded again, unless `dryRun`. */
  readonly recordedAgain: readonly { readonly versionId: Hash; readonly name: string }[];
  /** The refused versions, which are not complete, and why. */
  readonly refused: readonly { readonly versionId: Hash; readonly message: string }[];
  /** The folder with the journal as it was; null where nothing had to be changed. */
  readonly setAside: string | null;
}

/** Entries that are bytes already. */
const bytesCodec: FactCodec<Uint8Array> = { encode: (bytes) => bytes, decode: (bytes) => bytes };
/** Entries appended together, so that few fsyncs are needed. */
const appendedTogether = 1000;

/** @throws NOT_FOUND for a fleet that the home does not have, DISK_FULL, FILE_FAILED */
export async function salvageJournal(
  home: Home,
  fleet: string,
  { dryRun = false, caller }: { readonly dryRun?: boolean; readonly caller?: Caller } = {},
): Promise<SalvageReport> {
  await requireFleet(home, fleet);
  return await salvageFolder(home, { fleet, folder: home.fleetFolder(fleet) }, { dryRun, caller });
}

/** Salvages like salvageJournal, for a fleet that is in another folder of the home while it is being restored. */
export async function salvageFolder(
  home: Home,
  { fleet, folder }: { readonly fleet: string; readonly folder: string },
  { dryRun, caller }: { readonly dryRun: boolean; readonly caller: Caller | undefined },
): Promise<SalvageReport> {
  const { files, clock, random } = home.ports;
  const head = await trustedHead(home, folder);
  const found = await readDamagedJournal(files, journalFolderOf(folder), head);
  const facts = [...found.verified, ...found.later].map((payload) => factCodec.decode(payload));
  const objects = await openPacksReadOnly(files, join(folder, "packs"), { clock, random });
  let unrecorded: readonly Hash[];
  let report: SalvageReport;
  try {
    unrecorded = head === undefined || found.gaps > 0 ? unrecordedVersions(objects, stateOf(facts)) : [];
    report = {
      fleet,
      verified: found.verified.length,
      repaired: found.repaired,
      later: found.later.length,
      gaps: found.gaps,
      agreesWithHead: found.agreesWithHead ?? null,
      recordedAgain: await inOrder(objects, unrecorded),
      refused: [],
      setAside: null,
    };
  } finally {
    await objects.close();
  }
  if (dryRun || (head !== undefined && (await verifies(files, folder, head)))) return report;
  const isLossy = found.gaps > 0 || unrecorded.length > 0;
  const lostFrom = found.verified.length;
  const restored = restoredFact({ clock, random }, { position: lostFrom, lostFrom, by: caller });
  const setAside = await replaceJournal(home, folder, found, isLossy ? restored : undefined);
  // Opening the repository verifies the new journal.
  const repository = await openRepositoryIn(home, fleet, folder);
  return {
    ...report,
    setAside,
    ...(await recordAgain(caller === undefined ? repository : repository.as(caller), report.recordedAgain)),
  };
}

/** True if the journal opens as it is. */
async function verifies(files: Files, folder: string, head: KeptHead): Promise<boolean> {
  try {
    await loadSegments(files, journalFolderOf(folder), head);
    return true;
  } catch (error) {
    if (isStemmaError(error)) return false;
    throw error;
  }
}

/** The state that facts lead to. */
export function stateOf(facts: readonly Fact[]): ReturnType<typeof emptyState> {
  const state = emptyState();
  facts.forEach((fact, position) => applyFact(state, position, fact));
  return state;
}

/** The head that this home's key signed; any other proves nothing. */
async function trustedHead(home: Home, folder: string): Promise<KeptHead | undefined> {
  const { files } = home.ports;
  const path = join(journalFolderOf(folder), headName);
  if ((await files.stat(path)) === undefined) return undefined;
  const head = newestHead(await files.read(path));
  if (head === undefined) return undefined;
  const isOwn = headSigner(home).verify?.(headMessage(head), head.signature, head.publicKey);
  return isOwn === true ? head : undefined;
}

/** The versions in the order in which they were saved. Unreadable records come last and are refused later. */
async function inOrder(
  objects: Pick<PackStore, "read">,
  versionIds: readonly Hash[],
): Promise<SalvageReport["recordedAgain"]> {
  const versions = await Promise.all(
    versionIds.map(async (versionId) => {
      try {
        const { name, savedAtMs, sequence } = decodeSaveRecord(await objects.read("record", versionId));
        return { versionId, name, savedAtMs, sequence };
      } catch (error) {
        if (!isStemmaError(error)) throw error;
        return { versionId, name: "", savedAtMs: Infinity, sequence: 0 };
      }
    }),
  );
  return versions
    .sort((a, b) =>
      a.savedAtMs === b.savedAtMs ? a.sequence - b.sequence : a.savedAtMs < b.savedAtMs ? -1 : 1,
    )
    .map(({ versionId, name }) => ({ versionId, name }));
}

/** Writes the new journal beside the old one and exchanges them. Returns the old one's new place. */
async function replaceJournal(
  home: Home,
  folder: string,
  { verified, later }: SalvagedEntries,
  restored: Fact | undefined,
): Promise<string | null> {
  const { files, clock } = home.ports;
  const temporary = `${nextJournalFolderOf(folder)}.tmp`;
  await files.remove(temporary);
  const journal = await openJournal<Uint8Array>(files, temporary, {
    signer: headSigner(home),
    codec: bytesCodec,
  });
  try {
    await appendAll(journal, verified);
    if (restored !== undefined) await journal.append([factCodec.encode(restored)]);
    await appendAll(journal, later);
  } finally {
    await journal.close();
  }
  await files.rename(temporary, nextJournalFolderOf(folder));
  await files.syncFolder(folder);
  return (await setJournalAside(files, folder, clock.now())) ?? null;
}

async function appendAll(
  journal: { append(entries: readonly Uint8Array[]): Promise<unknown> },
  entries: readonly Uint8Array[],
): Promise<void> {
  for (let at = 0; at < entries.length; at += appendedTogether)
    await journal.append(entries.slice(at, at + appendedTogether));
}

/** Records versions that no fact names, and closes the repository. */
async function recordAgain(
  repository: FleetRepository,
  versions: SalvageReport["recordedAgain"],
): Promise<Pick<SalvageReport, "recordedAgain" | "refused">> {
  const recordedAgain: { versionId: Hash; name: string }[] = [];
  const refused: { versionId: Hash; message: string }[] = [];
  try {
    for (const { versionId } of versions)
      try {
        const { name } = await repository.record(await repository.objects.read("record", versionId));
        recordedAgain.push({ versionId, name });
      } catch (error) {
        if (!isStemmaError(error)) throw error;
        refused.push({ versionId, message: messageOf(error) });
      }
  } finally {
    await repository.close();
  }
  return { recordedAgain, refused };
}
