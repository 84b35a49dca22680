/**
 * Detects that a fleet's journal lost its end, and exchanges a journal for a salvaged one. The head file
 * states how long the journal was; it is made durable with the journal, before anything is recorded. So a
 * journal without it, beside save records that no fact names, was cut or removed.
 */
import { join } from "node:path";
import { frameAt, segmentHeaderBytes } from "../../../shared/journal/frame.js";
import { listSegments, readSegment } from "../../../shared/journal/load-segments.js";
import { headName } from "../../../shared/journal/open-journal.js";
import type { ObjectReader } from "../../../shared/objects/object-store.js";
import type { Files } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { headMissing } from "./repository-errors.js";
import { factCodec } from "./state/fact-codec.js";
import { applyFact } from "./state/apply-fact.js";
import { emptyState, type FleetState } from "./state/state.js";

export function journalFolderOf(fleetFolder: string): string {
  return join(fleetFolder, "journal");
}
/** A salvaged journal that is complete and not yet in its place. */
export function nextJournalFolderOf(fleetFolder: string): string {
  return join(fleetFolder, "journal.next");
}

/** The state that the readable start of a journal leads to. Verifies nothing. */
export async function readState(files: Files, journalFolder: string): Promise<FleetState> {
  const state = emptyState();
  for (const { first, path } of await listSegments(files, journalFolder)) {
    const bytes = await readSegment(files, path);
    let position = first;
    let frame = frameAt(bytes, segmentHeaderBytes);
    for (; frame !== undefined; frame = frameAt(bytes, frame.end))
      applyFact(state, position++, factCodec.decode(frame.payload));
  }
  return state;
}

/** Versions whose save records are in the store and that no fact names. */
export function unrecordedVersions(
  objects: Pick<ObjectReader, "list">,
  { versions, claims }: Pick<FleetState, "versions" | "claims">,
): readonly Hash[] {
  return [...objects.list()]
    .filter(({ kind, id }) => kind === "record" && !versions.has(id) && !claims.has(id))
    .map(({ id }) => id);
}

/**
 * Call before the journal is opened, which writes the head file. @throws JOURNAL_CORRUPT where the head file is
 * missing and the store has records that the journal does not name
 */
export async function refuseLostJournal(
  files: Files,
  fleetFolder: string,
  objects: Pick<ObjectReader, "list">,
): Promise<void> {
  const folder = journalFolderOf(fleetFolder);
  if ((await files.stat(join(folder, headName))) !== undefined) return;
  // Without records there is nothing that a fact could be missing for.
  if (unrecordedVersions(objects, emptyState()).length === 0) return;
  const lost = unrecordedVersions(objects, await readState(files, folder));
  if (lost.length > 0) throw headMissing(folder, lost);
}

/**
 * Puts a complete salvaged journal in its place, also one that a crash left. Returns where the old one is now,
 * undefined where there was none.
 */
export async function setJournalAside(
  files: Files,
  fleetFolder: string,
  nowMs: number,
): Promise<string | undefined> {
  const next = nextJournalFolderOf(fleetFolder);
  if ((await files.stat(next)) === undefined) return undefined;
  const journal = journalFolderOf(fleetFolder);
  let aside = join(fleetFolder, `journal-set-aside-${nowMs}`);
  for (let other = 1; (await files.stat(aside)) !== undefined; other++)
    aside = join(fleetFolder, `journal-set-aside-${nowMs}-${other}`);
  const hasJournal = (await files.stat(journal)) !== undefined;
  if (hasJournal) {
    await files.rename(journal, aside);
    await files.syncFolder(fleetFolder);
  }
  await files.rename(next, journal);
  await files.syncFolder(fleetFolder);
  return hasJournal ? aside : undefined;
}
